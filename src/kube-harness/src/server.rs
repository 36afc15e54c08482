//! The two HTTP endpoints of the process: metrics with what else is served beside them, and health probes.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::routing::get;
use karpenter_telemetry::metrics::Metrics;
use karpenter_telemetry::progress::Progress;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

/// Number of pieces of metrics that are written before the reader has taken the first.
const PIECES: usize = 4;

/// Readiness of the process for its work; shared by the tasks that set it and the readiness probe.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Checks>);

/// Says what is waited for, in words; empty when nothing is.
type Awaited = Box<dyn Fn() -> String + Send + Sync>;

#[derive(Default)]
struct Checks {
    views: AtomicBool,
    definitions: AtomicBool,
    /// Says what the views still wait for.
    awaited: OnceLock<Awaited>,
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks")
            .field("views", &self.views)
            .field("definitions", &self.definitions)
            .finish_non_exhaustive()
    }
}

impl Readiness {
    /// Says that the views of the cluster are complete, or that this replica waits to lead and needs none.
    pub fn set(&self, ready: bool) {
        self.0.views.store(ready, Ordering::Relaxed);
    }

    /// Says how to find out what is waited for, so that the probe can tell what is missing.
    pub fn waits_for(&self, awaited: impl Fn() -> String + Send + Sync + 'static) {
        let _first = self.0.awaited.set(Box::new(awaited));
    }

    /// Says that the API server serves our kinds.
    pub fn set_definitions(&self, served: bool) {
        self.0.definitions.store(served, Ordering::Relaxed);
    }

    /// Returns whether everything is there.
    pub fn get(&self) -> bool {
        self.missing().is_none()
    }

    /// Returns what is not there yet, as the probe answers.
    fn missing(&self) -> Option<String> {
        if !self.0.definitions.load(Ordering::Relaxed) {
            let text =
                "nodepools and nodeclaims are not served by the API server; install the karpenter-crd chart";
            return Some(text.to_owned());
        }
        if self.0.views.load(Ordering::Relaxed) {
            return None;
        }
        let awaited = self.0.awaited.get().map(|awaited| awaited()).filter(|awaited| !awaited.is_empty());
        Some(awaited.map_or_else(
            || "the view of the cluster is not complete yet".to_owned(),
            |awaited| format!("the view of the cluster is not complete yet: {awaited}"),
        ))
    }
}

/// Reason why an endpoint is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address} for {endpoint}; stop what uses it or set flag `--{flag}`")]
    Bind {
        endpoint: &'static str,
        address: SocketAddr,
        flag: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("serving {endpoint} ended")]
    Serve {
        endpoint: &'static str,
        #[source]
        source: io::Error,
    },
}

/// Addresses of the endpoints. Port 0 leaves an endpoint out.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    pub address: IpAddr,
    pub metrics_port: u16,
    pub probe_port: u16,
}

/// Serves metrics with `routes` beside them, and probes, until `shutdown`.
pub async fn run(
    listen: Listen,
    metrics: Arc<Metrics>,
    routes: Router,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> Result<(), ServerError> {
    let metrics_listener = bind("metrics", listen.address, listen.metrics_port, "metrics-port").await?;
    let probe_listener =
        bind("health probes", listen.address, listen.probe_port, "health-probe-port").await?;
    let probes = probe_routes(readiness, metrics.progress.clone());
    let routes = metrics_routes(metrics).merge(routes);
    let metrics = serve("metrics", metrics_listener, routes, shutdown.clone());
    let probes = serve("health probes", probe_listener, probes, shutdown);
    tokio::try_join!(metrics, probes).map(|((), ())| ())
}

/// `/metrics` in the text exposition format, sent as it is written: of a large cluster it is hundreds of megabytes.
pub(crate) fn metrics_routes(metrics: Arc<Metrics>) -> Router {
    let scrape = |State(metrics): State<Arc<Metrics>>| async move {
        let (pieces, written) = mpsc::channel(PIECES);
        spawn_blocking(move || metrics.write(|piece| pieces.blocking_send(piece).is_ok()));
        let pieces = futures::stream::unfold(written, |mut written| async move {
            let piece = written.recv().await?;
            Some((Ok::<_, Infallible>(piece), written))
        });
        ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], Body::from_stream(pieces))
    };
    Router::new().route("/metrics", get(scrape)).with_state(metrics)
}

/// `/healthz`, which fails while work is stuck that only a restart can free, and `/readyz`, which answers once the
/// process can do its work.
pub fn probe_routes(readiness: Readiness, progress: Progress) -> Router {
    let live = |State(progress): State<Progress>| async move {
        let stuck: Vec<String> = progress.stuck().iter().map(ToString::to_string).collect();
        if stuck.is_empty() {
            return (StatusCode::OK, "ok".to_owned());
        }
        (StatusCode::INTERNAL_SERVER_ERROR, stuck.join("\n"))
    };
    let ready = |State(readiness): State<Readiness>| async move {
        match readiness.missing() {
            None => (StatusCode::OK, "ok".to_owned()),
            Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, missing),
        }
    };
    let live = Router::new().route("/healthz", get(live)).with_state(progress);
    live.merge(Router::new().route("/readyz", get(ready)).with_state(readiness))
}

async fn bind(
    endpoint: &'static str,
    address: IpAddr,
    port: u16,
    flag: &'static str,
) -> Result<Option<TcpListener>, ServerError> {
    if port == 0 {
        return Ok(None);
    }
    let address = SocketAddr::from((address, port));
    let bound = match TcpListener::bind(address).await {
        // `::` is one socket for IPv6 and IPv4; machines without IPv6 get IPv4 alone.
        Err(_no_ipv6) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        bound => bound,
    };
    bound.map(Some).map_err(|source| ServerError::Bind { endpoint, address, flag, source })
}

async fn serve(
    endpoint: &'static str,
    listener: Option<TcpListener>,
    routes: Router,
    shutdown: CancellationToken,
) -> Result<(), ServerError> {
    let Some(listener) = listener else {
        shutdown.cancelled().await;
        return Ok(());
    };
    axum::serve(listener, routes.into_make_service_with_connect_info::<SocketAddr>())
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
        .map_err(|source| ServerError::Serve { endpoint, source })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn readiness_needs_the_definitions_and_the_views() {
        let readiness = Readiness::default();
        assert!(readiness.missing().unwrap().contains("karpenter-crd"));
        readiness.set_definitions(true);
        assert_eq!(readiness.missing().unwrap(), "the view of the cluster is not complete yet");
        readiness.set(true);
        assert!(readiness.get());
    }

    #[tokio::test]
    async fn listens_where_it_is_told_and_says_where_it_could_not() {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        assert!(bind("metrics", loopback, 0, "metrics-port").await.unwrap().is_none());
        let taken = TcpListener::bind((loopback, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind("metrics", loopback, port, "metrics-port").await.unwrap_err();
        let want = format!(
            "cannot listen on 127.0.0.1:{port} for metrics; stop what uses it or set flag `--metrics-port`"
        );
        assert_eq!(error.to_string(), want);
        drop(taken);
        let listener = bind("metrics", loopback, port, "metrics-port").await.unwrap().unwrap();
        assert_eq!(listener.local_addr().unwrap(), SocketAddr::from((loopback, port)));
    }

    /// The answer of `/metrics` to a GET.
    async fn scraped(metrics: &Arc<Metrics>) -> axum::response::Response {
        let request = axum::http::Request::get("/metrics").body(Body::empty()).unwrap();
        metrics_routes(Arc::clone(metrics)).oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn metrics_are_sent_as_they_are_written_and_no_further_than_they_are_read() {
        let metrics = Arc::new(Metrics::new());
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        let _pods = metrics.pods.state.collect(move |series| {
            for number in 0..100_000 {
                series([number.to_string().as_str(); 13], 1.0);
                counted.store(number, Ordering::Relaxed);
            }
        });
        let response = scraped(&metrics).await;
        assert_eq!(response.headers()[header::CONTENT_TYPE], Metrics::CONTENT_TYPE);
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(b"# HELP "));
        assert!(written.load(Ordering::Relaxed) < 50_000, "the rest waits until it is read");
        drop(body);
        let whole = scraped(&metrics).await.into_body().collect().await.unwrap().to_bytes();
        assert!(whole == metrics.render());
    }
}
