//! Carries out a plan that passed the audit, and tells pods where they are expected to go.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use karpenter_lifecycle::pods::contradiction::patience;
use karpenter_model::{ClaimName, Launch, Plan, Pod, PodKey, Snapshot, Target};
use karpenter_telemetry::events::{Event, reason};
use karpenter_telemetry::observe::{Chain, Outcome};
use kube::ResourceExt;

use super::lessons::Lessons;
use super::tell::about;
use crate::Context;
use crate::claim::create::create;
use crate::explain::Step;

/// Claims created at once: bounds the burst on the API server, not the plan.
const CREATES: usize = 50;

/// When a plan came about.
#[derive(Clone, Copy)]
pub(super) struct Course {
    /// The first pod of the batch was seen.
    pub(super) waited: Timestamp,
    /// The batch was closed.
    pub(super) batched: Timestamp,
    /// The plan was there.
    pub(super) planned: Timestamp,
}

impl Course {
    fn of(self, context: &Context, claim: &ClaimName) {
        for (step, at) in
            [(Step::Waited, self.waited), (Step::Batched, self.batched), (Step::Planned, self.planned)]
        {
            context.explanations.reached(claim, step, at);
        }
    }
}

/// Creates the claims of `plan` and promises pods their places. A claim that cannot be created concerns no
/// other claim; one for pods whose machines have just come up is not created yet.
pub(super) async fn apply(
    context: &Context,
    lessons: &Lessons,
    snapshot: &Snapshot,
    plan: &Plan,
    course: Course,
) -> Outcome {
    let now = context.now();
    let pods: BTreeMap<&PodKey, &Pod> = pods(snapshot);
    for nomination in &plan.nominations {
        // Virtual pods are on their way nowhere.
        if let Some(pod) = pods.get(&nomination.pod).filter(|pod| !pod.is_virtual()) {
            let patience = patience(pod);
            context.view.with_cluster(|cluster| {
                cluster.nominate_for(&nomination.pod, patience, &nomination.target, now)
            });
            nominated(context, pod, &nomination.target);
        }
    }
    lessons.nominated(context, snapshot, plan);
    let wanted = plan.launches.iter().filter(|launch| {
        let of: Vec<&Pod> = launch.pods.iter().filter_map(|key| pods.get(key).copied()).collect();
        !lessons.are_expected(snapshot, &of)
    });
    let creations: Vec<_> =
        wanted.map(|launch| launched(context, lessons, snapshot, launch, &pods, course)).collect();
    let created = stream::iter(creations)
        .buffer_unordered(CREATES)
        .filter(|created| std::future::ready(*created))
        .count()
        .await;
    let applied = created > 0 || !plan.nominations.is_empty();
    if applied { Outcome::Applied } else { Outcome::Skipped }
}

async fn launched(
    context: &Context,
    lessons: &Lessons,
    snapshot: &Snapshot,
    launch: &Launch,
    pods: &BTreeMap<&PodKey, &Pod>,
    course: Course,
) -> bool {
    match create(context, launch, "provisioned").await {
        Ok(claim) => {
            let name = ClaimName::from(claim.name_any().as_str());
            course.of(context, &name);
            let promised = launch.pods.iter().filter_map(|key| pods.get(key).copied());
            let promised: Vec<&Pod> = promised.filter(|pod| !pod.is_virtual()).collect();
            lessons.launched(&name, promised.iter().copied(), snapshot);
            for pod in promised {
                nominated(context, pod, &Target::Claim(name.clone()));
            }
            true
        }
        Err(error) => {
            tracing::error!(nodepool = %launch.pool, error = %Chain(&error), "cannot create nodeclaim");
            false
        }
    }
}

pub(super) fn pods(snapshot: &Snapshot) -> BTreeMap<&PodKey, &Pod> {
    let bound = snapshot.nodes.iter().flat_map(|node| node.pods.iter());
    snapshot.pending.iter().chain(bound).map(|pod| (&pod.key, &**pod)).collect()
}

fn nominated(context: &Context, pod: &Pod, target: &Target) {
    let place = match target {
        Target::Node(node) => format!("node/{node}"),
        Target::Claim(claim) => format!("nodeclaim/{claim}"),
    };
    let message = format!("Pod should schedule on: {place}");
    context.recorder.publish(Event::new(about(pod), reason::NOMINATED, message));
}
