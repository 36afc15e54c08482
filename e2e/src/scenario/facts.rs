//! Facts that scenarios read from a world, and changes they make to it.

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_aws_api::Filter;
use karpenter_aws_api::ec2::{Instance, InstanceQuery, InstanceState};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::wait;
use crate::world::World;

const DEPLOYMENT: &str = "inflate";

/// Scales the README's Deployment.
pub(super) async fn scale(world: &World, replicas: i32) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), "default");
    let patch = json!({ "spec": { "replicas": replicas } });
    api.patch_scale(DEPLOYMENT, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .with_context(|| format!("scale `{DEPLOYMENT}` to {replicas}"))?;
    Ok(())
}

/// Waits until exactly `count` pods of the Deployment exist and all of them run.
pub(super) async fn all_running(world: &World, count: usize) -> Result<Vec<Pod>> {
    world.check_controller().await?;
    wait::until(&format!("{count} running pods"), || async {
        let pods = pods(world).await?;
        let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
        Ok(if running == count && pods.len() == count {
            Ok(pods)
        } else {
            Err(format!("{running} of {} pods run", pods.len()))
        })
    })
    .await
}

/// Waits until there is no claim, no Node, and no live instance left.
pub(super) async fn nothing_left(world: &World) -> Result<()> {
    world.check_controller().await?;
    wait::until("no claim, node or instance", || async {
        let (claims, nodes, instances) = (claims(world).await?, nodes(world).await?, instances(world).await?);
        Ok(if claims.is_empty() && nodes.is_empty() && instances.is_empty() {
            Ok(())
        } else {
            Err(format!("{} claims, {} nodes, {} instances", claims.len(), nodes.len(), instances.len()))
        })
    })
    .await
}

/// The pods of the Deployment, the ending ones included.
pub(super) async fn pods(world: &World) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), "default");
    let selected = ListParams::default().labels("app=inflate");
    Ok(api.list(&selected).await.context("list pods")?.items)
}

/// Every NodeClaim.
pub(super) async fn claims(world: &World) -> Result<Vec<NodeClaim>> {
    let api: Api<NodeClaim> = Api::all(world.client.clone());
    Ok(api.list(&ListParams::default()).await.context("list NodeClaims")?.items)
}

/// Every Node but those of the control plane, which a kind cluster has.
pub(super) async fn nodes(world: &World) -> Result<Vec<Node>> {
    let api: Api<Node> = Api::all(world.client.clone());
    let workers = ListParams::default().labels("!node-role.kubernetes.io/control-plane");
    Ok(api.list(&workers).await.context("list Nodes")?.items)
}

/// Every instance of the account that is not terminated, whatever launched it.
pub(super) async fn instances(world: &World) -> Result<Vec<Instance>> {
    let alive = InstanceState::ALIVE.map(InstanceState::as_str);
    let query = InstanceQuery { ids: Vec::new(), filters: vec![Filter::new("instance-state-name", alive)] };
    Ok(world.aws.ec2.describe_instances(&query).await?)
}

/// The instance behind a Node, as EC2 describes it.
pub(super) async fn instance_behind(world: &World, node: &Node) -> Result<Instance> {
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    let found = instances(world).await?.into_iter().find(|one| one.id.as_str() == instance_of(id));
    found.with_context(|| {
        format!("node `{}` says that it is `{id}`, which EC2 does not have", node.name_any())
    })
}

/// The instance that a provider id names.
pub(super) fn instance_of(provider_id: &str) -> &str {
    provider_id.rsplit('/').next().unwrap_or(provider_id)
}

/// The phase of a pod, or the empty text.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns whether the scheduler has looked for a node for this pod and found none.
pub(super) fn is_unschedulable(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })
}

/// A label of anything, or the empty text.
pub(super) fn label<'a>(object: &'a impl ResourceExt, key: &str) -> &'a str {
    object.labels().get(key).map_or("", String::as_str)
}
