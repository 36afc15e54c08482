//! Pods become instances, nodes and running pods, and everything is removed again.
//!
//! 1. bootstrap, controller, NodePool and EC2NodeClass as in the README;
//! 2. `inflate` at 1, then at 10: every pod runs, on nodes that become exactly what the specification requires;
//! 3. the controller answers questions, found as users find it;
//! 4. `inflate` at 0: no claim, node, finalizer or instance is left.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_aws_api::ec2::Instance;
use karpenter_model::names;
use kube::ResourceExt;

use super::explained::explained;
use super::facts::{all_running, claims, instance_of, instances, label, nodes, nothing_left, pods, scale};
use crate::manifests;
use crate::wait;
use crate::world::World;

/// Labels of the provider that every instance type of the example's families has (spec aws-provider 1.9).
const PROVIDER_LABELS: &[&str] = &[
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-size",
];

/// Runs the scenario in a world in which nothing of ours is installed yet.
pub async fn run(world: &World) -> Result<()> {
    world.install().await?;
    play(world).await
}

/// Runs the scenario in a world in which the controller already runs.
pub async fn play(world: &World) -> Result<()> {
    world.install_pool(manifests::hurried).await?;
    manifests::apply(&world.client, manifests::INFLATE).await?;

    scale(world, 1).await?;
    all_running(world, 1).await?;
    scale(world, 10).await?;
    all_running(world, 10).await?;
    // A pod may run on a node before the controller has seen that the node is complete, and may move once more.
    wait::settles("machines as specified", || check_machines(world)).await?;
    let node = nodes(world).await?.first().map(ResourceExt::name_any).context("there is no node")?;
    explained(world, &format!("node/{node}"), &[&node]).await?;

    scale(world, 0).await?;
    nothing_left(world).await
}

/// Every claim has one node and one instance that are what the specification requires, and there are no others.
async fn check_machines(world: &World) -> Result<()> {
    let (claims, nodes, instances) = (claims(world).await?, nodes(world).await?, instances(world).await?);
    ensure!(
        claims.len() == nodes.len() && claims.len() == instances.len(),
        "{} claims, {} nodes, {} instances: these should be the same",
        claims.len(),
        nodes.len(),
        instances.len()
    );
    let by_id: BTreeMap<_, _> = instances.iter().map(|instance| (instance.id.as_str(), instance)).collect();
    for claim in &claims {
        let name = claim.name_any();
        let status = claim.status.as_ref().with_context(|| format!("claim `{name}` has no status"))?;
        let node_name =
            status.node_name.as_deref().with_context(|| format!("claim `{name}` has no node name"))?;
        let node = nodes.iter().find(|node| node.name_any() == node_name);
        let node =
            node.with_context(|| format!("claim `{name}` names node `{node_name}`, which does not exist"))?;
        let id = instance_of(status.provider_id.as_deref().unwrap_or_default());
        let instance = by_id.get(id).with_context(|| format!("claim `{name}` names instance `{id}`"))?;
        check_node(claim, node, instance)?;
        check_tags(world, claim, node, instance)?;
    }
    for pod in pods(world).await? {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let ours = nodes.iter().any(|node| node.name_any() == name);
        ensure!(ours, "pod `{}` runs on `{name}`, which is no node of ours", pod.name_any());
    }
    Ok(())
}

/// Labels, taints and provider id of a node (spec aws-provider 1.9, spec disruption 1.4).
fn check_node(claim: &NodeClaim, node: &Node, instance: &Instance) -> Result<()> {
    let name = node.name_any();
    let provider_id = format!("aws:///{}/{}", instance.zone, instance.id);
    let spec = node.spec.as_ref().with_context(|| format!("node `{name}` has no spec"))?;
    ensure!(spec.provider_id.as_deref() == Some(&provider_id), "node `{name}` should have {provider_id}");
    let expected = [
        (names::label::NODE_POOL, "general"),
        (names::label::CAPACITY_TYPE, "on-demand"),
        (names::label::INSTANCE_TYPE, instance.instance_type.as_str()),
        (names::label::ZONE, instance.zone.as_str()),
        (names::label::ARCH, "amd64"),
        (names::label::OS, "linux"),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ];
    for (key, value) in expected {
        let found = label(node, key);
        ensure!(found == value, "node `{name}` has {key}={found}, expected {value}");
    }
    for key in PROVIDER_LABELS {
        let found = label(node, key);
        ensure!(!found.is_empty() && found == label(claim, key), "node `{name}` has {key}={found}");
    }
    let taints: Vec<_> = spec.taints.iter().flatten().map(|taint| taint.key.as_str()).collect();
    ensure!(taints.is_empty(), "node `{name}` still has taints {taints:?}");
    let owners = node.owner_references();
    ensure!(
        owners.iter().any(|owner| owner.name == claim.name_any()),
        "node `{name}` is not owned by its claim"
    );
    ensure!(
        node.finalizers().iter().any(|f| f == "karpenter.sh/termination"),
        "node `{name}` has no finalizer"
    );
    Ok(())
}

/// Tags of an instance (spec aws-provider 1.9).
fn check_tags(world: &World, claim: &NodeClaim, node: &Node, instance: &Instance) -> Result<()> {
    let cluster = &world.environment.cluster;
    let expected = [
        (format!("kubernetes.io/cluster/{cluster}"), "owned".to_owned()),
        ("eks:eks-cluster-name".to_owned(), cluster.clone()),
        ("karpenter.sh/nodepool".to_owned(), "general".to_owned()),
        ("karpenter.sh/nodeclaim".to_owned(), claim.name_any()),
        ("karpenter.k8s.aws/ec2nodeclass".to_owned(), "default".to_owned()),
        ("Name".to_owned(), node.name_any()),
    ];
    for (key, value) in expected {
        let found = instance.tags.get(&key).map_or("nothing", String::as_str);
        ensure!(found == value, "instance `{}` is tagged {key}={found}, expected {value}", instance.id);
    }
    Ok(())
}
