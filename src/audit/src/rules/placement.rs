//! The plan answers this snapshot, and every pod in it needs a place and gets one.

use std::collections::BTreeSet;

use karpenter_model::{Plan, Pod, WhenUnsatisfiable};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let revision = world.snapshot.revision;
    if plan.revision != revision {
        let detail = format!("made from revision {}, the snapshot has {revision}", plan.revision);
        findings.push(Finding::new(Rule::Stale, "plan", detail));
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
                findings.extend(unmodelled(pod).map(|rule| Finding::new(Rule::Unmodelled, key, rule)));
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

/// A hard rule of `pod` about other pods, which plans do not keep yet, so that it must not be placed.
fn unmodelled(pod: &Pod) -> Option<&'static str> {
    let hard = |spread: &karpenter_model::SpreadConstraint| {
        spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
    };
    if pod.spread.iter().any(hard) {
        return Some("has a hard topology spread constraint");
    }
    if !pod.pod_affinity.required.is_empty() || !pod.pod_anti_affinity.required.is_empty() {
        return Some("has required pod affinity or anti-affinity");
    }
    None
}
