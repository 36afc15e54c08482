//! One pod on a node of its own, whose instance is in trouble: its claim is deleted in time, and another node takes the pod.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use kube::ResourceExt;
use serde_json::json;

use super::facts;
use super::test_namespace::TestNamespace;
use crate::wait;
use crate::world::World;

/// A running pod and what it runs on.
pub(super) struct Worker<'a> {
    test: TestNamespace<'a>,
    node: Node,
    claim: NodeClaim,
}

impl<'a> Worker<'a> {
    /// Waits until it runs in a namespace of its own.
    pub(super) async fn start(world: &'a World, name: &'static str) -> Result<Self> {
        let test = TestNamespace::open(world, name).await?;
        test.ready_pool(name, json!({})).await?;
        test.pods("worker", 1, json!({})).await?;
        let node = test.running("worker", 1).await?.remove(0);
        let claim = test.claim_of(&node).await?;
        Ok(Self { test, node, claim })
    }

    /// The id of its instance.
    pub(super) fn instance(&self) -> Result<&str> {
        let id = self.claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
        id.map(facts::instance_of).context("the claim has no instance")
    }

    /// Waits until its claim is deleted, which must be within `within` of the `trouble`, and it runs on another node of the
    /// namespace.
    pub(super) async fn is_replaced(&self, trouble: Instant, within: Duration) -> Result<()> {
        let Self { test, node, claim } = self;
        wait::until("the claim of the instance to be deleted", || async {
            Ok(if test.keeps(claim).await? { Err("it is not".to_owned()) } else { Ok(()) })
        })
        .await?;
        let took = trouble.elapsed();
        ensure!(took <= within, "the trouble with `{}` was acted on after {took:?}", self.instance()?);
        wait::until("a running pod on another node", || async {
            let nodes: Vec<String> = test.nodes().await?.iter().map(ResourceExt::name_any).collect();
            let pods = test.pods_of("worker").await?;
            let elsewhere = |pod: &Pod| {
                let place = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                facts::phase(pod) == "Running" && place != node.name_any() && nodes.contains(&place)
            };
            Ok(if pods.iter().any(elsewhere) { Ok(()) } else { Err(format!("{} pods", pods.len())) })
        })
        .await
    }
}
