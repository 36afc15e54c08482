//! Connections to a real API server, of which one that died without a word is found out.
//!
//! A watch only reads: when the other end is gone and nothing says so (a machine that lost its power, a firewall that forgot
//! the connection), its reader would go on to believe that nothing changes, while other connections live. So the kernel asks
//! the other end whether it is there, about as soon as the reference, whose connections ask by HTTP/2.

use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use super::Gate;
use super::bucket::Rank;

/// Time for which a connection may be quiet before the other end is asked.
const QUIET: Duration = Duration::from_secs(30);
/// Longest time for an answer, each time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of questions before the connection counts as dead: after 45 s in all.
const QUESTIONS: u32 = 3;

/// Number of times that an event is written again when the API server is too busy for it (429, 503, 504).
const REPEATS: u32 = 10;
/// The first pause before that, each of the others twice as long, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(5));

/// A client whose requests pass `gate` and are made once, unless they are events.
pub(super) fn client(config: &Config, gate: &Gate) -> Result<Client, kube::Error> {
    let mut config = config.clone();
    // The library would ask up to fifteen times, whatever the request, and an eviction that a budget refuses would end with
    // no answer at all.
    config.default_retry = false;
    if config.proxy_url.is_some() {
        // The way through a proxy is the library's; what is quiet for too long on it, `Bounded` ends.
        return Ok(ClientBuilder::try_from(config)?.with_layer(gate).build());
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_keepalive(Some(QUIET));
    connector.set_keepalive_interval(Some(PATIENCE));
    connector.set_keepalive_retries(Some(QUESTIONS));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let repeats = (gate.rank == Rank::Last).then(|| {
        let (shortest, longest) = PAUSES;
        let policy = RetryPolicy::new(shortest, longest, REPEATS, true);
        RetryLayer::new(policy.expect("invariant: the pauses grow"))
    });
    let connections = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(repeats)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(ClientBuilder::new(service, config.default_namespace).with_layer(gate).build())
}

#[cfg(test)]
mod tests;
