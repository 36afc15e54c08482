//! The way to the API server: limited in rate, bounded in time, and measured.
//!
//! The limit protects the API server from us, not us from it: it is a bucket over all requests, as in the reference
//! (spec disruption 5.1). Renewals of the lease do not go through it, so that load cannot cost us the leadership.
//! Hints and events go through it, but hints leave a quarter of the burst to the others and events half of it: a storm of
//! them delays no launch, and hints, which are worth nothing when they are late, do not wait behind events.

mod body;
mod bucket;
mod connection;
mod request;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use karpenter_telemetry::metrics::Metrics;
use karpenter_telemetry::progress;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::{BoxError, Layer, Service};

use body::Bounded;
use bucket::{Bucket, Rank};
use request::About;

/// Longest time until an answer begins: somewhat longer than the minute after which API servers give up themselves.
const ANSWER: Duration = Duration::from_secs(70);

/// The API server, or something on the way to it, did not answer.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server for {ANSWER:?}")]
struct NoAnswer;

/// Returns whether a request failed because its connection ended, or could not be made, rather than by an answer or for lack of
/// one: asked again, the API server may well answer.
pub(crate) fn connection_ended(error: &kube::Error) -> bool {
    match error {
        kube::Error::HyperError(_) => true,
        kube::Error::Service(cause) => !cause.is::<NoAnswer>() && !cause.is::<body::Stalled>(),
        _ => false,
    }
}

/// Limits of the rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sustained requests per second; 0 is no limit.
    pub per_second: u32,
    /// Requests that may be made at once after a quiet time.
    pub burst: u32,
}

/// Clients that keep to common limits and whose requests are counted.
pub struct Connected {
    /// Client for everything but hints and events.
    pub client: Client,
    /// Client for hints, which wait for everything else but events.
    pub hints: Client,
    /// Client for events, which wait for everything else.
    pub events: Client,
}

/// Connects so that all clients together keep to `limits`. Nothing below the limit asks again by itself, as the library
/// would: what is asked again, and when, depends on the answer. Events are the exception, because their writer has
/// gone on.
///
/// # Errors
/// The configuration cannot be used: certificates, credentials or a proxy.
pub fn connect(config: &Config, limits: Limits, metrics: Arc<Metrics>) -> Result<Connected, kube::Error> {
    let gate = Gate::new(limits, metrics);
    let through = |rank| connection::client(config, &gate.of(rank));
    Ok(Connected {
        client: through(Rank::First)?,
        hints: through(Rank::Second)?,
        events: through(Rank::Last)?,
    })
}

/// Connects to a service that takes the place of the connection: an API server in memory, or a way to it. Must be called within
/// a tokio runtime.
pub fn over<S, B>(service: &S, limits: Limits, metrics: Arc<Metrics>) -> Connected
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let gate = Gate::new(limits, metrics);
    let through = |rank| ClientBuilder::new(service.clone(), "default").with_layer(&gate.of(rank)).build();
    Connected { client: through(Rank::First), hints: through(Rank::Second), events: through(Rank::Last) }
}

/// Puts the limit and the measuring in front of a service.
#[derive(Clone)]
struct Gate {
    bucket: Arc<Mutex<Bucket>>,
    rank: Rank,
    metrics: Arc<Metrics>,
}

impl Gate {
    /// Creates a gate of the first rank.
    fn new(limits: Limits, metrics: Arc<Metrics>) -> Self {
        let bucket = Arc::new(Mutex::new(Bucket::new(limits, Instant::now())));
        Self { bucket, rank: Rank::First, metrics }
    }

    /// Returns the gate with the same bucket, for requests of another rank.
    fn of(&self, rank: Rank) -> Self {
        Self { rank, ..self.clone() }
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone(), pause: None }
    }
}

/// A service behind the gate. There is one of it for all clones of a client.
struct Gated<S> {
    inner: S,
    gate: Gate,
    /// Runs while the bucket has nothing for this service.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let started = Instant::now();
        let mut bucket = self.gate.bucket.lock();
        self.pause = bucket.take(started, self.gate.rank).map(|wait| Box::pin(sleep(wait)));
        drop(bucket);
        let (metrics, method) = (Arc::clone(&self.gate.metrics), request.method().to_string());
        let about = About::of(request.uri().path());
        let verb = about.verb(request.method());
        let host = request.uri().host().unwrap_or_default().to_owned();
        let answer = self.inner.call(request);
        async move {
            let answer = match timeout(ANSWER, answer).await {
                Ok(answer) => answer.map(|answer| answer.map(Bounded::new)).map_err(Into::into),
                Err(_elapsed) => Err(NoAnswer.into()),
            };
            progress::advanced();
            // Requests that never got an answer are counted the way client-go counts them.
            let code =
                answer.as_ref().map_or("<error>".to_owned(), |answer| answer.status().as_u16().to_string());
            metrics.kube.request_total.inc([&code, &method]);
            metrics.kube.rest_requests_total.inc([&code, &method, &host]);
            let About { group, version, resource, subresource, .. } = &about;
            let labels = [&verb, group, version, resource, subresource].map(String::as_str);
            metrics.kube.request_duration_seconds.observe(labels, started.elapsed());
            answer
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body::Frame;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_above_the_burst_wait_and_all_are_counted() {
        let metrics = Arc::new(Metrics::new());
        let gate = Gate::new(Limits { per_second: 10, burst: 3 }, Arc::clone(&metrics));
        let answer = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(())) };
        let mut service = gate.layer(tower::service_fn(answer));
        let started = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..5 {
            let request = Request::get("/api/v1/namespaces/web/pods/a/eviction").body(Body::empty()).unwrap();
            service.ready().await.unwrap().call(request).await.unwrap();
            waits.push(started.elapsed().as_millis());
        }
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        assert_eq!(metrics.kube.request_total.value(["200", "GET"]), 5);
        assert_eq!(metrics.kube.rest_requests_total.value(["200", "GET", ""]), 5);
        assert_eq!(metrics.kube.request_duration_seconds.count(["GET", "", "v1", "pods", "eviction"]), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn events_delay_no_other_request_and_get_what_is_left() {
        let metrics = Arc::new(Metrics::new());
        let gate = Gate::new(Limits { per_second: 10, burst: 20 }, Arc::clone(&metrics));
        let of_events = gate.of(Rank::Last);
        let answer = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(())) };
        let (mut first, mut last) =
            (gate.layer(tower::service_fn(answer)), of_events.layer(tower::service_fn(answer)));
        let request = || Request::post("/api/v1/namespaces/default/events").body(Body::empty()).unwrap();
        let started = Instant::now();
        let storm = async {
            for _ in 0..30 {
                last.ready().await.unwrap().call(request()).await.unwrap();
            }
            started.elapsed()
        };
        let others = async {
            sleep(Duration::from_millis(500)).await;
            let began = Instant::now();
            for _ in 0..8 {
                first.ready().await.unwrap().call(request()).await.unwrap();
            }
            began.elapsed()
        };
        let (storm, others) = tokio::join!(storm, others);
        assert_eq!(others, Duration::ZERO, "in the middle of the storm half of the burst is there");
        assert!(
            storm > Duration::from_secs(2) && storm < Duration::from_secs(5),
            "it gets the rest: {storm:?}"
        );
        assert_eq!(metrics.kube.request_total.value(["200", "POST"]), 38);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_answer_ends_and_whoever_tries_again_is_not_stuck() {
        let metrics = Arc::new(Metrics::new());
        let gate = Gate::new(Limits { per_second: 0, burst: 0 }, Arc::clone(&metrics));
        let silence = |_: Request<Body>| std::future::pending::<Result<Response<()>, Infallible>>();
        let mut service = gate.layer(tower::service_fn(silence));
        let started = Instant::now();
        let trying = metrics.progress.during("test", "", async {
            for _ in 0..20 {
                let request = Request::patch("/api/v1/nodes/a").body(Body::empty()).unwrap();
                let answer = service.ready().await.unwrap().call(request).await;
                let error = answer.err().expect("there is no answer");
                assert_eq!(error.to_string(), "no answer from the API server for 70s");
                assert!(metrics.progress.stuck().is_empty());
            }
        });
        trying.await;
        assert_eq!(started.elapsed(), 20 * ANSWER);
        assert_eq!(metrics.kube.request_total.value(["<error>", "PATCH"]), 20);
    }

    /// Sends half of a list, and then nothing more.
    struct Half(Option<Bytes>);

    impl http_body::Body for Half {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.take().map_or(Poll::Pending, |half| Poll::Ready(Some(Ok(Frame::data(half)))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stops_in_the_middle_is_an_error() {
        let half = |_: Request<Body>| async {
            let text = Bytes::from_static(br#"{"kind": "PodList", "items": ["#);
            Ok::<_, Infallible>(Response::new(Half(Some(text))))
        };
        let gate = Gate::new(Limits { per_second: 0, burst: 0 }, Arc::default());
        let client = ClientBuilder::new(tower::service_fn(half), "default").with_layer(&gate).build();
        let started = Instant::now();
        let error = client.list_core_api_versions().await.unwrap_err();
        assert_eq!(started.elapsed(), body::SILENCE);
        let told = karpenter_telemetry::observe::Chain(&error).to_string();
        assert!(told.contains("nothing more of an answer"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_limit_does_not_wait() {
        let gate = Gate::new(Limits { per_second: 0, burst: 0 }, Arc::default());
        let mut service = gate
            .layer(tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(())) }));
        let started = Instant::now();
        for _ in 0..100 {
            service.ready().await.unwrap().call(Request::new(Body::empty())).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
