//! A plan that breaks a rule is not applied.

use jiff::Timestamp;
use karpenter_model::{Plan, Snapshot};

use super::audited;
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
