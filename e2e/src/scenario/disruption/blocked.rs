//! Nodes that would be replaced by cheaper ones stay as long as a pod must not go; the event on the node names the
//! pod, or the budget, and so does `karpenter explain`. As soon as nothing is in the way the node goes.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::labels;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::{WITHIN, consolidating};
use crate::manifests::{self, merged};
use crate::scenario::corner::{Corner, needs, requiring, told};
use crate::scenario::explained::explained;
use crate::world::World;

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// By an annotation of a pod.
pub(super) async fn by_annotation(world: &World) -> Result<()> {
    let corner = too_large(world, "protected").await?;
    for pod in corner.pods_of("worker").await? {
        corner.annotate(&pod, DO_NOT_DISRUPT, Some("true")).await?;
    }
    corner.scale("worker", 1).await?;
    let node = corner.running("worker", 1).await?.remove(0).name_any();
    let pod = corner.pods_of("worker").await?.remove(0);
    told(world, "default", &node, "DisruptionBlocked", &pod.name_any()).await?;
    let why = ["stays", "do-not-disrupt", &pod.name_any(), "(PodDoNotDisrupt)"];
    explained(world, &format!("node/{node}"), &why).await?;
    explained(world, "nodepool/protected", &["nodes that stay (PodDoNotDisrupt)", "disruptions ("]).await?;
    ensure!(corner.claims().await?.len() == 1, "a blocked node was replaced");

    corner.annotate(&pod, DO_NOT_DISRUPT, None).await?;
    corner.settled_on("worker", 1, WITHIN, &["m5.large"]).await
}

/// By a `PodDisruptionBudget` that allows nothing.
pub(super) async fn by_pod_budget(world: &World) -> Result<()> {
    let corner = too_large(world, "budgeted").await?;
    manifests::apply_json(
        &world.client,
        json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "never", "namespace": "budgeted"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "worker"}}},
        }),
    )
    .await?;
    corner.scale("worker", 1).await?;
    let node = corner.running("worker", 1).await?.remove(0).name_any();
    told(world, "default", &node, "DisruptionBlocked", "budgeted/never").await?;
    let why = ["stays", "budgeted/never", "(PodDisruptionBudget)"];
    explained(world, &format!("node/{node}"), &why).await?;
    let claim = corner.claims().await?.remove(0).name_any();
    explained(world, &format!("nodeclaim/{claim}"), &why).await?;
    ensure!(corner.claims().await?.len() == 1, "a blocked node was replaced");

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(world.client.clone(), "budgeted");
    budgets.delete("never", &DeleteParams::default()).await.context("delete the budget")?;
    corner.settled_on("worker", 1, WITHIN, &["m5.large"]).await
}

/// A corner with three pods on a node that is too large for one.
async fn too_large<'a>(world: &'a World, name: &'static str) -> Result<Corner<'a>> {
    let corner = Corner::open(world, name).await?;
    let types = requiring(json!([
        needs(labels::INSTANCE_TYPE, &["m5.xlarge", "m5.large"]),
        needs(labels::CAPACITY_TYPE, &["on-demand"]),
    ]));
    corner.ready_pool(name, merged(types, consolidating("WhenEmptyOrUnderutilized"))).await?;
    let large = json!({"spec": {"containers": [crate::scenario::corner::container(
        json!({"requests": {"cpu": "1100m", "memory": "256Mi"}})
    )]}});
    corner.pods("worker", 3, large).await?;
    corner.running("worker", 3).await?;
    Ok(corner)
}
