//! Carries out a plan that passed the audit, and publishes where pods are expected to go.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use karpenter_lifecycle::node::together;
use karpenter_lifecycle::pods::nomination::nominated;
use karpenter_model::names::annotation;
use karpenter_model::{ClaimName, Launch, Plan, Pod, PodKey, Snapshot, Target};
use karpenter_telemetry::observe::{Chain, Outcome};
use kube::ResourceExt;

use super::promises::{Promises, launched_for_text};
use crate::Context;
use crate::claim::create::create;
use crate::explain::Step;
use crate::publish::step::publish_event;

/// Claims created at once: bounds the burst on the API server, not the plan.
const CREATES: usize = 50;

/// Times of the steps that led to a plan.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) batch_opened: Timestamp,
    pub(super) batch_closed: Timestamp,
    pub(super) planned: Timestamp,
}

impl Times {
    /// Records them as those of the launch of `claim`.
    fn record(self, context: &Context, claim: &ClaimName) {
        let Self { batch_opened, batch_closed, planned } = self;
        let steps =
            [(Step::BatchOpened, batch_opened), (Step::BatchClosed, batch_closed), (Step::Planned, planned)];
        for (step, at) in steps {
            context.explanations.reached(claim, step, at);
        }
    }
}

/// Creates the claims of `plan` and promises pods their places. A claim that cannot be created concerns no
/// other claim; those that the record of promises refuses are not created.
pub(super) async fn apply(
    context: &Context,
    promises: &Promises,
    snapshot: &Snapshot,
    plan: &Plan,
    times: Times,
) -> Outcome {
    let now = context.now();
    let pods: BTreeMap<&PodKey, &Pod> = pods(snapshot);
    for nomination in &plan.nominations {
        // No scheduler ever places a virtual pod.
        if let Some(pod) = pods.get(&nomination.pod).filter(|pod| !pod.is_virtual()) {
            let patience = promises.patience(pod, now);
            context.view.with_cluster(|cluster| {
                cluster.nominate_for(&nomination.pod, patience, &nomination.target, now)
            });
            publish_event(context, &nominated(pod, &nomination.target));
        }
    }
    // Before anything is created: the record decides whether another node for a workload is worth buying.
    let refused = promises.plan(context, snapshot, plan).await;
    let wanted = plan.launches.iter().enumerate().filter(|(place, _)| !refused.contains(place));
    let wanted: Vec<Launch> = wanted.map(|(_, launch)| launch.clone()).collect();
    // One node has no other to wait for.
    let waits = wanted.len() > 1 && !context.settings.ready_together.is_zero();
    let waits = waits.then(|| together::taint(times.planned));
    let creations: Vec<_> = wanted
        .into_iter()
        .map(|mut launch| {
            launch.startup_taints.extend(waits.clone());
            launched(context, promises, snapshot, launch, &pods, times)
        })
        .collect();
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
    promises: &Promises,
    snapshot: &Snapshot,
    mut launch: Launch,
    pods: &BTreeMap<&PodKey, &Pod>,
    times: Times,
) -> bool {
    let promised = launch.pods.iter().filter_map(|key| pods.get(key).copied());
    let promised: Vec<&Pod> = promised.filter(|pod| !pod.is_virtual()).collect();
    let launched_for = launched_for_text(promised.iter().copied().filter(|pod| pod.node_name.is_none()));
    if !launched_for.is_empty() {
        launch.annotations.insert(annotation::LAUNCHED_FOR.to_owned(), launched_for);
    }
    match create(context, &launch, "provisioned").await {
        Ok(claim) => {
            let name = ClaimName::from(claim.name_any().as_str());
            times.record(context, &name);
            promises.launched(&name, promised.iter().copied(), snapshot);
            for pod in promised {
                publish_event(context, &nominated(pod, &Target::Claim(name.clone())));
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
