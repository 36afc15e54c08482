//! Required anti-affinity of pods that run keeps others out of their domain (spec scheduling 18.4).

use karpenter_model::names::label;
use karpenter_model::{AffinityTerm, LabelValue, Node, Plan, Pod};

use crate::finding::{Finding, Rule};
use crate::places::selects;
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let forbidders = forbidders(world);
    if forbidders.is_empty() {
        return;
    }
    for nomination in &plan.nominations {
        let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) else {
            continue;
        };
        for (owner, term, value) in &forbidders {
            if selects(world, term, &owner.key.namespace, pod) && domain(node, term).as_ref() == Some(value) {
                findings.push(Finding::new(
                    Rule::AntiAffinity,
                    &pod.key,
                    format!("{} keeps it out", owner.key),
                ));
            }
        }
    }
    for launch in &plan.launches {
        for pod in world.pods_of(launch) {
            for (owner, term, value) in &forbidders {
                // A new machine has a new host name; any other domain it may still land in counts.
                let requirement = launch.requirements.get(term.topology_key.as_str());
                let may_land = requirement.is_some_and(|requirement| requirement.allows(value.as_str()));
                if may_land && selects(world, term, &owner.key.namespace, pod) {
                    findings.push(Finding::new(
                        Rule::AntiAffinity,
                        &pod.key,
                        format!("{} keeps it out", owner.key),
                    ));
                }
            }
        }
    }
}

/// Pods that stay where they are, with their terms and domains.
fn forbidders<'a>(world: &World<'a>) -> Vec<(&'a Pod, &'a AffinityTerm, LabelValue)> {
    let mut forbidders = Vec::new();
    for node in &world.snapshot.nodes {
        for pod in node.pods.iter().filter(|pod| !pod.is_terminal()) {
            if world.pod(&pod.key).is_some() {
                continue;
            }
            for term in &pod.pod_anti_affinity.required {
                forbidders.extend(domain(node, term).map(|value| (pod.as_ref(), term, value)));
            }
        }
    }
    forbidders
}

fn domain(node: &Node, term: &AffinityTerm) -> Option<LabelValue> {
    let key = term.topology_key.as_str();
    if key == label::HOSTNAME {
        return Some(node.hostname());
    }
    node.effective_labels().get(key).cloned()
}
