//! What must hold at every moment while nodes are replaced, asked four times a second.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use tokio::time::{MissedTickBehavior, interval};

use crate::scenario::corner::Corner;

const ASK_EVERY: Duration = Duration::from_millis(250);
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Runs `behaviour`; fails as soon as more than `allowed` nodes of the corner are on their way out at once.
pub(super) async fn at_most_leaving<T>(
    corner: &Corner<'_>,
    allowed: usize,
    behaviour: impl Future<Output = Result<T>>,
) -> Result<T> {
    let looks = async {
        let mut ticks = interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let nodes = corner.nodes().await?;
            let leaving: BTreeSet<String> =
                nodes.iter().filter(|node| is_leaving(node)).map(ResourceExt::name_any).collect();
            ensure!(leaving.len() <= allowed, "{leaving:?} leave at once, the budget is {allowed}");
        }
    };
    tokio::select! {
        outcome = behaviour => outcome,
        outcome = looks => outcome,
    }
}

fn is_leaving(node: &Node) -> bool {
    node.metadata.deletion_timestamp.is_some() || is_tainted(node)
}

/// Whether new pods are kept off the node because it is to go.
pub(super) fn is_tainted(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == DISRUPTED)
}
