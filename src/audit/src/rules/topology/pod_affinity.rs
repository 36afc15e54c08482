//! Required affinity and anti-affinity of the pods the plan places (spec scheduling 18.4).
//!
//! As the scheduler has it, a pod counts for affinity only when every required term selects it, and for anti-affinity when
//! any does. Pods of one deployment ask the same, so the pods their terms are about are found once for all of them.

use std::collections::BTreeMap;

use karpenter_model::{AffinityTerm, LabelKey, Namespace, Pod};

use crate::finding::{Finding, Rule};
use crate::places::{Crowd, Placed, Places, selects};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, places: &Places<'_>, findings: &mut Vec<Finding>) {
    let mut crowds = Crowds { world, places, known: BTreeMap::new() };
    for one in places.new_ones() {
        findings.extend(apart(&mut crowds, one));
        findings.extend(together(&mut crowds, one));
    }
}

/// Pods that the terms are about.
struct Crowds<'p, 'a> {
    world: &'p World<'a>,
    places: &'p Places<'p>,
    known: BTreeMap<(&'p Namespace, &'p [AffinityTerm], &'p LabelKey), Crowd<'p>>,
}

impl<'p> Crowds<'p, '_> {
    /// Returns the pods that all `terms` of a pod in namespace `own` are about, by their domains of `key`.
    fn of(&mut self, own: &'p Namespace, terms: &'p [AffinityTerm], key: &'p LabelKey) -> &mut Crowd<'p> {
        let Self { world, places, known } = self;
        known.entry((own, terms, key)).or_insert_with(|| {
            let selected = places.of_kind(|other| all_select(world, terms, own, other));
            Crowd::new(world.registry(), key, selected)
        })
    }
}

/// Returns whether all `terms` of a pod in namespace `own` are about `pod`.
fn all_select(world: &World<'_>, terms: &[AffinityTerm], own: &Namespace, pod: &Pod) -> bool {
    terms.iter().all(|term| selects(world, term, own, pod))
}

/// Checks that no pod that the pod's anti-affinity selects may end up in its domain.
fn apart<'p>(crowds: &mut Crowds<'p, '_>, one: &'p Placed<'_>) -> Option<Finding> {
    let own = &one.pod.key;
    for term in &one.pod.pod_anti_affinity.required {
        let alone = std::slice::from_ref(term);
        let crowd = crowds.of(&own.namespace, alone, &term.topology_key);
        if let Some(other) = crowd.sharing(one).besides(own) {
            let detail = format!("may share its `{}` with {}", term.topology_key, other.key);
            return Some(Finding::new(Rule::PodAffinity, own, detail));
        }
    }
    None
}

/// A pod that all of the pod's affinity terms select must be in its domain, unless they select the pod itself, which
/// may then be the first of them.
fn together<'p>(crowds: &mut Crowds<'p, '_>, one: &'p Placed<'_>) -> Option<Finding> {
    let (own, world, terms) = (&one.pod.key, crowds.world, &one.pod.pod_affinity.required);
    if all_select(world, terms, &own.namespace, one.pod) {
        return None;
    }
    for key in terms.iter().map(|term| &term.topology_key) {
        if crowds.of(&own.namespace, terms, key).joined(world, one).besides(own).is_none() {
            return Some(Finding::new(Rule::PodAffinity, own, format!("no matching pod in its `{key}`")));
        }
    }
    None
}
