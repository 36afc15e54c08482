//! Refusal of pods whose place broke a rule: they get an event and are held; the rest of the plan is carried out.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_audit::{Finding, SoundPart};
use karpenter_lifecycle::pods::refusal;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    Plan, Pod, PodKey, PodOutcome, PodUid, PoolName, PoolRefusal, Reason, Report, Snapshot,
};
use karpenter_telemetry::events::{Event, reason};
use parking_lot::Mutex;

use super::apply::pods;
use crate::Context;

/// Most findings one event lists.
const MOST_SHOWN: usize = 5;

/// Pods whose places were refused.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<refusal::Refusals>>);

impl Refusals {
    /// Takes the pods that are held out of `snapshot`, and returns what to report of them.
    pub(super) fn hold(&self, snapshot: &mut Snapshot) -> Vec<(Arc<Pod>, PodOutcome)> {
        let mut refusals = self.0.lock();
        let waiting: BTreeSet<&PodUid> = snapshot.pending.iter().map(|pod| &pod.uid).collect();
        refusals.keep(|uid| waiting.contains(uid));
        let mut outcomes = Vec::new();
        let now = snapshot.now;
        snapshot.pending.retain(|pod| {
            let Some(held) = refusals.held(pod, now) else { return true };
            outcomes
                .push((Arc::clone(pod), refused(&format!("{}; next try at {:.0}", held.why, held.until))));
            false
        });
        outcomes
    }

    /// Records what was refused of `plan`, `part` being what is left: in `report`, and for later passes.
    pub(super) fn note(&self, snapshot: &Snapshot, part: &SoundPart, report: &mut Report) {
        let mut refusals = self.0.lock();
        let pods = pods(snapshot);
        let placed = placed(&part.plan);
        for (key, outcome) in report.pods.iter_mut().filter(|(_, outcome)| outcome.is_placed()) {
            if placed.contains(key) {
                continue;
            }
            let detail = match (part.refused.get(key), pods.get(key)) {
                (Some(why), Some(pod)) => {
                    let until = refusals.refused(pod, why, snapshot.now);
                    format!("{why}; next try at {until:.0}")
                }
                // Only pods that a finding names are held: the place of this one was sound, and depended on
                // theirs.
                _ => "that of a pod it was placed with; next try with the next plan".to_owned(),
            };
            *outcome = refused(&detail);
        }
    }
}

fn refused(detail: &str) -> PodOutcome {
    let reason = Reason::new(ReasonCode::PlaceRefused, detail);
    PodOutcome::Unschedulable(vec![PoolRefusal { pool: None, reason }])
}

/// The pods that have a place in `plan`.
fn placed(plan: &Plan) -> BTreeSet<&PodKey> {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    launched.chain(plan.nominations.iter().map(|nomination| &nomination.pod)).collect()
}

/// Logs and counts what the audit has found in `plan`, and publishes it on the pools `plan` would have changed; all of
/// them but those `kept` changes just the same.
pub(super) fn publish(context: &Context, plan: &Plan, kept: &Plan, findings: &[Finding]) {
    for finding in findings {
        if context.explanations.refused(&finding.to_string(), context.now()) {
            tracing::error!(finding = %finding, "refused a part of a plan");
        }
        context.metrics.scheduler.audit_findings_total.inc([&format!("{:?}", finding.rule)]);
    }
    let candidates = plan.commands.iter().flat_map(|command| &command.candidates);
    let bins: BTreeSet<_> = kept.launches.iter().map(|launch| launch.bin).collect();
    let launching = plan.launches.iter().filter(|launch| !bins.contains(&launch.bin));
    let pools: BTreeSet<&PoolName> =
        launching.map(|launch| &launch.pool).chain(candidates.map(|candidate| &candidate.pool)).collect();
    let mut text: Vec<String> = findings.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
    if findings.len() > MOST_SHOWN {
        text.push(format!("and {} more", findings.len() - MOST_SHOWN));
    }
    for object in pools.into_iter().filter_map(|name| context.pool_object(name)) {
        let message =
            format!("Refused a part of a plan that breaks a rule, please report this: {}", text.join("; "));
        context.recorder.publish(Event::new(object, reason::PLAN_REFUSED, message));
    }
}
