//! Remembers what pods were promised, and keeps those out of plans whose like the scheduler does not place.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_lifecycle::pods::contradiction::Contradictions;
use karpenter_lifecycle::step::PodRef;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    ClaimName, Node, Plan, Pod, PodKey, PodOutcome, PoolRefusal, Reason, Snapshot, Target,
};
use karpenter_telemetry::events::{Event, reason};
use parking_lot::Mutex;

use crate::Context;
use crate::publish::step::pod_object;
use crate::view::PodSeen;

/// What the provisioner has learned; shared with the watch of pods.
#[derive(Clone, Default)]
pub(crate) struct Lessons(Arc<Mutex<Contradictions>>);

impl Lessons {
    /// Records what a watch said about a pod.
    pub(crate) fn note(&self, seen: &PodSeen) {
        if let PodSeen::Updated { old, new } = seen
            && old.node_name.is_none()
            && new.node_name.is_some()
        {
            self.0.lock().bound(new);
        }
    }

    /// Takes the pods out of `snapshot` that are not to be planned for, publishes why, and returns what to report of
    /// them.
    pub(super) fn hold(&self, context: &Context, snapshot: &mut Snapshot) -> Vec<(Arc<Pod>, PodOutcome)> {
        let now = snapshot.now;
        let mut lessons = self.0.lock();
        let unused = lessons.judge(snapshot);
        let metrics = &context.metrics.scheduler;
        metrics.unused_promises_total.add([], u64::try_from(unused).unwrap_or(u64::MAX));
        let mut outcomes = Vec::new();
        snapshot.pending.retain(|pod| {
            let Some(held) = lessons.held(pod, now) else { return true };
            let detail = format!("{}; next try at {:.0}", held.why, held.until);
            let message = format!("Not launching for this pod now: {detail}");
            let event = Event::new(pod_object(&PodRef::of(pod)), reason::PROMISED_NODE_NOT_USED, message);
            context.recorder.publish(event.distinguished_by(held.until.to_string()));
            let reason = Reason::new(ReasonCode::PromisedNodeNotUsed, detail);
            let refusal = PoolRefusal { pool: held.pool, reason };
            outcomes.push((Arc::clone(pod), PodOutcome::Unschedulable(vec![refusal])));
            false
        });
        outcomes
    }

    /// Whether all pods of a launch were promised machines that have only just come up, and may yet be used.
    pub(super) fn are_expected(&self, snapshot: &Snapshot, pods: &[&Pod]) -> bool {
        let machine_of = |name: &ClaimName| {
            let mut nodes = snapshot.nodes.iter().map(AsRef::as_ref);
            nodes.find(|node: &&Node| node.claim.as_ref().is_some_and(|claim| claim.name == *name))
        };
        let lessons = self.0.lock();
        !pods.is_empty() && pods.iter().all(|pod| lessons.is_expected(pod, machine_of, snapshot.now))
    }

    /// Records the places a plan counts on for pods that wait.
    pub(super) fn nominated(&self, context: &Context, snapshot: &Snapshot, plan: &Plan) {
        let waiting = snapshot.pending.iter().filter(|pod| !pod.is_virtual());
        let pending: BTreeMap<&PodKey, &Pod> = waiting.map(|pod| (&pod.key, &**pod)).collect();
        for nomination in &plan.nominations {
            if let Some(pod) = pending.get(&nomination.pod)
                && let Some(claim) = claim_of(context, &nomination.target)
            {
                self.0.lock().promised(&claim, pod, snapshot.now);
            }
        }
    }

    /// Records the pods a claim was created for.
    pub(super) fn launched<'a>(
        &self,
        claim: &ClaimName,
        pods: impl IntoIterator<Item = &'a Pod>,
        snapshot: &Snapshot,
    ) {
        for pod in pods.into_iter().filter(|pod| pod.node_name.is_none()) {
            self.0.lock().promised(claim, pod, snapshot.now);
        }
    }
}

/// The claim behind a place; `None` for unmanaged machines.
fn claim_of(context: &Context, target: &Target) -> Option<ClaimName> {
    let node = match target {
        Target::Claim(name) => return Some(name.clone()),
        Target::Node(name) => context.view.node(name)?,
    };
    context.view.sole_claim_of(&node.model).map(|claim| claim.model.name.clone())
}
