//! Carries out a plan that passed the audit, and tells what became of each pod.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use karpenter_audit::Finding;
use karpenter_model::report::ReasonCode;
use karpenter_model::{Launch, Plan, Pod, PodKey, PodOutcome, PoolRefusal, Reason, Report, Snapshot, Target};
use karpenter_telemetry::events::{Event, ObjectRef, reason};
use karpenter_telemetry::observe::{Chain, Outcome};
use kube::ResourceExt;

use crate::Context;
use crate::claim::create::create;

/// Claims created at once: bounds the burst on the API server, not the plan.
const CREATES: usize = 50;

/// Creates the claims of `plan` and promises pods their places. A claim that cannot be created concerns nobody else.
pub(super) async fn apply(context: &Context, snapshot: &Snapshot, plan: &Plan) -> Outcome {
    let now = context.now();
    let pods: BTreeMap<&PodKey, &Pod> = pods(snapshot);
    for nomination in &plan.nominations {
        context.view.with_cluster(|cluster| cluster.nominate(&nomination.target, now));
        if let Some(pod) = pods.get(&nomination.pod) {
            nominated(context, pod, &nomination.target);
        }
    }
    let creations: Vec<_> = plan.launches.iter().map(|launch| launched(context, launch, &pods)).collect();
    let created = stream::iter(creations)
        .buffer_unordered(CREATES)
        .filter(|created| std::future::ready(*created))
        .count()
        .await;
    let applied = created > 0 || !plan.nominations.is_empty();
    if applied { Outcome::Applied } else { Outcome::Skipped }
}

async fn launched(context: &Context, launch: &Launch, pods: &BTreeMap<&PodKey, &Pod>) -> bool {
    match create(context, launch, "provisioned").await {
        Ok(claim) => {
            let target = Target::Claim(claim.name_any().as_str().into());
            for pod in launch.pods.iter().filter_map(|key| pods.get(key)) {
                nominated(context, pod, &target);
            }
            true
        }
        Err(error) => {
            tracing::error!(nodepool = %launch.pool, error = %Chain(&error), "cannot create nodeclaim");
            false
        }
    }
}

fn pods(snapshot: &Snapshot) -> BTreeMap<&PodKey, &Pod> {
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

/// Tells about pods nothing can take, and counts them.
pub(super) fn tell(context: &Context, snapshot: &Snapshot, report: &Report) {
    let pods = pods(snapshot);
    let (mut ignored, mut unschedulable) = (0, 0);
    for (key, outcome) in &report.pods {
        let text = match outcome {
            PodOutcome::Existing(_) | PodOutcome::InFlight(_) | PodOutcome::New(_) => continue,
            PodOutcome::Ignored(reasons) => {
                ignored += 1;
                // Whoever opts out knows why.
                let told: Vec<&Reason> =
                    reasons.iter().filter(|one| one.code != ReasonCode::OptedOut).collect();
                if told.is_empty() {
                    continue;
                }
                told.into_iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            PodOutcome::Unschedulable(refusals) => {
                unschedulable += 1;
                // Without any pool there is nothing about the pod to tell.
                if refusals.iter().all(|refusal| refusal.reason.code == ReasonCode::NoPools) {
                    continue;
                }
                refusals.iter().map(refusal).collect::<Vec<_>>().join("; ")
            }
        };
        if let Some(pod) = pods.get(key) {
            let message = format!("Failed to schedule pod, {text}");
            context.recorder.publish(Event::new(about(pod), reason::FAILED_SCHEDULING, message));
        }
    }
    context.metrics.scheduler.ignored_pods_count.set_count([], ignored);
    context.metrics.scheduler.unschedulable_pods_count.set_count([super::NAME], unschedulable);
}

fn refusal(refusal: &PoolRefusal) -> String {
    match &refusal.pool {
        Some(pool) => format!("{} (NodePool={pool})", refusal.reason),
        None => refusal.reason.to_string(),
    }
}

fn about(pod: &Pod) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(pod.key.namespace.to_string()),
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
    }
}

/// Tells the pools of a refused plan why nothing happens.
pub(super) fn refused(context: &Context, plan: &Plan, findings: &[Finding]) {
    let pools: std::collections::BTreeSet<_> = plan.launches.iter().map(|launch| &launch.pool).collect();
    let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    for known in pools.into_iter().filter_map(|name| context.view.pool(name)) {
        let object = ObjectRef {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodePool".to_owned(),
            namespace: None,
            name: known.model.name.to_string(),
            uid: known.model.uid.to_string(),
        };
        let message = format!("Refused a plan that breaks a rule, please report this: {text}");
        context.recorder.publish(Event::new(object, reason::PLAN_REFUSED, message));
    }
}
