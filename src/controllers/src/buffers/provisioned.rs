//! Results of a plan for buffers: the number of virtual pods that each machine would take, and whether the room is there.

use std::collections::BTreeMap;

use karpenter_lifecycle::buffer::{Tally, provisioning};
use karpenter_model::names::condition;
use karpenter_model::{BufferKey, Pod, PodOutcome, Report, Snapshot, Target};
use karpenter_telemetry::observe::Chain;

use super::is_ready;
use super::set;
use super::store;
use crate::Context;
use crate::view::key_of;

/// Tally of a plan over the virtual pods of each buffer.
pub(crate) type Tallies = BTreeMap<BufferKey, Tally>;

/// Counts the virtual pods of a plan by the machine that would take them, and by buffer. Those on their way to a claim
/// that is being launched are none of the plan's business and stay counted there.
pub(crate) fn counted(context: &Context, snapshot: &Snapshot, report: &Report) -> Tallies {
    let planned = virtual_pods(snapshot, report).filter_map(|(_, outcome)| target(outcome));
    let launching = snapshot.nodes.iter().filter_map(|node| Some((node.unlaunched()?, node)));
    let launching = launching.flat_map(|(claim, node)| {
        let held = node.pods.iter().filter(|pod| pod.is_virtual());
        held.map(|_| Target::Claim(claim.name.clone()))
    });
    let mut counts = BTreeMap::new();
    for target in planned.chain(launching) {
        *counts.entry(target).or_default() += 1;
    }
    context.view.buffer_pods_counted(counts);
    let mut tallies = Tallies::new();
    for (pod, outcome) in virtual_pods(snapshot, report) {
        if let Some(buffer) = &pod.buffer {
            tallies.entry((**buffer).clone()).or_default().count(outcome);
        }
    }
    tallies
}

/// Writes the condition `Provisioning` of every buffer for which the plan has a new result. A status that cannot
/// be written now is written after another plan.
pub(crate) async fn provisioned(context: &Context, tallies: &Tallies) {
    for known in context.view.buffers() {
        let object = &*known.object;
        // Without a status its reference has not been followed yet, so the plan had none of its pods.
        let Some(mut status) = object.status.clone() else { continue };
        let tally = tallies.get(&key_of(object)).copied().unwrap_or_default();
        let replicas = status.replicas.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or_default();
        let Some(verdict) = provisioning(is_ready(&status), replicas, tally) else { continue };
        set(context, object, &mut status, condition::PROVISIONING, &verdict);
        if let Err(error) = store(context, object, &status).await {
            tracing::warn!(buffer = %key_of(object), error = %Chain(&error), "cannot write the status of a buffer");
        }
    }
}

/// The virtual pods of the plan, with their outcomes.
fn virtual_pods<'a>(
    snapshot: &'a Snapshot,
    report: &'a Report,
) -> impl Iterator<Item = (&'a Pod, &'a PodOutcome)> {
    let pods = snapshot.pending.iter().filter(|pod| pod.is_virtual());
    pods.filter_map(|pod| Some((&**pod, report.pods.get(&pod.key)?)))
}

/// The machine that would take a pod, if there is one already.
fn target(outcome: &PodOutcome) -> Option<Target> {
    match outcome {
        PodOutcome::Existing(name) => Some(Target::Node(name.clone())),
        PodOutcome::InFlight(name) => Some(Target::Claim(name.clone())),
        PodOutcome::New(_) | PodOutcome::Ignored(_) | PodOutcome::Unschedulable(_) => None,
    }
}
