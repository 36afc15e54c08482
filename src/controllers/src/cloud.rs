//! Calls of the provider, measured and bounded in time.

use std::time::Duration;

use karpenter_cloud::{Error, Kind};
use karpenter_telemetry::progress;
use tokio::time::Instant;

use crate::Context;

/// Longest a single call may take. An abandoned call leaves nothing that the next one would not find again.
const LIMIT: Duration = Duration::from_mins(2);

/// Awaits a provider call of `controller`; `method` is its name in the reference's dashboards.
pub(crate) async fn call<T>(
    context: &Context,
    controller: &'static str,
    method: &'static str,
    work: impl Future<Output = karpenter_cloud::Result<T>>,
) -> karpenter_cloud::Result<T> {
    let (metrics, provider) = (&context.metrics.cloud, context.provider.name());
    let started = Instant::now();
    let result = match tokio::time::timeout(LIMIT, work).await {
        Ok(result) => result,
        Err(_elapsed) => {
            Err(Error::new(Kind::Transient, "await provider for", method, format!("no answer for {LIMIT:?}")))
        }
    };
    progress::advanced();
    metrics.duration_seconds.observe([controller, method, provider], started.elapsed());
    if let Err(error) = &result {
        metrics.errors_total.inc([controller, method, provider, error.kind.label()]);
    }
    result
}
