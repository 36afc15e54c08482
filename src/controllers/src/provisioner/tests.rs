//! A plan that breaks a rule is not applied.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_cloud::Provider;
use karpenter_cloud::memory::{Account, Catalogue, MemoryProvider, Options};
use karpenter_model::{Clock, Plan, Snapshot};
use karpenter_sim::VirtualClock;
use karpenter_sim::apiserver::ApiServer;
use karpenter_telemetry::events::{MemorySink, Recorder};
use karpenter_telemetry::metrics::Metrics;

use super::audited;
use crate::{Context, Settings, View};

fn context() -> Context {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let account = Account::new(Arc::clone(&clock), Options::default());
    let provider = MemoryProvider::new(account, Arc::new(Catalogue::small(&["zone-a"])));
    let settings = Arc::new(Settings::default());
    let decisions = Arc::clone(&settings.decisions);
    let view = View::new(decisions, provider.label_registry(), provider.node_class_kinds());
    Context {
        client: ApiServer::new(Arc::clone(&clock)).client(),
        provider: Arc::new(provider),
        clock,
        settings,
        recorder: Arc::new(Recorder::new(MemorySink::default(), || Timestamp::UNIX_EPOCH)),
        metrics: Arc::new(Metrics::new()),
        view: Arc::new(view),
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_made_from_another_snapshot_is_refused_and_counted() {
    let context = context();
    let snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
    let sound = Plan { revision: snapshot.revision, ..Plan::default() };
    assert!(audited(&context, &snapshot, &sound));
    let stale = Plan { revision: snapshot.revision + 1, ..Plan::default() };
    assert!(!audited(&context, &snapshot, &stale));
    assert_eq!(context.metrics.scheduler.audit_findings_total.value(["Stale"]), 1);
}
