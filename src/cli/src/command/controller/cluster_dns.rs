//! The address of the cluster's DNS, which is written into the user data of nodes.
//!
//! It is read once, when the controller starts, so an API server that has just started too must not decide it: one that has
//! not read its roles yet forbids what it allows a second later, and nodes would get another address until the next
//! start. Nodes can do without it, so a failure that lasts is a warning.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Api;

const NAMESPACE: &str = "kube-system";
const SERVICE: &str = "kube-dns";
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is asked for; a start is held up for so many seconds where the roles do not allow it at all.
const ATTEMPTS: u32 = 20;

/// The cluster address of kube-dns; `None` when there is no such service, or it cannot be read.
pub(super) async fn kube_dns_ip(kubernetes: &kube::Client) -> Option<String> {
    let services = Api::<Service>::namespaced(kubernetes.clone(), NAMESPACE);
    let mut attempts = 1..ATTEMPTS;
    loop {
        match services.get_opt(SERVICE).await {
            Ok(Some(service)) => return service.spec.and_then(|spec| spec.cluster_ip),
            Ok(None) => {
                tracing::info!(
                    "there is no service {NAMESPACE}/{SERVICE}, nodes get the default DNS address"
                );
                return None;
            }
            Err(error) => {
                let Some(attempt) = attempts.next() else {
                    tracing::warn!(%error, "cannot read service {NAMESPACE}/{SERVICE}, nodes get the default DNS address");
                    return None;
                };
                tracing::warn!(%error, attempt, "cannot read service {NAMESPACE}/{SERVICE}, trying again");
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use kube::client::{Body, ClientBuilder};
    use serde_json::{Value, json};

    use super::*;

    fn forbidden() -> (u16, Value) {
        (
            403,
            json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no" }),
        )
    }

    fn found() -> (u16, Value) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE },
            "spec": { "clusterIP": "172.20.0.10" },
        });
        (200, service)
    }

    fn missing() -> (u16, Value) {
        (
            404,
            json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "none" }),
        )
    }

    /// What is found with an API server that answers `first` so many times, then `last`; and how often it was asked.
    async fn asked(
        times: u32,
        first: fn() -> (u16, Value),
        last: fn() -> (u16, Value),
    ) -> (Option<String>, u32) {
        let count = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&count);
        let answer = tower::service_fn(move |_: Request<Body>| {
            let (status, body) = if seen.fetch_add(1, Ordering::Relaxed) < times { first() } else { last() };
            let response = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            async move { response }
        });
        let client = ClientBuilder::new(answer, "default").build();
        (kube_dns_ip(&client).await, count.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_passes_decides_nothing() {
        assert_eq!(asked(5, forbidden, found).await, (Some("172.20.0.10".to_owned()), 6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_stays_is_given_up() {
        assert_eq!(asked(u32::MAX, forbidden, found).await, (None, ATTEMPTS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_without_the_service_is_believed_at_once() {
        assert_eq!(asked(0, missing, missing).await, (None, 1));
    }
}
