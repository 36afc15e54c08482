//! Nodes that would be replaced by cheaper ones stay as long as a pod must not go; the event on the node names the
//! pod, or the budget, and so does `karpenter explain`. As soon as nothing is in the way the node goes.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::consolidating;
use crate::manifests::{self, merged};
use crate::scenario::explained::explained;
use crate::scenario::test_namespace::{TestNamespace, container, needs, requiring, told};
use crate::world::World;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// By an annotation of a pod.
pub(super) async fn by_annotation(world: &World) -> Result<()> {
    let test = too_large(world, "protected").await?;
    let pod = test.pods_of("worker").await?.remove(0);
    test.annotate(&pod, DO_NOT_DISRUPT, Some("true")).await?;
    let why = ["stays", "do-not-disrupt", &pod.name_any(), "(PodDoNotDisrupt)"];
    stays(&test, "protected", &pod.name_any(), &why).await?;
    explained(world, "nodepool/protected", &["nodes that stay (PodDoNotDisrupt)", "disruptions ("]).await?;

    test.annotate(&pod, DO_NOT_DISRUPT, None).await?;
    test.settled_on("worker", 1, &["m5.large"]).await
}

/// By a `PodDisruptionBudget` that allows nothing.
pub(super) async fn by_pod_budget(world: &World) -> Result<()> {
    let test = too_large(world, "budgeted").await?;
    test.forbid_evictions().await?;
    let why = ["stays", "budgeted/never", "(PodDisruptionBudget)"];
    stays(&test, "budgeted", "budgeted/never", &why).await?;

    test.allow_evictions().await?;
    test.settled_on("worker", 1, &["m5.large"]).await
}

/// A budget that allows nothing keeps no pod that is not healthy, if it says so (`unhealthyPodEvictionPolicy`).
pub(super) async fn by_unhealthy_pods(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "unhealthy").await?;
    test.ready_pool("unhealthy", of_types(&["m5.xlarge"])).await?;
    let mut asks = container(json!({"requests": {"cpu": "1", "memory": "256Mi"}}));
    // Nothing listens there, so it never becomes ready.
    asks["readinessProbe"] = json!({"httpGet": {"port": 9, "path": "/"}});
    test.pods("worker", 1, json!({"spec": {"containers": [asks]}})).await?;
    test.running("worker", 1).await?;
    let budget = |policy: &str| {
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "never", "namespace": "unhealthy"},
            "spec": {
                "maxUnavailable": 0,
                "selector": {"matchLabels": {"app": "worker"}},
                "unhealthyPodEvictionPolicy": policy,
            },
        })
    };
    manifests::apply_json(&world.client, budget("IfHealthyBudget")).await?;
    let why = ["stays", "unhealthy/never", "(PodDisruptionBudget)"];
    stays(&test, "unhealthy", "unhealthy/never", &why).await?;

    manifests::apply_json(&world.client, budget("AlwaysAllow")).await?;
    test.settled_on("worker", 1, &["m5.large"]).await
}

/// A namespace with one pod on a node twice as large as it needs, of a pool that allows no other.
async fn too_large<'a>(world: &'a World, name: &'static str) -> Result<TestNamespace<'a>> {
    let test = TestNamespace::open(world, name).await?;
    test.ready_pool(name, of_types(&["m5.xlarge"])).await?;
    let worker =
        json!({"spec": {"containers": [container(json!({"requests": {"cpu": "1", "memory": "256Mi"}}))]}});
    test.pods("worker", 1, worker).await?;
    test.running("worker", 1).await?;
    Ok(test)
}

/// Lets the pool `name` buy a cheaper type and checks that the node stays all the same: its event names the
/// `blocker`, and an explanation of the node or its claim says `why`.
async fn stays(test: &TestNamespace<'_>, name: &str, blocker: &str, why: &[&str]) -> Result<()> {
    let node = test.running("worker", 1).await?.remove(0);
    let claim = test.claim_of(&node).await?;
    test.pool(name, of_types(&["m5.xlarge", "m5.large"])).await?;
    let node = node.name_any();
    told(test.world, "default", &node, "DisruptionBlocked", blocker).await?;
    explained(test.world, &format!("node/{node}"), why).await?;
    explained(test.world, &format!("nodeclaim/{}", claim.name_any()), why).await?;
    ensure!(test.keeps(&claim).await?, "a blocked node was replaced");
    Ok(())
}

fn of_types(types: &[&str]) -> Value {
    let types =
        requiring(json!([needs(label::INSTANCE_TYPE, types), needs(label::CAPACITY_TYPE, &["on-demand"])]));
    merged(types, consolidating("WhenEmptyOrUnderutilized"))
}
