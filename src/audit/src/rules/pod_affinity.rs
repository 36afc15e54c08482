//! Required affinity and anti-affinity of the pods the plan places (spec core-scheduling 18.4).

use crate::finding::{Finding, Rule};
use crate::places::{Placed, Places, selects};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, places: &Places<'_>, findings: &mut Vec<Finding>) {
    for one in places.new_ones() {
        findings.extend(apart(world, places, one));
        findings.extend(together(world, places, one));
    }
}

/// Nobody the pod wants to be apart from may end up in its domain.
fn apart(world: &World<'_>, places: &Places<'_>, one: &Placed<'_>) -> Option<Finding> {
    let own = &one.pod.key;
    for term in &one.pod.pod_anti_affinity.required {
        let other = places.all.iter().find(|other| {
            other.pod.key != *own
                && selects(world, term, &own.namespace, other.pod)
                && one.place.may_share(&other.place, &term.topology_key)
        });
        if let Some(other) = other {
            let detail = format!("may share its `{}` with {}", term.topology_key, other.pod.key);
            return Some(Finding::new(Rule::PodAffinity, own, detail));
        }
    }
    None
}

/// Somebody the pod wants to be with must be in its domain, unless it wants to be with its own kind and may be
/// the first of them.
fn together(world: &World<'_>, places: &Places<'_>, one: &Placed<'_>) -> Option<Finding> {
    let own = &one.pod.key;
    for term in &one.pod.pod_affinity.required {
        let mut wanted = places
            .all
            .iter()
            .filter(|other| other.pod.key != *own && selects(world, term, &own.namespace, other.pod));
        let joined = wanted.any(|other| {
            one.place.surely_shares(world, &other.place, &term.topology_key)
                || covers(one, other, &term.topology_key)
        });
        if !joined && !selects(world, term, &own.namespace, one.pod) {
            let detail = format!("has nobody to be with in its `{}`", term.topology_key);
            return Some(Finding::new(Rule::PodAffinity, own, detail));
        }
    }
    None
}

/// Whether the machine may be in several domains and `other` is in one of them; the planner only leaves a
/// choice open when every domain of it has somebody.
fn covers(one: &Placed<'_>, other: &Placed<'_>, key: &karpenter_model::LabelKey) -> bool {
    one.place.domains(key).is_some_and(|domains| domains.len() > 1) && one.place.may_share(&other.place, key)
}
