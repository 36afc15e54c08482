//! Initialization: when a registered Node may take pods as planned (spec disruption 1.5).
//!
//! Checks run in a fixed order and the first that fails is the reason shown. Once initialized a claim stays so:
//! whether the Node is healthy later is another question. There is no timeout.

mod drivers;

use karpenter_model::names::{label, reason};
use karpenter_model::{Claim, ConditionStatus, ConditionType, NodeObject, Taint};

pub use drivers::ResourceSlice;

use crate::step::{Change, Effect, Milestone, NodePatch, Step};

/// Facts that the checks look at, besides the claim.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// All Nodes with the claim's provider id.
    pub nodes: &'a [&'a NodeObject],
    /// Resource slices local to the Node; `None` when dynamic resource allocation is off.
    pub slices: Option<&'a [ResourceSlice]>,
}

/// Brings one registered claim closer to being initialized.
pub fn step(claim: &Claim, facts: Facts<'_>) -> Step {
    let kind = ConditionType::Initialized;
    // The reboot decides when its Node counts again.
    let rebooting = claim.is_true(ConditionType::Rebooting);
    if rebooting || matches!(claim.status(kind), Some(ConditionStatus::True | ConditionStatus::False)) {
        return Step::idle().and_condition(Change::restamp(claim, kind));
    }
    if !claim.is_true(ConditionType::Registered) {
        return Step::idle();
    }
    match check(claim, facts) {
        Err((reason, message)) => Step::idle().and_condition(Change::unknown(kind, reason, message)),
        Ok(node) => {
            let mut patch = NodePatch::of(&node.name);
            patch.labels.insert(label::INITIALIZED.into(), "true".into());
            Step::of([Effect::PatchNode(patch), Effect::Milestone(Milestone::Initialized(node.name.clone()))])
                .and_condition(Change::holds(kind))
        }
    }
}

type Obstacle = (&'static str, String);

fn check<'a>(claim: &Claim, facts: Facts<'a>) -> Result<&'a NodeObject, Obstacle> {
    // Two Nodes are refused like none: which of them is the machine cannot be decided (spec disruption
    // 1.5.1).
    let [node] = facts.nodes else {
        return Err((reason::NODE_NOT_FOUND, "Node not registered with cluster".to_owned()));
    };
    if !node.is_ready() {
        return Err((reason::NODE_NOT_READY, "Node status is NotReady".to_owned()));
    }
    if let Some(taint) = startup_taint(claim, node) {
        return Err((reason::STARTUP_TAINTS_EXIST, format!("StartupTaint \"{taint}\" still exists")));
    }
    if let Some(taint) = node.taints.iter().find(|taint| taint.is_ephemeral()) {
        return Err((
            reason::KNOWN_EPHEMERAL_TAINTS_EXIST,
            format!("KnownEphemeralTaint \"{taint}\" still exists"),
        ));
    }
    for (name, requested) in claim.requests.iter() {
        // A device plugin reports its resource some time after the kubelet is ready; until then it is absent
        // or zero.
        let registered = node.allocatable.get(name.as_str()).is_some_and(|quantity| !quantity.is_zero());
        if !requested.is_zero() && !registered {
            return Err((
                reason::RESOURCE_NOT_REGISTERED,
                format!("Resource \"{name}\" was requested but not registered"),
            ));
        }
    }
    if let Some(driver) = facts.slices.and_then(|slices| drivers::unpublished(claim, slices)) {
        return Err((
            reason::DRIVER_POOLS_NOT_PUBLISHED,
            format!("DRA driver \"{driver}\" has not published a complete resource pool"),
        ));
    }
    Ok(node)
}

/// The first startup taint still on the node, by key and effect.
fn startup_taint<'a>(claim: &'a Claim, node: &NodeObject) -> Option<&'a Taint> {
    claim.startup_taints.iter().find(|startup| node.taints.iter().any(|taint| taint.matches(startup)))
}

#[cfg(test)]
mod tests;
