//! The controller that answers questions: the one that leads, reached through the API server, or one at an address.
//!
//! A controller answers callers on its own machine only. The way there from outside is a port-forward, which the API server
//! allows or refuses: the Lease names the pod that leads, and a stream to that pod's metrics port carries one request.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use karpenter_controllers::explain::{Answer, Question};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use crate::api_server::{self, why};

/// Name in the chart of the port for metrics and explanations.
const METRICS_PORT: &str = "http-metrics";
/// Number of that port where a pod does not name it.
const METRICS_PORT_NUMBER: u16 = 8080;

/// Where the controller is.
#[derive(Args, Clone)]
pub(crate) struct Place {
    /// URL at which the controller serves its metrics, such as `http://127.0.0.1:8080` [default: a port-forward to the
    /// leading pod through the API server]
    #[arg(long, value_parser = endpoint)]
    endpoint: Option<http::Uri>,
    /// Namespace of the Lease that names the leading pod
    #[arg(long, default_value = "kube-system", conflicts_with = "endpoint")]
    leader_election_namespace: String,
    /// Name of the Lease that names the leading pod
    #[arg(long, default_value = "karpenter-leader-election", conflicts_with = "endpoint")]
    leader_election_name: String,
}

impl Place {
    /// Finds the controller, without a request to it yet. `cluster` reaches the API server.
    pub(crate) async fn controller(&self, cluster: Option<&Client>) -> Result<Controller> {
        if let Some(endpoint) = &self.endpoint {
            // The client of the Kubernetes API is an HTTP client like any other.
            let client = Client::try_from(kube::Config::new(endpoint.clone()))?;
            return Ok(Controller::At { endpoint: endpoint.clone(), client });
        }
        let client = match cluster {
            Some(client) => client.clone(),
            None => api_server::client().await?,
        };
        let (namespace, lease) = (self.leader_election_namespace.clone(), self.leader_election_name.clone());
        Ok(Controller::Leader(Leader { client, namespace, lease }))
    }
}

/// Parses the address of the metrics server: an address alone uses HTTP, and the path of the metrics is dropped.
fn endpoint(written: &str) -> Result<http::Uri, String> {
    let wrong = |why: &str| format!("{why}; write for example `http://127.0.0.1:8080`");
    let url = if written.contains("://") { written.to_owned() } else { format!("http://{written}") };
    let server = url.trim_end_matches('/').trim_end_matches("/metrics");
    let endpoint: http::Uri = server.parse().map_err(|error| wrong(&format!("it is no URL: {error}")))?;
    match endpoint.scheme_str() {
        Some("http" | "https") => Ok(endpoint),
        _ => Err(wrong("it is neither of http nor of https")),
    }
}

/// The controller that answers.
#[derive(Clone)]
pub(crate) enum Controller {
    At { endpoint: http::Uri, client: Client },
    Leader(Leader),
}

impl Controller {
    /// Returns the answer of the controller.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer> {
        let path = format!("/explain{}", question.parameters());
        match self {
            Self::At { endpoint, client } => {
                let request = http::Request::get(path).body(Vec::new())?;
                client.request(request).await.with_context(|| {
                    format!(
                        "cannot ask the controller at `{endpoint}` about `{question}`; without `--endpoint` the pod that \
                         leads is asked"
                    )
                })
            }
            Self::Leader(leader) => {
                let answer = leader.get(&path).await;
                answer.with_context(|| format!("cannot ask the controller that leads about `{question}`"))
            }
        }
    }
}

/// The holder of a Lease.
#[derive(Clone)]
pub(crate) struct Leader {
    client: Client,
    namespace: String,
    lease: String,
}

/// A pod and its port.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    namespace: String,
    pod: String,
    port: u16,
}

impl Leader {
    /// The answer of the leader to a request, which is found again each time: leaders change.
    async fn get(&self, path: &str) -> Result<Answer> {
        let Found { namespace, pod, port } = self.find().await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let mut forwarded = pods.portforward(&pod, &[port]).await.map_err(|error| {
            let rights = "grant verbs `get` and `create` on `pods/portforward` there, or give `--endpoint`";
            anyhow!("cannot reach port {port} of pod `{namespace}/{pod}`: {}", why(&error, rights))
        })?;
        let stream = forwarded.take_stream(port).context("the port-forward has no stream; try again")?;
        let failed = forwarded.take_error(port);
        let asked = exchange(TokioIo::new(stream), path).await;
        // The kubelet's error about the port is the better reason.
        if asked.is_err()
            && let Some(failed) = failed
            && let Some(reason) = futures::FutureExt::now_or_never(failed).flatten()
        {
            bail!("pod `{namespace}/{pod}` does not answer on port {port}: {reason}");
        }
        asked.with_context(|| format!("pod `{namespace}/{pod}` does not answer on port {port}"))
    }

    /// The pod that holds the Lease.
    async fn find(&self) -> Result<Found> {
        let Self { client, namespace, lease } = self;
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let found = leases.get_opt(lease).await.map_err(|error| {
            let rights =
                "grant verb `get` on leases of group `coordination.k8s.io` there, or give `--endpoint`";
            anyhow!(
                "cannot read Lease `{namespace}/{lease}`, which names the leader: {}",
                why(&error, rights)
            )
        })?;
        let found = found.with_context(|| {
            format!(
                "there is no Lease `{namespace}/{lease}`; name the namespace of the controller with \
                 `--leader-election-namespace`, or give `--endpoint`"
            )
        })?;
        let holder = found.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
        let holder = holder.with_context(|| {
            format!("no controller leads: Lease `{namespace}/{lease}` has no holder; look at the controller's pods")
        })?;
        let name = host(&holder);
        let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
        let pods = Api::<Pod>::all(client.clone()).list(&parameters).await.map_err(|error| {
            let rights = "grant verb `list` on pods, or give `--endpoint`";
            anyhow!("cannot look for pod `{name}`, which leads: {}", why(&error, rights))
        })?;
        let pod = pods.items.into_iter().next().with_context(|| {
            format!(
                "`{name}` leads and is no pod of the cluster: a process elsewhere, or a pod in the network of its node; give \
                 the place of its metrics with `--endpoint`"
            )
        })?;
        Ok(Found {
            namespace: pod.namespace().unwrap_or_default(),
            port: metrics_port(&pod),
            pod: pod.name_any(),
        })
    }
}

/// The name of the host in the identity of a candidate; the rest is random.
fn host(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(host, _)| host)
}

fn metrics_port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(METRICS_PORT));
    port.and_then(|port| u16::try_from(port.container_port).ok()).unwrap_or(METRICS_PORT_NUMBER)
}

/// One request and its answer on a stream of its own.
async fn exchange<S>(stream: S, path: &str) -> Result<Answer>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(stream).await?;
    let driven = tokio::spawn(connection);
    let request =
        http::Request::get(path).header(http::header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    driven.abort();
    if !status.is_success() {
        bail!("it answers {status}: {}", String::from_utf8_lossy(&body).trim());
    }
    serde_json::from_slice(&body)
        .context("its answer cannot be read; use the program of the controller's version")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// The leader of a cluster that has these objects at their paths.
    fn leader(objects: Vec<(&'static str, Value)>) -> Leader {
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
            let found = objects.iter().find(|(known, _)| *known == path).map(|(_, object)| object.clone());
            async move {
                let code = found.as_ref().map_or(404, |found| found["code"].as_u64().unwrap_or(200));
                let missing =
                    json!({"kind": "Status", "code": code, "reason": "NotFound", "status": "Failure"});
                let body = serde_json::to_vec(&found.unwrap_or(missing)).unwrap();
                let code = u16::try_from(code).unwrap();
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body)).unwrap())
            }
        });
        let client = Client::new(service, "default");
        Leader { client, namespace: "kube-system".to_owned(), lease: "karpenter-leader-election".to_owned() }
    }

    const LEASE: &str =
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";
    const PODS: &str = "/api/v1/pods?&fieldSelector=metadata.name%3Dkarpenter-a-b";

    fn lease(holder: &str) -> (&'static str, Value) {
        (LEASE, json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": holder}}))
    }

    fn pods(ports: &Value) -> (&'static str, Value) {
        let containers = json!([{"name": "proxy"}, {"name": "controller", "ports": ports}]);
        let pod = json!({"metadata": {"name": "karpenter-a-b", "namespace": "karpenter"}, "spec": {"containers": containers}});
        (PODS, json!({"metadata": {}, "items": [pod]}))
    }

    async fn why_not(objects: Vec<(&'static str, Value)>) -> String {
        format!("{:#}", leader(objects).find().await.unwrap_err())
    }

    #[tokio::test]
    async fn the_pod_that_holds_the_lease_is_found_with_its_port() {
        let found = |port| Found { namespace: "karpenter".to_owned(), pod: "karpenter-a-b".to_owned(), port };
        let named =
            json!([{"name": "http", "containerPort": 8081}, {"name": "http-metrics", "containerPort": 9000}]);
        let holder = "karpenter-a-b_0123456789abcdef";
        assert_eq!(leader(vec![lease(holder), pods(&named)]).find().await.unwrap(), found(9000));
        assert_eq!(leader(vec![lease(holder), pods(&json!([]))]).find().await.unwrap(), found(8080));
    }

    #[test]
    fn an_endpoint_may_be_an_address_or_the_url_of_the_metrics() {
        for (written, meant) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("localhost:8080", "http://localhost:8080/"),
            ("https://karpenter.example.com/a/metrics/", "https://karpenter.example.com/a"),
            ("[::1]:8080/metrics", "http://[::1]:8080/"),
        ] {
            assert_eq!(endpoint(written).map(|uri| uri.to_string()), Ok(meant.to_owned()), "{written}");
        }
        for wrong in ["", "ftp://localhost", "http://", "local host:8080"] {
            let said = endpoint(wrong).unwrap_err();
            assert!(said.ends_with("; write for example `http://127.0.0.1:8080`"), "{wrong}: {said}");
        }
    }

    #[tokio::test]
    async fn a_leader_that_cannot_be_found_is_explained_with_the_next_step() {
        let none = why_not(vec![]).await;
        assert!(
            none.contains("there is no Lease `kube-system/karpenter-leader-election`; name the namespace"),
            "{none}"
        );
        let released = why_not(vec![lease("")]).await;
        assert!(released.contains("no controller leads"), "{released}");
        let elsewhere = why_not(vec![
            lease("laptop_0"),
            ("/api/v1/pods?&fieldSelector=metadata.name%3Dlaptop", json!({"metadata": {}, "items": []})),
        ]);
        let elsewhere = elsewhere.await;
        assert!(elsewhere.contains("`laptop` leads and is no pod of the cluster"), "{elsewhere}");
        let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"});
        let denied = why_not(vec![(LEASE, forbidden.clone())]).await;
        assert!(denied.contains("grant verb `get` on leases"), "{denied}");
        let denied = why_not(vec![lease("karpenter-a-b_0"), (PODS, forbidden)]).await;
        assert!(denied.contains("grant verb `list` on pods"), "{denied}");
    }

    #[tokio::test]
    async fn a_refusal_of_the_controller_is_said_as_it_says_it() {
        let (near, mut far) = tokio::io::duplex(4096);
        let served = tokio::spawn(async move {
            let mut request = vec![0; 4096];
            let read = far.read(&mut request).await.unwrap();
            let answer = "HTTP/1.1 403 Forbidden\r\ncontent-length: 17\r\n\r\nfor this machine\n";
            far.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let error = exchange(TokioIo::new(near), "/explain?node=a").await.unwrap_err().to_string();
        assert_eq!(error, "it answers 403 Forbidden: for this machine");
        assert!(served.await.unwrap().starts_with("GET /explain?node=a HTTP/1.1\r\n"));
    }
}
