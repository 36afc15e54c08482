//! The family of the nodes' addresses, and the address of the cluster's DNS, which is written into their user data.
//!
//! EKS says the family and the range of service addresses, of which its DNS has the tenth; the Service says where the DNS
//! is, unless it has another name (aws#9602). Both are read once, when the controller starts, so an API server that is
//! slow or has just started must not decide them (core#1384): it would be for the life of the process. One that gives no
//! answer is waited for where EKS has not said it. One that has not read its roles yet forbids what it allows a second
//! later; a refusal that lasts is a warning, as nodes can do without the address.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use karpenter_aws_api::Error;
use karpenter_aws_api::eks::{Cluster, Eks};
use kube::Api;

const NAMESPACE: &str = "kube-system";
const SERVICE: &str = "kube-dns";
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Attempts to read it from the API server, one per second; a start is held up by all of them where the roles do not allow
/// it at all.
const ATTEMPTS: u32 = 20;
/// Attempts to call EKS, and the longest time for each.
const EKS_ATTEMPTS: u32 = 3;
const EKS_PATIENCE: Duration = Duration::from_secs(20);

/// The cluster as EKS describes it; `None` where EKS does not, or gives no answer.
pub(super) async fn known_to_eks(eks: &dyn Eks, name: &str) -> Option<Cluster> {
    for attempt in 1..=EKS_ATTEMPTS {
        let asked = tokio::time::timeout(EKS_PATIENCE, eks.describe_cluster(name)).await;
        let answer =
            asked.unwrap_or_else(|_| Err(Error::transient("DescribeCluster", name, "no answer in time")));
        match answer {
            Ok(cluster) => return Some(cluster),
            Err(error) if error.kind.is_retryable() && attempt < EKS_ATTEMPTS => {
                tracing::warn!(%error, attempt, "cannot read the cluster from EKS, trying again");
                tokio::time::sleep(ASK_AGAIN).await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the cluster from EKS, its DNS decides the family of addresses");
                break;
            }
        }
    }
    None
}

/// Returns whether nodes have IPv6 addresses, if EKS states the family.
pub(super) fn is_ipv6(cluster: &Cluster) -> Option<bool> {
    match cluster.ip_family.as_deref()? {
        "ipv6" => Some(true),
        "ipv4" => Some(false),
        _ => None,
    }
}

/// The address that EKS gives the DNS of a cluster: the tenth of the range of services.
pub(super) fn of_range(cluster: &Cluster) -> Option<String> {
    const TENTH: u8 = 10;
    let range =
        if is_ipv6(cluster) == Some(true) { &cluster.service_ipv6_cidr } else { &cluster.service_ipv4_cidr };
    let (first, _) = range.as_deref()?.split_once('/')?;
    Some(match first.parse().ok()? {
        IpAddr::V4(first) => {
            std::net::Ipv4Addr::from(u32::from(first).checked_add(TENTH.into())?).to_string()
        }
        IpAddr::V6(first) => {
            std::net::Ipv6Addr::from(u128::from(first).checked_add(TENTH.into())?).to_string()
        }
    })
}

/// The cluster address of kube-dns. Without such a service, or when it cannot be read, the one that follows from EKS;
/// `None` when there is no such either.
pub(super) async fn kube_dns_ip(kubernetes: &kube::Client, of_range: Option<String>) -> Option<String> {
    let services = Api::<Service>::namespaced(kubernetes.clone(), NAMESPACE);
    for attempt in 1.. {
        match services.get_opt(SERVICE).await {
            Ok(Some(service)) => {
                let address = service.spec.and_then(|spec| spec.cluster_ip);
                // A headless one has the text `None`.
                return address.filter(|address| address.parse::<IpAddr>().is_ok()).or(of_range);
            }
            Ok(None) => {
                let address = of_range.as_deref().unwrap_or("default");
                tracing::info!(
                    address,
                    "there is no service {NAMESPACE}/{SERVICE}, nodes get another DNS address"
                );
                break;
            }
            Err(error) => {
                let answered = matches!(&error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429);
                if attempt >= ATTEMPTS && (answered || of_range.is_some()) {
                    let address = of_range.as_deref().unwrap_or("default");
                    tracing::warn!(%error, address, "cannot read service {NAMESPACE}/{SERVICE}, nodes get another DNS address");
                    break;
                }
                tracing::warn!(%error, attempt, "cannot read service {NAMESPACE}/{SERVICE}, trying again");
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
    }
    of_range
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use karpenter_aws_sim::{Account, Fault, Options};
    use kube::client::{Body, ClientBuilder};
    use serde_json::{Value, json};

    use super::*;

    const CLUSTER: &str = "demo";

    fn account() -> Account {
        let options = Options { cluster: CLUSTER.to_owned(), ..Options::default() };
        Account::new(options)
    }

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

    fn slow() -> (u16, Value) {
        (503, json!({ "kind": "Status", "status": "Failure", "code": 503, "message": "starting" }))
    }

    fn headless() -> (u16, Value) {
        let (status, mut service) = found();
        service["spec"]["clusterIP"] = json!("None");
        (status, service)
    }

    /// Returns the address found with an API server that answers `first` this number of `times`, then `last`; and the number of
    /// requests.
    async fn asked(
        times: u32,
        first: fn() -> (u16, Value),
        last: fn() -> (u16, Value),
        of_range: Option<&str>,
    ) -> (Option<String>, u32) {
        let count = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&count);
        let answer = tower::service_fn(move |_: Request<Body>| {
            let (status, body) = if seen.fetch_add(1, Ordering::Relaxed) < times { first() } else { last() };
            let response = Response::builder().status(status).body(Body::from(body.to_string().into_bytes()));
            async move { response }
        });
        let client = ClientBuilder::new(answer, "default").build();
        (kube_dns_ip(&client, of_range.map(str::to_owned)).await, count.load(Ordering::Relaxed))
    }

    /// aws#9602, core#1384.
    #[tokio::test(start_paused = true)]
    async fn no_slow_start_and_no_name_of_a_service_decides_the_address() {
        let service = Some("172.20.0.10");
        let range = Some("fd00:1234::a");
        for (times, first, last, of_range, expected, asks) in [
            (5, forbidden as fn() -> (u16, Value), found as fn() -> (u16, Value), None, service, 6),
            (u32::MAX, forbidden, found, None, None, ATTEMPTS),
            (u32::MAX, forbidden, found, range, range, ATTEMPTS),
            // Launches wait for an API server that gives no answer.
            (300, slow, found, None, service, 301),
            (300, slow, missing, None, None, 301),
            (u32::MAX, slow, found, range, range, ATTEMPTS),
            (5, slow, found, range, service, 6),
            (0, missing, missing, None, None, 1),
            (0, missing, missing, range, range, 1),
            (0, headless, headless, range, range, 1),
            (0, headless, headless, None, None, 1),
        ] {
            let (address, count) = asked(times, first, last, of_range).await;
            assert_eq!((address.as_deref(), count), (expected, asks), "{times} {of_range:?}");
        }
    }

    #[tokio::test]
    async fn the_range_of_services_says_where_eks_puts_the_dns() {
        let known = known_to_eks(account().clients().eks.as_ref(), CLUSTER).await.expect("a cluster");
        let cluster = |family: Option<&str>, v4: Option<&str>, v6: Option<&str>| Cluster {
            ip_family: family.map(str::to_owned),
            service_ipv4_cidr: v4.map(str::to_owned),
            service_ipv6_cidr: v6.map(str::to_owned),
            ..known.clone()
        };
        for (cluster, ipv6, address) in [
            (cluster(Some("ipv4"), Some("10.100.0.0/16"), None), Some(false), Some("10.100.0.10")),
            (
                cluster(Some("ipv4"), Some("172.20.0.0/16"), Some("fd00::/108")),
                Some(false),
                Some("172.20.0.10"),
            ),
            (
                cluster(Some("ipv6"), Some("10.100.0.0/16"), Some("fd30:1::/108")),
                Some(true),
                Some("fd30:1::a"),
            ),
            (cluster(Some("ipv6"), None, None), Some(true), None),
            (cluster(None, Some("10.100.0.0/16"), None), None, Some("10.100.0.10")),
            (cluster(None, Some("nonsense"), None), None, None),
        ] {
            assert_eq!((is_ipv6(&cluster), of_range(&cluster).as_deref()), (ipv6, address), "{cluster:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn eks_is_asked_again_when_it_gives_no_answer_and_not_when_it_says_no() {
        for (code, times, known, asks) in [
            ("ServerException", 2, true, 3),
            ("ServerException", 9, false, EKS_ATTEMPTS),
            ("AccessDeniedException", 1, false, 1),
        ] {
            let account = account();
            account.inject(Fault::fail("DescribeCluster", code).times(times));
            let found = known_to_eks(account.clients().eks.as_ref(), CLUSTER).await;
            let calls = u32::try_from(account.calls().count("DescribeCluster")).unwrap();
            assert_eq!((found.is_some(), calls), (known, asks), "{code}");
        }
    }
}
