//! Pods sent to machines that exist or are coming fit there, together (spec scheduling 13.1).

use std::collections::BTreeMap;

use karpenter_model::{ConditionType, Node, Plan, Pod, Resources, Target};

use crate::finding::{Finding, Rule};
use crate::rules::ports;
use crate::world::{World, hard_taint, satisfies, stated};

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut sent: BTreeMap<&Target, Vec<&Pod>> = BTreeMap::new();
    for nomination in &plan.nominations {
        if let Some(pod) = world.pod(&nomination.pod) {
            sent.entry(&nomination.target).or_default().push(pod);
        }
    }
    for (target, pods) in sent {
        let Some(node) = world.node(target).filter(|node| !node.is_leaving() && !is_lost(node)) else {
            let detail = "does not exist, is terminating or has lost its Node";
            findings.push(Finding::new(Rule::Unusable, target, detail));
            continue;
        };
        let coming = world.daemons_to_come(node, world.daemons());
        for pod in &pods {
            findings.extend(labels_and_taints(world, node, pod));
            let daemons = coming.iter().map(|one| &one.daemon.pod);
            let neighbours = node.pods.iter().map(AsRef::as_ref).chain(pods.iter().copied()).chain(daemons);
            if neighbours.into_iter().any(|other| ports::conflict(pod, other)) {
                let detail = format!("wants a host port in use on {}", node.display_name());
                findings.push(Finding::new(Rule::HostPort, &pod.key, detail));
            }
        }
        findings.extend(capacity(world, (target, node), &pods));
    }
}

/// A claim reports that its Node has joined, and there is none.
fn is_lost(node: &Node) -> bool {
    let joined = node.claim.as_ref().is_some_and(|claim| claim.is_true(ConditionType::Registered));
    joined && node.name.is_none()
}

fn labels_and_taints(world: &World<'_>, node: &Node, pod: &Pod) -> Vec<Finding> {
    let mut findings = Vec::new();
    let taints = node.effective_taints();
    if let Some(taint) = hard_taint(&taints, pod) {
        findings.push(Finding::new(Rule::Taint, &pod.key, format!("does not tolerate {taint}")));
    }
    let mut wanted = stated(pod, world.registry()).into_iter();
    if !wanted.any(|wanted| satisfies(node, &wanted, world.registry())) {
        let detail = format!("labels of {} do not satisfy the pod", node.display_name());
        findings.push(Finding::new(Rule::Requirements, &pod.key, detail));
    }
    findings
}

/// All pods, bound and sent, and all daemons must fit into what the machine has.
fn capacity(world: &World<'_>, (target, node): (&Target, &Node), sent: &[&Pod]) -> Option<Finding> {
    let missing = world.daemons_missing(node);
    let sent: Resources = sent.iter().map(|pod| &pod.requests).sum();
    let total = node.requested().merge(&missing).merge(&sent);
    // Nothing but what the pods ask for can be overcommitted by sending them.
    let available = node.effective_allocatable();
    // What devices stand for is theirs to limit.
    let sent = world.snapshot.devices.counted(&sent, &available);
    let over = sent.iter().find(|(name, quantity)| {
        !quantity.is_zero() && total.amount(name.as_str()) > available.amount(name.as_str())
    });
    let (name, _) = over?;
    let detail = format!("{name}: {} of {}", total.amount(name.as_str()), available.amount(name.as_str()));
    Some(Finding::new(Rule::Capacity, target, detail))
}
