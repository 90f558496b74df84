//! KEDA's external scaler contract, answered from the core. The only place where protobuf types appear.
//!
//! Invariants:
//! - Nothing of a request is used before its name, namespace and sizes are checked.
//! - Every unary call is answered within [`ANSWER_LIMIT`]: KEDA sets no deadline, and waits for ever.
//! - A spec has exactly one metric, an answer exactly one value, finite and not negative; no stream sends an empty one.
//! - `StreamIsActive` sends `true` or nothing, keeps no queue, and ends with OK when its connection ends.

mod core;
mod refused;
mod request;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use tidegate_proto::externalscaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec as SpecMessage,
    MetricValue, ScaledObjectRef,
    external_scaler_server::{self, ExternalScaler, ExternalScalerServer},
};
use tonic::{Extensions, Request, Response, Status};

pub use self::core::{Activations, Core};
pub use self::refused::code;
use self::request::{Asked, deadline};
pub(crate) use self::request::{Caller, Connection, identify};
use crate::{
    answer::{MetricSpec, Refusal, Verdict},
    metrics::{Method, Metrics},
};

/// The service's full name, as the health service knows it.
pub const NAME: &str = external_scaler_server::SERVICE_NAME;

/// The largest request.
pub const MESSAGE_LIMIT: usize = 256 * 1024;

/// After this a unary call is answered with an error: the 2.5 s of a first sample, and a little for ourselves.
const ANSWER_LIMIT: Duration = Duration::from_millis(2750);

/// Doubles hold every integer up to here.
const VALUE_LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53

/// The gRPC service over a core.
pub struct Service<C> {
    core: Arc<C>,
    metrics: Arc<Metrics>,
}

impl<C: Core> Service<C> {
    /// The service as tonic routes it.
    pub fn server(core: Arc<C>, metrics: Arc<Metrics>) -> ExternalScalerServer<Self> {
        ExternalScalerServer::new(Self { core, metrics }).max_decoding_message_size(MESSAGE_LIMIT)
    }

    /// Counts and times a call; in a stream's case, its opening.
    async fn counted<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        let started = Instant::now();
        let answer = call.await;
        let code = answer.as_ref().map_or_else(Status::code, |_| tonic::Code::Ok);
        self.metrics.call(method, code, started.elapsed());
        answer.map(Response::new)
    }

    /// A checked request, counted for its tenant.
    fn asked<'a>(&self, extensions: &'a Extensions, object: &'a ScaledObjectRef) -> Result<Asked<'a>, Status> {
        let asked = Asked::new(extensions, &object.namespace, &object.name, &object.scaler_metadata)?;
        self.core.admit(asked.reference().tenant).map_err(|refusal| asked.refuse(&refusal))?;
        Ok(asked)
    }

    fn spec(&self, asked: &Asked<'_>) -> Result<MetricSpec, Status> {
        let spec = self.core.spec(asked.reference()).map_err(|refusal| asked.refuse(&refusal))?;
        if spec.target.is_finite() && spec.target > 0.0 {
            Ok(spec)
        } else {
            Err(Status::internal("the target is not a positive number")) // KEDA would take it for 0
        }
    }

    async fn verdict(&self, asked: &Asked<'_>, client: Option<Duration>) -> Result<Verdict, Status> {
        let limit = client.map_or(ANSWER_LIMIT, |client| client.min(ANSWER_LIMIT));
        let verdict = match tokio::time::timeout(limit, self.core.verdict(asked.reference())).await {
            Ok(answer) => answer.map_err(|refusal| asked.refuse(&refusal))?,
            Err(_elapsed) if limit < ANSWER_LIMIT => return Err(Status::deadline_exceeded("not measured in time")),
            Err(_elapsed) => return Err(asked.refuse(&Refusal::NotMeasured)),
        };
        if (0.0..=VALUE_LIMIT).contains(&verdict.value) {
            if let Some(age) = verdict.age {
                self.metrics.sample_age(age);
            }
            Ok(verdict)
        } else {
            Err(Status::internal("the value is not a number from 0 to 2^53")) // KEDA would take it for 0
        }
    }

    /// A stream that ends with OK when the connection ends its streams. It is counted for as long as it is there.
    fn ending<T: Send + 'static>(
        &self,
        connection: &Connection,
        messages: impl Stream<Item = T> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        let counted = self.metrics.stream();
        let until = Box::pin(connection.ends.clone().cancelled_owned());
        let messages = messages.take_until(until).map(move |message| {
            let _lives_as_long_as_the_stream = &counted;
            Ok(message)
        });
        connection.stream(messages)
    }
}

#[tonic::async_trait]
impl<C: Core> ExternalScaler for Service<C> {
    type StreamIsActiveStream = BoxStream<'static, Result<IsActiveResponse, Status>>;
    type StreamMetricSpecStream = BoxStream<'static, Result<GetMetricSpecResponse, Status>>;

    async fn is_active(&self, request: Request<ScaledObjectRef>) -> Result<Response<IsActiveResponse>, Status> {
        self.counted(Method::IsActive, async {
            let asked = self.asked(request.extensions(), request.get_ref())?;
            let verdict = self.verdict(&asked, deadline(request.metadata())).await?;
            Ok(IsActiveResponse { result: verdict.active })
        })
        .await
    }

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        self.counted(Method::StreamIsActive, async {
            let asked = self.asked(request.extensions(), request.get_ref())?;
            let activations = self.core.watch(asked.reference()).map_err(|refusal| asked.refuse(&refusal))?;
            // The next activation is awaited only when the transport wants another message, so a slow reader costs
            // no memory and gets one `true` for all that it missed.
            let active = stream::unfold(activations, async |mut activations| {
                activations.next().await;
                Some((IsActiveResponse { result: true }, activations))
            });
            Ok(self.ending(asked.connection, active))
        })
        .await
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        self.counted(Method::GetMetricSpec, async {
            let asked = self.asked(request.extensions(), request.get_ref())?;
            Ok(spec_message(self.spec(&asked)?))
        })
        .await
    }

    async fn get_metrics(&self, request: Request<GetMetricsRequest>) -> Result<Response<GetMetricsResponse>, Status> {
        self.counted(Method::GetMetrics, async {
            let message = request.get_ref();
            let nameless = ScaledObjectRef::default();
            let asked = self.asked(request.extensions(), message.scaled_object_ref.as_ref().unwrap_or(&nameless))?;
            let spec = self.spec(&asked)?;
            if !is_name_of(&spec.metric_name, &message.metric_name) {
                return Err(asked.refuse(&Refusal::MetricName(spec.metric_name)));
            }
            let verdict = self.verdict(&asked, deadline(request.metadata())).await?;
            Ok(GetMetricsResponse { metric_values: vec![value_message(spec.metric_name, verdict.value)] })
        })
        .await
    }

    async fn stream_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamMetricSpecStream>, Status> {
        self.counted(Method::StreamMetricSpec, async {
            let asked = self.asked(request.extensions(), request.get_ref())?;
            let spec = spec_message(self.spec(&asked)?);
            // A spec is a function of the metadata, and those of a stream never change: one message, then silence.
            let once = stream::once(std::future::ready(spec)).chain(stream::pending());
            Ok(self.ending(asked.connection, once))
        })
        .await
    }
}

/// Whether KEDA means our metric. The HPA knows it in lower case and as `sN-name`; old versions send that.
fn is_name_of(ours: &str, asked: &str) -> bool {
    let unprefixed = asked.strip_prefix(['s', 'S']).and_then(|rest| rest.split_once('-'));
    let unprefixed = unprefixed.filter(|(index, _)| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()));
    asked.eq_ignore_ascii_case(ours) || unprefixed.is_some_and(|(_, name)| name.eq_ignore_ascii_case(ours))
}

/// The float fields are what KEDA reads since 2.17; older ones read the integers.
#[allow(deprecated)]
fn spec_message(spec: MetricSpec) -> GetMetricSpecResponse {
    let target_size = rounded_up(spec.target).max(1);
    let spec = SpecMessage { metric_name: spec.metric_name, target_size, target_size_float: spec.target };
    GetMetricSpecResponse { metric_specs: vec![spec] }
}

#[allow(deprecated)]
fn value_message(metric_name: String, value: f64) -> MetricValue {
    MetricValue { metric_name, metric_value: rounded_up(value), metric_value_float: value }
}

/// Up, so that a fraction of a message is not taken for none.
#[expect(clippy::cast_possible_truncation, reason = "a float of up to 2^53 is exact, and a larger one saturates")]
fn rounded_up(value: f64) -> i64 {
    value.ceil() as i64
}
