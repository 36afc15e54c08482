//! The plan answers this snapshot, and every pod in it needs a place and gets one.

use std::collections::BTreeSet;

use karpenter_model::{Plan, Pod};

use crate::finding::{Finding, Rule, Subject};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let revision = world.snapshot.revision;
    if plan.revision != revision {
        let detail = format!("made from revision {}, the snapshot has {revision}", plan.revision);
        findings.push(Finding::new(Rule::Stale, Subject::Plan, detail));
    }
    let mut placed = BTreeSet::new();
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    for key in launched.chain(plan.nominations.iter().map(|nomination| &nomination.pod)) {
        if !placed.insert(key) {
            findings.push(Finding::new(Rule::PlacedTwice, key, "has two places"));
        }
        match world.pod(key) {
            None => findings.push(Finding::new(Rule::NotWaiting, key, "does not wait for a place")),
            Some(pod) => {
                findings.extend(unmodelled(world, pod).map(|rule| Finding::new(Rule::Unmodelled, key, rule)));
            }
        }
    }
    let mut bins = BTreeSet::new();
    for launch in &plan.launches {
        if !bins.insert(launch.bin) {
            findings.push(Finding::new(Rule::Template, launch.bin, "number is used twice"));
        }
        if launch.pods.is_empty() {
            findings.push(Finding::new(Rule::NotWaiting, launch.bin, "is for no pod"));
        }
    }
}

/// Something `pod` needs that plans do not provide yet, so that it must not be placed.
fn unmodelled(world: &World<'_>, pod: &Pod) -> Option<&'static str> {
    let claims = pod.has_resource_claims && world.snapshot.settings.ignore_dra_requests;
    claims.then_some("uses resource claims")
}
