//! `node.health`: gives up nodes that have been broken for too long, at once and outside budgets. Only with the feature
//! gate `NodeRepair` and the setting `legacy-node-repair`; otherwise repair is a method of disruption.

use std::sync::Arc;
use std::time::Duration;

use karpenter_cloud::InvalidPolicies;
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::node::repair;
use karpenter_model::names::label;
use karpenter_model::repair::RepairPolicy;
use karpenter_model::{NodeName, NodeObject, PoolName};

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "node.health";
/// Delay of the next look at a node in a zone the cluster is shifted away from.
const ZONE_AWAY: Duration = Duration::from_secs(30);

/// Returns whether repair is on: the setting is set, and there are policies for broken nodes.
pub(crate) fn enabled(context: &Context) -> bool {
    context.settings.legacy_node_repair && !context.repair.is_empty()
}

/// Returns the policies that a provider has `declared` and those of the settings for broken nodes; none without the feature gate
/// `NodeRepair`.
pub fn repair_policies(
    declared: &[karpenter_cloud::RepairPolicy],
    settings: &Settings,
) -> Result<Arc<[RepairPolicy]>, InvalidPolicies> {
    if !settings.decisions.gates.node_repair {
        return Ok(Arc::default());
    }
    karpenter_cloud::repair_policies(declared, &settings.repair_policies).map(Arc::from)
}

/// The reconciler.
pub(crate) struct Health {
    policies: Arc<[RepairPolicy]>,
    evictions: Evictions,
}

impl Health {
    pub(crate) fn new(context: &Context, evictions: Evictions) -> Self {
        Self { policies: Arc::clone(&context.repair), evictions }
    }
}

impl Reconciler for Health {
    type Key = NodeName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        let spec = Spec::new(NAME, settings.concurrency(10, 1000));
        spec.backing_off(Duration::from_millis(100), Duration::from_mins(1))
    }

    async fn pass(&self, context: &Context, name: &NodeName) -> Result<Done, Error> {
        if !context.view.unlisted().is_empty() {
            // A share of the nodes that happen to be known is no share.
            return Ok(Done::idle().after(Duration::from_secs(1)));
        }
        let Some(node) = context.view.node(name).map(|known| known.model) else { return Ok(Done::idle()) };
        if node.zone().is_some_and(|zone| context.provider.zones_away().contains(&zone)) {
            // Half of it may be the zone's fault, and it will be wanted when that is over.
            return Ok(Done::idle().after(ZONE_AWAY));
        }
        let Some(claim) = context.view.sole_claim_of(&node) else { return Ok(Done::idle()) };
        let asks_peers = repair::asks_peers(&node, &self.policies, context.now());
        let peers = if asks_peers { peers(context, claim.model.pool.as_ref()) } else { Vec::new() };
        let peers: Vec<&NodeObject> = peers.iter().map(AsRef::as_ref).collect();
        let mut pass = Pass::over_node(context, NAME, &self.evictions, Arc::clone(&node), Some(&claim));
        pass.carry_out(repair::step(&claim.model, &node, &peers, &self.policies, context.now())).await?;
        pass.finish().await
    }
}

/// Every Node of the pool, or of the cluster for a claim without one.
fn peers(context: &Context, pool: Option<&PoolName>) -> Vec<Arc<NodeObject>> {
    let nodes = context.view.nodes().into_iter().map(|known| known.model);
    let of_pool = |node: &Arc<NodeObject>| {
        pool.is_none_or(|pool| {
            node.labels.get(label::NODE_POOL).is_some_and(|value| value.as_str() == pool.as_str())
        })
    };
    nodes.filter(of_pool).collect()
}
