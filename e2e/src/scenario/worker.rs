//! One pod on a node of its own, whose instance is in trouble: its claim is deleted in time, and another node takes the pod.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use kube::ResourceExt;
use serde_json::json;

use super::corner::Corner;
use super::facts;
use crate::wait;
use crate::world::World;

/// A running pod and what it runs on.
pub(super) struct Worker<'a> {
    corner: Corner<'a>,
    node: Node,
    claim: NodeClaim,
}

impl<'a> Worker<'a> {
    /// Waits until it runs in a corner of its own.
    pub(super) async fn start(world: &'a World, name: &'static str) -> Result<Self> {
        let corner = Corner::open(world, name).await?;
        corner.ready_pool(name, json!({})).await?;
        corner.pods("worker", 1, json!({})).await?;
        let node = corner.running("worker", 1).await?.remove(0);
        let claim = corner.claim_of(&node).await?;
        Ok(Self { corner, node, claim })
    }

    /// The id of its instance.
    pub(super) fn instance(&self) -> Result<&str> {
        let id = self.claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        id.map(facts::instance_of).context("the claim has no instance")
    }

    /// Waits until its claim is deleted, which must be within `within` of the `trouble`, and it runs on another node of the
    /// corner.
    pub(super) async fn is_replaced(&self, trouble: Instant, within: Duration) -> Result<()> {
        let Self { corner, node, claim } = self;
        wait::until("the claim of the instance to be deleted", || async {
            Ok(if corner.keeps(claim).await? { Err("it is not".to_owned()) } else { Ok(()) })
        })
        .await?;
        let took = trouble.elapsed();
        ensure!(took <= within, "the trouble with `{}` was acted on after {took:?}", self.instance()?);
        wait::until("a running pod on another node", || async {
            let nodes: Vec<String> = corner.nodes().await?.iter().map(ResourceExt::name_any).collect();
            let pods = corner.pods_of("worker").await?;
            let elsewhere = |pod: &Pod| {
                let place = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                facts::phase(pod) == "Running" && place != node.name_any() && nodes.contains(&place)
            };
            Ok(if pods.iter().any(elsewhere) { Ok(()) } else { Err(format!("{} pods", pods.len())) })
        })
        .await
    }
}
