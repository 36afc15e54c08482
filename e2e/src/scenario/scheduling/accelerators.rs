//! A pool of machines with GPUs behind a taint: the pod that asks for a GPU and tolerates the taint gets one, the
//! pod that tolerates nothing stays out and gets an event that names the taint.

use anyhow::{Context, Result, ensure};
use karpenter_model::names;
use serde_json::json;

use crate::manifests::merged;
use crate::scenario::facts::{label, phase};
use crate::scenario::test_namespace::{TestNamespace, container, needs, requiring};
use crate::world::World;

const GPU: &str = "nvidia.com/gpu";

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "accelerators").await?;
    let machines = requiring(json!([
        needs(names::label::CAPACITY_TYPE, &["on-demand"]),
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"},
    ]));
    let taints = json!({"spec": {"template": {"spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]}}}});
    test.ready_pool("accelerators", merged(machines, taints)).await?;
    let trainer = json!({"spec": {
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container(json!({"requests": {"cpu": "1"}, "limits": {GPU: "1"}}))],
    }});
    test.pods("trainer", 1, trainer).await?;
    test.pods("bystander", 1, json!({})).await?;

    let node = test.running("trainer", 1).await?.remove(0);
    let instance_type = label(&node, names::label::INSTANCE_TYPE);
    ensure!(
        instance_type.starts_with('g'),
        "the cheapest machine with a GPU is of a g family, not {instance_type}"
    );
    let status = node.status.as_ref().context("the node has no status")?;
    let offered = status.allocatable.as_ref().and_then(|resources| resources.get(GPU));
    ensure!(offered.is_some_and(|count| count.0 != "0"), "{instance_type} offers no {GPU}");

    // The pools of the other namespaces are further off: they are not what the pod selects.
    let why = format!("pod does not tolerate a taint: {GPU}");
    test.pod_told("bystander", "FailedScheduling", &why).await?;
    test.pod_told("bystander", "FailedScheduling", "(NodePool=accelerators)").await?;
    let bystanders = test.pods_of("bystander").await?;
    ensure!(
        bystanders.iter().all(|pod| phase(pod) == "Pending"),
        "a pod runs behind a taint it does not tolerate"
    );
    Ok(())
}
