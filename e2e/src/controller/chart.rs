//! The controller in the cluster, as the charts install it with Helm.
//!
//! Additional coverage over a process on this machine: the image, the Deployment with its security context and probes, the
//! roles as the chart renders them, two replicas with one leader, credentials of EKS Pod Identity, and the way from a pod to
//! the account. Definitions come from the chart `karpenter-crd`, everything else from `karpenter`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::sync::{Mutex, OnceCell};

use super::forward::Forward;
use super::{LOST_LEASE, Place, SERVICE_ACCOUNT, Settings, pod_identity};
use crate::cluster::kind::KindCluster;
use crate::command_line::{self, AwsEnvironment};
use crate::engine::controller_image::{ControllerImage, controller_image};
use crate::engine::finish;
use crate::manifests::{self, LEASE, NAMESPACE};
use crate::prepare::{self, cache};
use crate::wait;

/// The release of the chart; the name of its Deployment and its service account with it.
const RELEASE: &str = SERVICE_ACCOUNT;
/// Its pods.
const PODS: &str = "app.kubernetes.io/name=karpenter,app.kubernetes.io/instance=karpenter";
/// The chart's default.
const METRICS_PORT: u16 = 8080;

/// Number of log lines that a failure shows.
const LAST_LINES: i64 = 15;

/// Kills the processes of some pods on their node, in which a container has its pod's name as host name. A grace period of
/// zero would not do: the kubelet sends SIGTERM first all the same, and an orderly end is not what a crash is.
const KILL: &str = r#"
for process in $(pgrep -x karpenter); do
  for pod in "$@"; do
    if tr '\0' '\n' < /proc/$process/environ | grep -qx "HOSTNAME=$pod"; then
      kill -KILL "$process" && echo "$pod"
    fi
  done
done
"#;

/// A controller in the cluster.
#[derive(Default)]
pub struct InCluster {
    ready: OnceCell<Ready>,
    running: Mutex<Option<Running>>,
}

/// Results of the preparation, which is made once.
struct Ready {
    image: ControllerImage,
    nodes: Vec<String>,
    helm: PathBuf,
}

/// State of one start.
struct Running {
    /// Folder of the logs.
    folder: PathBuf,
    /// True if only one of the pods acts.
    election: bool,
    /// There is none before its pods are ready.
    forward: Option<Forward>,
}

impl InCluster {
    /// Brings the image and the agent of EKS Pod Identity to the nodes, and installs the definitions.
    pub(super) async fn prepare(&self, place: Place<'_>) -> Result<()> {
        let kind = kind(place)?;
        let image = controller_image(kind.engine(), command_line::binary()?).await?;
        kind.load(&image.name()).await?;
        let nodes = kind.nodes().await?;
        let account = place.account.endpoint().trim_start_matches("http://");
        for node in &nodes {
            pod_identity::start_agent(kind.engine(), node, account).await?;
        }
        let helm = tokio::task::spawn_blocking(prepare::helm).await.context("prepare helm")??;
        let ready = self.ready.get_or_init(|| async { Ready { image, nodes, helm } }).await;
        upgrade(ready, place, "karpenter-crd", &[]).await?;
        let definitions = command_line::definitions(place.aws).await?;
        manifests::all_served(&place.cluster.access().client(), &definitions).await
    }

    /// Installs or upgrades the release, waits until its pods are ready, and forwards the port of the one that acts.
    pub(super) async fn start(&self, place: Place<'_>, settings: &Settings, folder: &Path) -> Result<()> {
        let ready = self.ready.get().context("start a controller before its chart is prepared")?;
        let values = values(&ready.image, place.aws, settings)?;
        let path = folder.join("values.json");
        std::fs::write(&path, format!("{values:#}"))
            .with_context(|| format!("write `{}`", path.display()))?;
        let path = path.to_str().context("the run folder is not valid UTF-8")?;
        upgrade(ready, place, RELEASE, &["--skip-crds", "--values", path]).await?;
        // From here on there is something to save the logs of, also when the pods never get ready.
        let (owned, election) = (folder.to_owned(), settings.election);
        *self.running.lock().await = Some(Running { folder: owned, election, forward: None });
        let client = place.cluster.access().client();
        let pods = rolled_out(&client, replicas(settings.election)).await?;
        let acting = acting(&client, &pods, settings.election).await?;
        let kubeconfig = place.cluster.access().kubeconfig();
        let (port, pod) = (settings.metrics_port, acting.name_any());
        let forward = Forward::start(port, kubeconfig, &pod, METRICS_PORT, folder, place.guard).await?;
        if let Some(running) = self.running.lock().await.as_mut() {
            running.forward = Some(forward);
        }
        Ok(())
    }

    /// Fails when a container was restarted, unless it had lost its Lease: whatever else Kubernetes puts right, the
    /// controller ended by itself.
    pub(super) async fn check(&self, place: Place<'_>) -> Result<()> {
        if self.running.lock().await.is_none() {
            return Ok(());
        }
        let client = place.cluster.access().client();
        unbroken(&client, &pods(&client).await?).await
    }

    /// Scales it to zero.
    pub(super) async fn stop(&self, place: Place<'_>) -> Result<()> {
        self.save_logs(place).await?;
        let Some(running) = self.running.lock().await.take() else { return Ok(()) };
        if let Some(forward) = running.forward {
            forward.stop().await?;
        }
        let client = place.cluster.access().client();
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        let patch = json!({ "spec": { "replicas": 0 } });
        deployments
            .patch_scale(RELEASE, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .context("scale the controller to zero")?;
        wait::until("the controller's pods to end", || async {
            let left = pods(&client).await?;
            Ok(if left.is_empty() { Ok(()) } else { Err(states(&left)) })
        })
        .await
    }

    /// Kills the pod that acts, or all if none is known to. The Deployment brings others; the replica that stays takes
    /// over when the lease has run out.
    pub(super) async fn kill(&self, place: Place<'_>) -> Result<()> {
        self.save_logs(place).await?;
        let Some(running) = self.running.lock().await.take() else { return Ok(()) };
        if let Some(forward) = running.forward {
            forward.stop().await?;
        }
        let ready = self.ready.get().context("kill a controller before its chart is prepared")?;
        let client = place.cluster.access().client();
        let mut victims = pods(&client).await?;
        if running.election
            && let Some(leader) = holder(&client).await?.and_then(|holder| leader(&holder, &victims))
        {
            victims = vec![leader];
        }
        let names: Vec<String> = victims.iter().map(ResourceExt::name_any).collect();
        let engine = kind(place)?.engine();
        let mut killed = BTreeSet::new();
        for node in &ready.nodes {
            let mut arguments = vec!["exec", node, "sh", "-c", KILL, "kill"];
            arguments.extend(names.iter().map(String::as_str));
            let said = engine.docker(&arguments).await.context("kill the controller")?;
            killed.extend(said.lines().map(str::to_owned));
        }
        // Nothing to restart for the kubelet, which would call the pod one that crashes and wait longer each time.
        let api: Api<Pod> = Api::namespaced(client, NAMESPACE);
        for name in &names {
            let deleted = api.delete(name, &DeleteParams::default().grace_period(0)).await;
            if let Err(error) = deleted
                && !matches!(&error, kube::Error::Api(status) if status.code == 404)
            {
                return Err(error).with_context(|| format!("delete pod `{name}`"));
            }
        }
        ensure!(!killed.is_empty(), "no process of the pods {names:?} was there to be killed");
        Ok(())
    }

    /// Writes the log of every pod to `<folder>/<pod>.log`, and of its container before if it was restarted.
    pub(super) async fn save_logs(&self, place: Place<'_>) -> Result<()> {
        let running = self.running.lock().await;
        let Some(Running { folder, .. }) = running.as_ref() else { return Ok(()) };
        let client = place.cluster.access().client();
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        for pod in pods(&client).await? {
            let name = pod.name_any();
            for previous in [false, true] {
                if previous && restarts(&pod) == 0 {
                    continue;
                }
                let text = api.logs(&name, &LogParams { previous, ..LogParams::default() }).await;
                // A pod that has not started yet, or is gone, has no log; that is for its state to say.
                let text = text.unwrap_or_else(|error| format!("no log: {error}\n"));
                let path =
                    folder.join(if previous { format!("{name}.before.log") } else { format!("{name}.log") });
                std::fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
            }
        }
        Ok(())
    }
}

fn kind(place: Place<'_>) -> Result<&KindCluster> {
    place.cluster.kind().context("this cluster has no node for the controller's pods; choose a kind cluster")
}

/// Two with an election, as the chart has them; one without, because both would act.
const fn replicas(election: bool) -> usize {
    if election { 2 } else { 1 }
}

/// `helm upgrade --install` of a chart under its own name.
async fn upgrade(ready: &Ready, place: Place<'_>, chart: &str, arguments: &[&str]) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?;
    let mut command = Command::new(&ready.helm);
    command
        .args(["upgrade", "--install", chart])
        .arg(cache::repository().join("charts").join(chart))
        .args(["--namespace", NAMESPACE, "--kubeconfig"])
        .arg(place.cluster.access().kubeconfig())
        .args(arguments)
        // The cluster is on this machine, whatever proxy the environment names.
        .env("NO_PROXY", "*")
        .kill_on_drop(true);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(name, folder.path());
    }
    finish(&mut command, &format!("helm upgrade --install {chart}")).await.map(drop)
}

/// Returns the values that differ from the chart's defaults. The cluster has one node, without a zone, so nothing can be kept
/// apart; the affinity that keeps the controller off nodes it manages stays.
fn values(image: &ControllerImage, aws: &AwsEnvironment, settings: &Settings) -> Result<Value> {
    let mut environment = vec![
        json!({ "name": "AWS_ENDPOINT_URL", "value": aws.endpoint }),
        json!({ "name": "AWS_EC2_METADATA_DISABLED", "value": "true" }),
    ];
    environment.extend(pod_identity::variables(&aws.region, &aws.cluster));
    environment
        .extend(settings.variables.iter().map(|(name, value)| json!({ "name": name, "value": value })));
    // Without an election two versions side by side would both act.
    let strategy = if settings.election { json!({}) } else { json!({ "type": "Recreate" }) };
    Ok(json!({
        "replicas": replicas(settings.election),
        "strategy": strategy,
        "affinity": { "podAntiAffinity": null },
        "topologySpreadConstraints": [],
        "logLevel": "debug",
        "extraVolumes": [pod_identity::volume()],
        "controller": {
            "image": { "repository": image.repository, "tag": image.tag },
            "env": environment,
            "extraVolumeMounts": [pod_identity::mount()],
        },
        "settings": {
            "clusterName": aws.cluster,
            "region": aws.region,
            "interruptionQueue": aws.cluster,
            "enableZonalShift": true,
            "disableLeaderElection": !settings.election,
            "featureGates": gates(&settings.feature_gates)?,
        },
    }))
}

/// `FEATURE_GATES` in the words of the chart: `NodeRepair=true` is `nodeRepair: true`.
fn gates(text: &str) -> Result<Map<String, Value>> {
    let mut gates = Map::new();
    for gate in text.split(',').filter(|gate| !gate.is_empty()) {
        let (name, on) =
            gate.split_once('=').with_context(|| format!("`{gate}` is no feature gate `Name=true`"))?;
        let mut letters = name.chars();
        let first = letters.next().with_context(|| format!("feature gate `{gate}` has no name"))?;
        let on: bool =
            on.parse().with_context(|| format!("feature gate `{gate}` is neither true nor false"))?;
        gates.insert(format!("{}{}", first.to_ascii_lowercase(), letters.as_str()), json!(on));
    }
    Ok(gates)
}

async fn pods(client: &Client) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    Ok(api.list(&ListParams::default().labels(PODS)).await.context("list the controller's pods")?.items)
}

/// Waits until the Deployment has exactly `replicas` pods of its template, and all of them are ready. Its status alone may
/// still be about a pod that was deleted a moment ago.
async fn rolled_out(client: &Client, replicas: usize) -> Result<Vec<Pod>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    wait::until(&format!("{replicas} ready pods of the controller"), || async {
        let deployment = deployments.get(RELEASE).await.context("read the controller's Deployment")?;
        let pods = pods(client).await?;
        unbroken(client, &pods).await?;
        let complete = is_rolled_out(&deployment, replicas)
            && pods.len() == replicas
            && pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod));
        let seen = states(&pods);
        Ok(if complete { Ok(pods) } else { Err(seen) })
    })
    .await
}

fn is_rolled_out(deployment: &Deployment, replicas: usize) -> bool {
    let Some(status) = &deployment.status else { return false };
    let count = |found: Option<i32>| usize::try_from(found.unwrap_or_default()) == Ok(replicas);
    status.observed_generation == deployment.metadata.generation
        && count(status.replicas)
        && count(status.updated_replicas)
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the number of restarts of a pod's containers.
fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).sum()
}

/// Fails with the last words of a container that ended in another way than by losing its Lease.
async fn unbroken(client: &Client, pods: &[Pod]) -> Result<()> {
    let Some(broken) = pods.iter().find(|pod| restarts(pod) > 0) else { return Ok(()) };
    let name = broken.name_any();
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let asked = LogParams { previous: true, tail_lines: Some(LAST_LINES), ..LogParams::default() };
    let said = api.logs(&name, &asked).await.unwrap_or_else(|error| format!("no log: {error}"));
    if said.contains(LOST_LEASE) {
        tracing::warn!(
            pod = name,
            times = restarts(broken),
            "lost its Lease, and Kubernetes started it again"
        );
        return Ok(());
    }
    bail!("the controller in pod `{name}` has ended {} times; its last lines:\n{said}", restarts(broken));
}

/// Pods in a line, with what keeps each from being ready.
fn states(pods: &[Pod]) -> String {
    let states = pods.iter().map(|pod| {
        let status = pod.status.clone().unwrap_or_default();
        let phase = status.phase.unwrap_or_default();
        let waiting = status
            .container_statuses
            .iter()
            .flatten()
            .find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone());
        let unmet =
            status.conditions.iter().flatten().find_map(|condition| {
                (condition.status == "False").then(|| condition.message.clone()).flatten()
            });
        let why = [waiting, unmet].into_iter().flatten().collect::<Vec<_>>().join(": ");
        format!("`{}` is {phase} {why}", pod.name_any()).trim_end().to_owned()
    });
    format!("{} pods: {}", pods.len(), states.collect::<Vec<_>>().join("; "))
}

/// The pod that acts: the leader, for which this waits, or the only one.
async fn acting(client: &Client, pods: &[Pod], election: bool) -> Result<Pod> {
    if !election {
        return pods.first().cloned().context("the controller has no pod");
    }
    wait::until("one of the controller's pods to lead", || async {
        let holder = holder(client).await?.unwrap_or_default();
        Ok(leader(&holder, pods).ok_or_else(|| format!("the lease is held by `{holder}`")))
    })
    .await
}

/// The identity in the lease; `None` before there is a lease.
async fn holder(client: &Client) -> Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = leases.get_opt(LEASE).await.context("read the lease")?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity))
}

/// The pod with this identity: its name and a random part.
fn leader(identity: &str, pods: &[Pod]) -> Option<Pod> {
    let (name, _) = identity.rsplit_once('_')?;
    pods.iter().find(|pod| pod.name_any() == name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, status: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name }, "status": status })).unwrap()
    }

    fn values_for(election: bool) -> Value {
        let image = ControllerImage { repository: "r".to_owned(), tag: "t".to_owned() };
        let aws = AwsEnvironment {
            endpoint: "http://198.18.77.1:1".to_owned(),
            region: "us-west-2".to_owned(),
            cluster: "c".to_owned(),
        };
        let feature_gates = "NodeRepair=true,ReservedCapacity=false".to_owned();
        values(&image, &aws, &Settings { election, feature_gates, variables: Vec::new(), metrics_port: 1 })
            .unwrap()
    }

    #[test]
    fn values_are_those_of_a_user_of_eks() {
        let values = values_for(true);
        assert_eq!((&values["replicas"], &values["strategy"]), (&json!(2), &json!({})));
        let settings = &values["settings"];
        assert_eq!(settings["disableLeaderElection"], json!(false));
        assert_eq!(settings["featureGates"], json!({ "nodeRepair": true, "reservedCapacity": false }));
        let environment = values["controller"]["env"].as_array().unwrap();
        let of =
            |name: &str| environment.iter().find(|row| row["name"] == name).map(|row| row["value"].clone());
        let credentials = "http://169.254.170.23/_karpenter/pod-identity?cluster=c&region=us-west-2";
        assert_eq!(of("AWS_CONTAINER_CREDENTIALS_FULL_URI"), Some(json!(credentials)));
        let mount = &values["controller"]["extraVolumeMounts"][0];
        let token = of("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").unwrap();
        assert!(token.as_str().unwrap().starts_with(mount["mountPath"].as_str().unwrap()), "{token}");
        let volume = &values["extraVolumes"][0];
        assert_eq!(volume["name"], mount["name"]);
        let projected = &volume["projected"]["sources"][0]["serviceAccountToken"];
        assert_eq!(projected["audience"], "pods.eks.amazonaws.com");
    }

    #[test]
    fn without_an_election_there_is_one_at_a_time() {
        let values = values_for(false);
        assert_eq!((&values["replicas"], &values["strategy"]["type"]), (&json!(1), &json!("Recreate")));
        assert_eq!(values["settings"]["disableLeaderElection"], json!(true));
    }

    #[test]
    fn gates_that_are_none_are_refused() {
        assert!(gates("").unwrap().is_empty());
        for text in ["NodeRepair", "=true", "NodeRepair=yes"] {
            assert!(gates(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_leader_is_the_pod_the_lease_names() {
        let pods = [pod("karpenter-a", json!({})), pod("karpenter-b", json!({}))];
        let named = |identity| leader(identity, &pods).map(|pod| pod.name_any());
        assert_eq!(named("karpenter-b_0123456789abcdef").as_deref(), Some("karpenter-b"));
        for identity in ["", "karpenter-b", "karpenter-c_0123456789abcdef"] {
            assert_eq!(named(identity), None, "{identity}");
        }
    }

    #[test]
    fn a_rollout_is_complete_when_the_current_template_has_every_pod() {
        let deployment = |observed: i64, updated: i32| -> Deployment {
            let status = json!({ "observedGeneration": observed, "replicas": 2, "updatedReplicas": updated });
            serde_json::from_value(json!({ "metadata": { "generation": 3 }, "status": status })).unwrap()
        };
        assert!(is_rolled_out(&deployment(3, 2), 2));
        for stale in [deployment(2, 2), deployment(3, 1), Deployment::default()] {
            assert!(!is_rolled_out(&stale, 2));
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_says_why() {
        let waiting = json!({ "waiting": { "reason": "ErrImageNeverPull" } });
        let container = json!({
            "name": "controller", "image": "i", "imageID": "", "ready": false, "restartCount": 2, "state": waiting,
        });
        let pod = pod("a", json!({ "phase": "Pending", "containerStatuses": [container] }));
        assert_eq!(states(std::slice::from_ref(&pod)), "1 pods: `a` is Pending ErrImageNeverPull");
        assert_eq!((is_ready(&pod), restarts(&pod)), (false, 2));
    }
}
