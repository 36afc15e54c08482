//! Required affinity and anti-affinity of the pods the plan places (spec scheduling 18.4).
//!
//! Pods of one deployment ask the same, so who a term is about is found out once for all of them.

use std::collections::BTreeMap;

use karpenter_model::{AffinityTerm, Namespace};

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

/// Who each term is about.
struct Crowds<'p, 'a> {
    world: &'p World<'a>,
    places: &'p Places<'a>,
    known: BTreeMap<(&'p Namespace, &'p AffinityTerm), Crowd<'p>>,
}

impl<'p> Crowds<'p, '_> {
    /// Those `term` of a pod in namespace `own` is about.
    fn of(&mut self, own: &'p Namespace, term: &'p AffinityTerm) -> &mut Crowd<'p> {
        let Self { world, places, known } = self;
        known.entry((own, term)).or_insert_with(|| {
            Crowd::new(&term.topology_key, places.of_kind(|other| selects(world, term, own, other)))
        })
    }
}

/// No pod that the pod's anti-affinity selects may end up in its domain.
fn apart<'p>(crowds: &mut Crowds<'p, '_>, one: &'p Placed<'_>) -> Option<Finding> {
    let own = &one.pod.key;
    for term in &one.pod.pod_anti_affinity.required {
        if let Some(other) = crowds.of(&own.namespace, term).sharing(one).besides(own) {
            let detail = format!("may share its `{}` with {}", term.topology_key, other.key);
            return Some(Finding::new(Rule::PodAffinity, own, detail));
        }
    }
    None
}

/// A pod that the pod's affinity selects must be in its domain, unless the term selects the pod itself, which
/// may then be the first of them.
fn together<'p>(crowds: &mut Crowds<'p, '_>, one: &'p Placed<'_>) -> Option<Finding> {
    let (own, world) = (&one.pod.key, crowds.world);
    for term in &one.pod.pod_affinity.required {
        let mut alone = || crowds.of(&own.namespace, term).joined(world, one).besides(own).is_none();
        if !selects(world, term, &own.namespace, one.pod) && alone() {
            let detail = format!("no matching pod in its `{}`", term.topology_key);
            return Some(Finding::new(Rule::PodAffinity, own, detail));
        }
    }
    None
}
