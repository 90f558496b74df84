//! One connection to one broker: many requests in flight, answered in order.
//!
//! Invariants:
//! - Only the connection's own task reads and writes, so that a caller who is dropped never leaves half a frame behind.
//! - Every request has a deadline, and the task keeps it: a broker that answers late, dribbles or does not read loses
//!   the connection. So does one whose reply is not the one that is due.
//! - At most [`IN_FLIGHT`] requests wait at a time.
//! - Dropping the connection closes it.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    api::Api,
    fault::{Fault, broken, malformed, timed_out, unreachable},
    frame,
    versions::Versions,
};

/// Requests that wait for their replies at the same time.
const IN_FLIGHT: usize = 64;
/// How long a connection lives unused: longer than the usual poll interval, shorter than brokers' ten minutes.
const IDLE: Duration = Duration::from_secs(60);

/// Anything that bytes travel on.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// A connection to a broker.
pub(crate) struct Connection {
    calls: mpsc::Sender<Call>,
    next: AtomicI32,
    in_flight: std::sync::Arc<Semaphore>,
    request: Duration,
    /// What the broker speaks; set once it said so.
    pub(super) versions: Versions,
    /// When the broker ends the session (KIP-368).
    pub(super) expires: Option<Instant>,
    _task: JoinSet<()>,
}

struct Call {
    frame: Bytes,
    waiting: Waiting,
}

/// A request that has no reply yet.
struct Waiting {
    correlation: i32,
    deadline: Instant,
    reply: oneshot::Sender<Result<Bytes, Fault>>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Takes `stream` over. A request gets as long as `request`.
    pub(super) fn new(stream: impl Stream, request: Duration) -> Self {
        let (calls, queue) = mpsc::channel(IN_FLIGHT);
        let mut task = JoinSet::new();
        task.spawn(run(stream, queue));
        Self {
            calls,
            next: AtomicI32::new(0),
            in_flight: std::sync::Arc::new(Semaphore::new(IN_FLIGHT)),
            request,
            versions: Versions::default(),
            expires: None,
            _task: task,
        }
    }

    /// Whether it can still be used.
    pub(crate) fn is_usable(&self) -> bool {
        !self.calls.is_closed() && self.expires.is_none_or(|at| Instant::now() < at)
    }

    /// Whether the broker owes no answer.
    pub(super) fn is_settled(&self) -> bool {
        self.in_flight.available_permits() == IN_FLIGHT
    }

    /// Sends a request in the newest version that both sides speak, and waits for its reply.
    pub(super) async fn call<R: Api>(&self, request: &R) -> Result<R::Response, Fault> {
        self.call_version(request, self.versions.of::<R>()?).await
    }

    /// Sends a request in `version`, and waits for its reply.
    pub(super) async fn call_version<R: Api>(&self, request: &R, version: i16) -> Result<R::Response, Fault> {
        let deadline = Instant::now() + self.request;
        let lost = || unreachable("the connection was closed");
        let permit = timeout_at(deadline, std::sync::Arc::clone(&self.in_flight).acquire_owned()).await;
        let permit = permit.map_err(|_| timed_out())?.map_err(|_| lost())?;
        let correlation = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = frame::encode(request, version, correlation)?;
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { correlation, deadline, reply, _permit: permit };
        self.calls.send(Call { frame, waiting }).await.map_err(|_| lost())?;
        let body = answer.await.map_err(|_| lost())??;
        frame::decode::<R>(version, body)
    }
}

/// Lives until the peer errs, a deadline passes, or nobody uses the connection.
async fn run(stream: impl Stream, mut queue: mpsc::Receiver<Call>) {
    let (reader, writer) = split(stream);
    let queued = Queue::default();
    let end = tokio::select! {
        end = send(writer, &mut queue, &queued) => end,
        end = receive(reader, &queued) => end,
    };
    queue.close();
    queued.fail(&end);
    while let Ok(call) = queue.try_recv() {
        call.waiting.answer(Err(end.clone()));
    }
}

async fn send(mut writer: WriteHalf<impl Stream>, queue: &mut mpsc::Receiver<Call>, queued: &Queue) -> Fault {
    loop {
        let Ok(call) = timeout(IDLE, queue.recv()).await else {
            if queued.is_empty() {
                return unreachable("the connection was idle");
            }
            continue;
        };
        let Some(Call { frame, waiting }) = call else { return unreachable("the connection is not used any more") };
        let deadline = waiting.deadline;
        queued.push(waiting);
        match timeout_at(deadline, async { writer.write_all(&frame).await.and(writer.flush().await) }).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return broken(error),
            Err(_) => return timed_out(),
        }
    }
}

async fn receive(mut reader: ReadHalf<impl Stream>, queued: &Queue) -> Fault {
    loop {
        let reply = tokio::select! {
            reply = frame::read(&mut reader) => reply,
            () = queued.overdue() => Err(timed_out()),
        };
        match reply {
            Err(fault) => return fault,
            Ok((correlation, body)) => match queued.pop() {
                Some(waiting) if waiting.correlation == correlation => waiting.answer(Ok(body)),
                Some(waiting) => {
                    let fault = malformed("a reply to another request");
                    waiting.answer(Err(fault.clone()));
                    return fault;
                }
                None => return malformed("a reply to no request"),
            },
        }
    }
}

impl Waiting {
    /// Answers; a caller who has gone does not mind.
    fn answer(self, reply: Result<Bytes, Fault>) {
        let _ = self.reply.send(reply);
    }
}

/// The requests without a reply, in the order in which they were sent. Each holds a permit, which bounds them.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    pushed: Notify,
}

impl Queue {
    fn with<T>(&self, action: impl FnOnce(&mut VecDeque<Waiting>) -> T) -> T {
        action(&mut self.waiting.lock().expect("no holder panics"))
    }

    fn push(&self, waiting: Waiting) {
        self.with(|queue| queue.push_back(waiting));
        self.pushed.notify_one();
    }

    fn pop(&self) -> Option<Waiting> {
        self.with(VecDeque::pop_front)
    }

    fn is_empty(&self) -> bool {
        self.with(|queue| queue.is_empty())
    }

    fn fail(&self, fault: &Fault) {
        for waiting in self.with(std::mem::take) {
            waiting.answer(Err(fault.clone()));
        }
    }

    /// Returns when the oldest request has waited too long.
    async fn overdue(&self) {
        loop {
            match self.with(|queue| queue.front().map(|oldest| oldest.deadline)) {
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => sleep_until(deadline).await,
                None => self.pushed.notified().await,
            }
        }
    }
}
