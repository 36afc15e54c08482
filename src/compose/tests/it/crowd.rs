//! Many pods that are created at once, on an account whose machines take five seconds to boot.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_bootstrap::make_ready;
use karpenter_compose::playground::{Playground, Speed};
use karpenter_kube_sim::VirtualClock;
use karpenter_model::Clock;
use karpenter_testkit::objects::{node_class, node_pool, one_of};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) const CLUSTER: &str = "demo";
/// Time from launch until EC2 calls an instance running.
pub(crate) const BOOT: Duration = Duration::from_secs(5);
/// Interval of the counts of pods, for each thousand of them: reading them all is work for the same cores.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which it is called broken.
const PATIENCE: Duration = Duration::from_mins(10);

/// Results of the run.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Time from the creation of the Deployment until all of its pods run.
    pub(crate) took: Duration,
    /// Time from the creation of the Deployment until the last claim was made; the API server counts in seconds.
    pub(crate) claimed: Duration,
    /// Instances that were launched.
    pub(crate) instances: usize,
}

/// Creates that many pods in a new cluster whose pool is ready, and waits until all run.
pub(crate) async fn run(pods: usize) -> Result<Crowd> {
    let shutdown = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(Timestamp::now()));
    let speed = Speed { boot: BOOT, ..Speed::demo() };
    let playground = Playground::new(Arc::clone(&clock), CLUSTER, speed);
    playground.spawn(&mut tasks, &shutdown);
    make_ready(&playground.aws(), CLUSTER).await?;
    for object in karpenter_api::crd_values().into_iter().chain(objects()) {
        playground.load(&object)?;
    }
    tasks.spawn(karpenter_compose::run(playground.parts()?, shutdown.clone()));
    // One pod first: the pool is ready, and the controller leads.
    playground.load(&deployment("first", 1))?;
    until_running(&playground, 1).await?;

    let (start, created) = (Instant::now(), clock.now());
    playground.load(&deployment("crowd", pods))?;
    until_running(&playground, pods + 1).await?;
    let took = start.elapsed();
    let claimed = last_claim(&playground).await?.duration_since(created).try_into().unwrap_or_default();
    let crowd = Crowd { took, claimed, instances: playground.instances_launched() };
    shutdown.cancel();
    while tasks.join_next().await.is_some() {}
    Ok(crowd)
}

/// A pool without limits whose nodes stay, and its class.
fn objects() -> [Value; 2] {
    let requirements = [
        one_of("karpenter.sh/capacity-type", &["spot", "on-demand"]),
        one_of("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
    ];
    let stay = json!({ "disruption": { "consolidateAfter": "Never" } });
    [node_pool("general", &requirements, &stay), class()]
}

/// A class that finds what bootstrap has made.
pub(crate) fn class() -> Value {
    node_class("default", CLUSTER, &json!({}))
}

fn deployment(name: &str, replicas: usize) -> Value {
    let container = json!({
        "name": "pod", "image": "registry.k8s.io/pause:3.10",
        "resources": { "requests": { "cpu": "500m", "memory": "512Mi" } },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "terminationGracePeriodSeconds": 0, "containers": [container] },
            },
        },
    })
}

/// Returns the creation time of the youngest claim.
async fn last_claim(playground: &Playground) -> Result<Timestamp> {
    let api: Api<NodeClaim> = Api::all(playground.client());
    let claims = api.list(&ListParams::default()).await.context("cannot list claims")?.items;
    let made = claims.iter().filter_map(|claim| Some(claim.metadata.creation_timestamp.as_ref()?.0));
    made.max().context("there is no claim")
}

/// Waits until that many pods run.
async fn until_running(playground: &Playground, pods: usize) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(playground.client(), "default");
    let wait = async {
        loop {
            let all = api.list(&ListParams::default()).await.context("cannot list pods")?.items;
            let running = |pod: &&Pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            };
            if all.iter().filter(running).count() == pods {
                return Ok(());
            }
            tokio::time::sleep(LOOK * u32::try_from(pods.div_ceil(1_000)).unwrap_or(u32::MAX)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.context("the pods did not run in time")?
}
