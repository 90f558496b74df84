//! The AMQP client: passive declares on some channels of one connection.
//!
//! Invariants:
//! - Only [`Egress`](crate::egress::Egress) opens the connection, and it is the only one: a new one replaces a broken one.
//! - A declare is passive: it makes nothing. The broker answers one that it refuses by closing the channel, which costs that
//!   channel and no other queue's answer.
//! - A connection that did not answer in time is cut, so that nothing of it stays behind.
//! - What the connection negotiates is ours to say and never the tenant's: no parameter of `host` gets here.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use lapin::{
    Channel, Connection, ConnectionProperties,
    auth::AuthProvider,
    options::QueueDeclareOptions,
    types::{FieldTable, LongString, ShortString},
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo},
};
use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout_at};

use super::{
    errors,
    settings::{Auth, Settings},
    stream::{self, Cord},
};
use crate::{
    metadata::ParameterError,
    sampler::{Environment, SampleError, Subject},
    tenant::TenantId,
    tls,
};

/// Declares in flight, each on a channel of its own.
const CHANNELS: usize = 16;
/// Channels of a connection, over its whole life: RabbitMQ's own limit of the numbers. lapin 4.12 never forgets the error that
/// the broker closed a channel with: a later channel of the same number fails with it at once, and a queue would be said to be
/// missing because another one was. So a number is used once, and a connection that has used all is replaced.
const CHANNEL_MAX: u16 = 2047;
/// The least that RabbitMQ has known since 4.1. lapin keeps 64 frames in memory for each connection: 512 KiB of these, and
/// 8 MiB of RabbitMQ's own 128 KiB. A declare and its answer have some hundred bytes.
const FRAME_MAX: u32 = 8192;
/// Seconds.
const HEARTBEAT: u16 = 10;
/// TLS, SASL and the opening of the virtual host (safety.md E5).
const OPEN_WITHIN: Duration = Duration::from_secs(5);

/// What a passive declare tells of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// Ready messages.
    pub(super) messages: u32,
    pub(super) consumers: u32,
}

type Answer = Result<Declared, SampleError>;

/// The client of one virtual host.
pub(super) struct AmqpClient {
    dialer: Dialer,
    link: Option<Link>,
}

struct Dialer {
    tenant: TenantId,
    environment: Environment,
    host: String,
    port: u16,
    vhost: String,
    tls: Option<Arc<ClientConfig>>,
    sasl: Sasl,
}

/// An open connection. The fields are dropped in this order: first the stream ends, then lapin finds out.
struct Link {
    #[expect(dead_code, reason = "it is there to be dropped")]
    cord: Cord,
    channels: Mutex<Vec<Channel>>,
    /// How many channels were opened.
    opened: AtomicUsize,
    connection: Connection,
}

/// How to authenticate: lapin's own way would keep the password in a type that prints it.
#[derive(Clone)]
struct Sasl {
    mechanism: &'static str,
    response: SecretString,
}

impl Sasl {
    fn plain(username: &str, password: &str) -> Self {
        Self { mechanism: "PLAIN", response: format!("\0{username}\0{password}").into() }
    }

    /// For the text that tells of a refusal.
    fn name(&self) -> &'static str {
        if self.mechanism == "PLAIN" { "plain" } else { "external" }
    }
}

impl AuthProvider for Sasl {
    fn mechanism(&self) -> ShortString {
        self.mechanism.into()
    }

    fn auth_starter(&self) -> Result<LongString, String> {
        Ok(self.response.expose_secret().into())
    }

    fn continue_auth(&self, _challenge: LongString) -> Result<LongString, String> {
        Err("a challenge that the mechanism does not have".to_owned())
    }
}

impl AmqpClient {
    /// A client that connects when it is first asked.
    pub(super) fn new(
        tenant: &TenantId,
        settings: Settings,
        environment: &Environment,
    ) -> Result<Self, ParameterError> {
        let host = settings.host;
        let tls = host.scheme.tls.then(|| settings.tls.client_config()).transpose()?;
        let sasl = match settings.auth {
            Auth::Login { username, password } => Sasl::plain(username.expose_secret(), password.expose_secret()),
            Auth::External => Sasl { mechanism: "EXTERNAL", response: String::new().into() },
            // RabbitMQ's own user, which it lets in from its own machine.
            Auth::None | Auth::OAuth(_) => Sasl::plain("guest", "guest"),
        };
        let dialer = Dialer {
            tenant: tenant.clone(),
            environment: environment.clone(),
            host: host.name,
            port: host.port,
            vhost: host.vhost,
            tls,
            sasl,
        };
        Ok(Self { dialer, link: None })
    }

    /// Asks for each of `names`; the answers are in their order.
    pub(super) async fn declare(&mut self, names: &[Arc<str>], until: Instant) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = names.iter().map(|_| None).collect();
        loop {
            let open: Vec<_> = (0..names.len()).filter(|number| answers[*number].is_none()).collect();
            if open.is_empty() || Instant::now() >= until {
                break;
            }
            match self.link(until).await {
                Ok(link) => {
                    let asked: Vec<_> = open.iter().map(|number| Arc::clone(&names[*number])).collect();
                    let (found, in_time) = link.declare(&asked, until).await;
                    for (number, answer) in open.iter().zip(found) {
                        answers[*number] = answer;
                    }
                    if !in_time || link.is_over() {
                        self.link = None;
                    }
                }
                Err(error) => {
                    for number in open.iter().skip(1) {
                        answers[*number] = Some(Err(error.without_cause()));
                    }
                    answers[open[0]] = Some(Err(error));
                }
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(SampleError::TimedOut))).collect()
    }

    /// The connection: the one there is, or a new one. It is out of `self` while it is opened, so that a caller who gives up
    /// leaves none half open.
    async fn link(&mut self, until: Instant) -> Result<&Link, SampleError> {
        if let Some(link) = self.link.take().filter(|link| !link.is_over()) {
            return Ok(self.link.insert(link));
        }
        let until = until.min(Instant::now() + OPEN_WITHIN);
        let link = timeout_at(until, self.dialer.open()).await.unwrap_or(Err(SampleError::TimedOut))?;
        Ok(self.link.insert(link))
    }
}

impl Dialer {
    async fn open(&self) -> Result<Link, SampleError> {
        let (egress, within) = (&self.environment.egress, self.environment.limits.connect);
        let stream = egress.connect(&self.tenant, &self.host, self.port, within).await?;
        let (stream, cord) = Cord::of(stream).map_err(tls::io_failure)?;
        let connection = match &self.tls {
            None => self.handshake(stream).await?,
            Some(config) => self.handshake(tls::connect(stream, &self.host, config).await?).await?,
        };
        Ok(Link { cord, channels: Mutex::default(), opened: AtomicUsize::new(0), connection })
    }

    async fn handshake(&self, stream: impl stream::Duplex + 'static) -> Result<Connection, SampleError> {
        let take = stream::once(stream);
        let connect = async move |_, _| take().await.map_err(Into::into);
        let opened = Connection::connector(self.uri(), stream::runtime(), connect, self.properties()).await;
        opened.map_err(|error| errors::opening(error, &self.vhost, self.sasl.name()))
    }

    /// What lapin negotiates. Where to connect and as whom is not in it.
    fn uri(&self) -> AMQPUri {
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: String::new(), password: String::new() },
                host: String::new(),
                port: 0,
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString {
                frame_max: Some(FRAME_MAX),
                channel_max: Some(CHANNEL_MAX),
                heartbeat: Some(HEARTBEAT),
                ..AMQPQueryString::default()
            },
        }
    }

    fn properties(&self) -> ConnectionProperties {
        ConnectionProperties::default()
            .with_connection_name(format!("tidegate-{}", self.tenant.namespace).into())
            .with_client_property("product".into(), "tidegate".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into())
            .with_auth_provider(self.sasl.clone())
    }
}

impl Link {
    /// The answers in the order of the names, without those that there was no channel for; and whether all came in time.
    async fn declare(&self, names: &[Arc<str>], until: Instant) -> (Vec<Option<Answer>>, bool) {
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(names.iter().map(|_| None).collect());
        let work =
            join_all((0..names.len().min(CHANNELS).min(self.available())).map(|_| self.work(names, &next, &answers)));
        let in_time = timeout_at(until, work).await.is_ok();
        (answers.into_inner().unwrap_or_else(PoisonError::into_inner), in_time)
    }

    /// Takes one name after the other, on one channel as long as it stays open.
    async fn work(&self, names: &[Arc<str>], next: &AtomicUsize, answers: &Mutex<Vec<Option<Answer>>>) {
        let mut channel = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(name) = names.get(number) else { break };
            let answer = match self.channel(&mut channel).await {
                Ok(Some(open)) => self.declare_on(open, name, &mut channel).await,
                Ok(None) => break,
                Err(error) => Err(error),
            };
            answers.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(answer);
        }
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).extend(channel);
    }

    /// Puts the channel back into `slot` if it stays open.
    async fn declare_on(&self, channel: Channel, name: &Arc<str>, slot: &mut Option<Channel>) -> Answer {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let sent =
            ShortString::try_new(name.as_ref()).map_err(|_| SampleError::NotFound(Subject::Queue(name.clone())))?;
        let queue = channel
            .queue_declare(sent, options, FieldTable::default())
            .await
            .map_err(|error| errors::declaring(error, name))?;
        *slot = Some(channel);
        Ok(Declared { messages: queue.message_count(), consumers: queue.consumer_count() })
    }

    /// The channel in `slot`, or an idle one, or a new one; `None` if the connection has used all its numbers.
    async fn channel(&self, slot: &mut Option<Channel>) -> Result<Option<Channel>, SampleError> {
        let idle = || self.channels.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(channel) = slot.take().or_else(idle).filter(|channel| channel.status().connected()) {
            return Ok(Some(channel));
        }
        let another = |opened: usize| (opened < self.channel_max()).then(|| opened + 1);
        if self.opened.fetch_update(Ordering::Relaxed, Ordering::Relaxed, another).is_err() {
            return Ok(None);
        }
        self.connection.create_channel().await.map(Some).map_err(errors::broken)
    }

    /// Whether another connection must take its place.
    fn is_over(&self) -> bool {
        !self.connection.status().connected() || self.available() == 0
    }

    /// Channels that wait, and numbers for new ones.
    fn available(&self) -> usize {
        let idle = self.channels.lock().unwrap_or_else(PoisonError::into_inner).len();
        idle + self.channel_max().saturating_sub(self.opened.load(Ordering::Relaxed))
    }

    fn channel_max(&self) -> usize {
        usize::from(self.connection.configuration().channel_max())
    }
}

#[cfg(test)]
mod tests;
