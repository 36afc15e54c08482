//! A pool that allows both architectures: each pod's node is of the one it selects.

use anyhow::{Context, Result, ensure};
use karpenter_model::names::label;
use serde_json::json;

use crate::scenario::test_namespace::{TestNamespace, by_label, needs, requiring};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "architectures").await?;
    let both = requiring(json!([
        needs(label::ARCH, &["amd64", "arm64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
    ]));
    test.ready_pool("architectures", both).await?;
    for arch in ["amd64", "arm64"] {
        let selector = json!({"spec": {"nodeSelector": {(label::ARCH): arch}}});
        test.pods(arch, 2, selector).await?;
    }

    for arch in ["amd64", "arm64"] {
        let nodes = test.running(arch, 2).await?;
        let found = by_label(&nodes, label::ARCH);
        ensure!(found.len() == 1 && found.contains_key(arch), "pods of {arch} run on {found:?}");
        // The label could be anybody's claim; this is the machine's own report.
        for node in &nodes {
            let info =
                node.status.as_ref().and_then(|status| status.node_info.as_ref()).context("no node info")?;
            ensure!(info.architecture == arch, "a node labelled {arch} is {}", info.architecture);
        }
    }
    Ok(())
}
