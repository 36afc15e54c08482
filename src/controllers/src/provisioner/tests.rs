//! Placements that break a rule are not applied, and stop nothing else.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_audit::{Rule, SoundPart};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Nomination, Plan, Pod, PodKey, PodOutcome, Report, Snapshot, Target};

use super::audited;
use super::refusals::Refusals;
use crate::fixture::World;

#[tokio::test(start_paused = true)]
async fn a_plan_made_from_another_snapshot_is_refused_and_counted() {
    let context = World::new().context;
    let snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
    let sound = Plan { revision: snapshot.revision, ..Plan::default() };
    assert!(audited(&context, &snapshot, &sound));
    let stale = Plan { revision: snapshot.revision + 1, ..Plan::default() };
    assert!(!audited(&context, &snapshot, &stale));
    assert_eq!(context.metrics.scheduler.audit_findings_total.value(["Stale"]), 1);
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

/// Pods `odd`, `like` and `other` wait at `minutes`.
fn waiting(minutes: u64) -> Snapshot {
    let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH + Duration::from_mins(minutes));
    let pods = ["odd", "like", "other"].map(|name| Pod::pending(key(name), name, Timestamp::UNIX_EPOCH));
    snapshot.pending = pods.into_iter().map(Arc::new).collect();
    snapshot
}

/// Returns the reason why a pod has no place, if it has none for lack of a sound plan.
fn refusal(outcome: &PodOutcome) -> Option<&str> {
    let PodOutcome::Unschedulable(refusals) = outcome else { return None };
    refusals
        .iter()
        .find(|one| one.reason.code == ReasonCode::PlaceRefused)
        .map(|one| one.reason.detail.as_str())
}

#[test]
fn a_pod_whose_place_was_refused_is_held_and_the_others_are_planned_for() {
    let refusals = Refusals::default();
    let nomination = |name: &str| Nomination { pod: key(name), target: Target::Node("n".into()) };
    let kept = Plan { nominations: vec![nomination("other")], ..Plan::default() };
    let part = SoundPart {
        plan: kept,
        findings: Vec::new(),
        refused: [(key("odd"), "Spread: too many".to_owned())].into(),
    };
    let snapshot = waiting(0);
    let placed = |pod: &Arc<Pod>| (pod.key.clone(), PodOutcome::Existing("n".into()));
    let mut report = Report { pods: snapshot.pending.iter().map(placed).collect(), ..Report::default() };
    refusals.note(&snapshot, &part, &mut report);
    assert_eq!(
        refusal(&report.pods[&key("odd")]),
        Some("Spread: too many; next try at 1970-01-01T00:02:00Z")
    );
    assert!(refusal(&report.pods[&key("like")]).is_some_and(|why| why.contains("with the next plan")));
    assert!(report.pods[&key("other")].is_placed());

    let held = |minutes| {
        let mut snapshot = waiting(minutes);
        let outcomes = refusals.hold(&mut snapshot);
        assert_eq!(snapshot.pending.len() + outcomes.len(), 3);
        outcomes
            .iter()
            .map(|(pod, outcome)| (pod.key.clone(), refusal(outcome).is_some()))
            .collect::<Vec<_>>()
    };
    assert_eq!(held(1), [(key("odd"), true)]);
    assert_eq!(held(2), []);
}

#[tokio::test(start_paused = true)]
async fn findings_are_counted_by_rule() {
    let context = World::new().context;
    let snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
    let nowhere = Nomination { pod: key("gone"), target: Target::Node("gone".into()) };
    let plan = Plan { revision: snapshot.revision, nominations: vec![nowhere], ..Plan::default() };
    let part = karpenter_audit::sound_part(&snapshot, &plan).expect("the pod does not wait");
    super::refusals::publish(&context, &plan, &part.plan, &part.findings);
    let counted = |rule: Rule| context.metrics.scheduler.audit_findings_total.value([&format!("{rule:?}")]);
    assert_eq!((counted(Rule::NotWaiting), counted(Rule::Spread)), (1, 0));
}
