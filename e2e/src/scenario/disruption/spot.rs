//! With the gate open a spot node that is too large is replaced by a cheaper spot node, offered with at least the
//! fifteen types that keep such steps rare.

use anyhow::{Result, ensure};
use karpenter_model::names;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::consolidating;
use crate::manifests::merged;
use crate::scenario::facts::label;
use crate::scenario::test_namespace::{TestNamespace, needs, requiring, told_once};
use crate::wait;
use crate::world::World;

const CPUS: &str = "karpenter.k8s.aws/instance-cpu";
/// More than a pod that requests half a CPU will ever need.
const TOO_MANY: u32 = 8;
/// Fewest types that a spot node may be replaced by (spec disruption 3.10).
const FLEXIBILITY: usize = 15;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "spot").await?;
    test.ready_pool("spot", with_cpus(TOO_MANY - 1)).await?;
    test.pods("worker", 1, json!({})).await?;
    let large = test.running("worker", 1).await?.remove(0);
    let cpus = label(&large, CPUS).to_owned();
    ensure!(cpus.parse::<u32>()? >= TOO_MANY, "the first node has {cpus} CPUs");

    // Further types that the pool allows are no drift: the node is as good as before, it only costs too much now.
    test.pool("spot", with_cpus(1)).await?;
    let small = wait::until("another node with fewer CPUs", || async {
        let nodes = test.nodes().await?;
        let fewer = |node: &k8s_openapi::api::core::v1::Node| {
            label(node, CPUS).parse::<u32>().is_ok_and(|cpus| cpus < TOO_MANY)
        };
        let seen: Vec<&str> = nodes.iter().map(|node| label(node, CPUS)).collect();
        Ok(match &nodes[..] {
            [one] if one.uid() != large.uid() && fewer(one) => Ok(one.clone()),
            _ => Err(format!("CPUs of the nodes: {seen:?}")),
        })
    })
    .await?;
    for node in [&large, &small] {
        let capacity_type = label(node, names::label::CAPACITY_TYPE);
        ensure!(capacity_type == "spot", "`{}` is {capacity_type}", node.name_any());
    }
    told_once(world, "default", &large.name_any(), "DisruptionTerminating", "Underutilized").await?;
    let claim = test.claim_of(&small).await?;
    let types =
        claim.spec.requirements.iter().find(|requirement| requirement.key == names::label::INSTANCE_TYPE);
    let offered = types.map_or(0, |requirement| requirement.values.iter().flatten().count());
    ensure!(
        offered >= FLEXIBILITY,
        "the replacement was offered as {offered} types, at least {FLEXIBILITY} keep it from moving on"
    );
    test.running("worker", 1).await?;
    Ok(())
}

/// Returns a pool of spot machines, with more than `more_than` CPUs each.
fn with_cpus(more_than: u32) -> Value {
    let spot = requiring(json!([
        needs(names::label::CAPACITY_TYPE, &["spot"]),
        needs(names::label::ARCH, &["amd64"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        {"key": CPUS, "operator": "Gt", "values": [more_than.to_string()]},
    ]));
    merged(spot, consolidating("WhenEmptyOrUnderutilized"))
}
