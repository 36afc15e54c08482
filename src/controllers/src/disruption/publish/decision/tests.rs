//! Events and metrics about a decision, and how often they are published.

use jiff::Timestamp;
use karpenter_engine::disrupt::{Move, MoveDecision};
use karpenter_telemetry::logging::{Level, MemoryLog};
use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::fixture::World;

/// A decision with the reason why nothing is removed in pool `default`.
fn decision() -> Arc<Decision> {
    Arc::new(Decision {
        notes: vec![Note {
            about: disrupt::About::Pool("default".into()),
            kind: NoteKind::DisruptionBlocked,
            message: "No allowed disruptions".to_owned(),
            distinguished_by: String::new(),
        }],
        moves: vec![Move {
            pool: "default".into(),
            policy: ConsolidationPolicy::Balanced,
            decision: MoveDecision::Rejected,
            score: None,
        }],
        ..Decision::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_does_not_change_is_counted_once_and_its_events_are_told_before_they_expire() {
    let World { context, events, .. } = World::new();
    let pool = json!({
        "metadata": {"name": "default", "uid": "pool", "resourceVersion": "1"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    context.view.put_pool(serde_json::from_value(pool).unwrap());
    let snapshot = |second| {
        let now = Timestamp::from_second(second).unwrap();
        context.view.with_cluster(|cluster| cluster.freeze(now))
    };
    let rejected =
        || context.metrics.disruption.consolidation_moves_total.value(["rejected", "default", "Balanced"]);
    let looked_at = || context.explanations.answer(&"all".parse().unwrap()).decided_at.unwrap().as_second();
    let (mut publisher, same) = (DecisionPublisher::of(&context.metrics), decision());
    for look in 0..6 {
        publisher.publish(&context, &snapshot(10 * look), &same, Duration::ZERO);
        assert_eq!((rejected(), looked_at()), (1, 10 * look));
        assert_eq!(events.messages("DisruptionBlocked").len(), 1);
        advance(Duration::from_secs(10)).await;
    }
    publisher.publish(&context, &snapshot(60), &same, Duration::ZERO);
    assert_eq!(events.messages("DisruptionBlocked").len(), 2);
    assert_eq!(rejected(), 1);
    publisher.publish(&context, &snapshot(70), &decision(), Duration::ZERO);
    assert_eq!(rejected(), 2, "decided again, even if it says the same");
}

#[tokio::test(start_paused = true)]
async fn brakes_are_logged_when_they_are_put_on_and_taken_off() {
    let (log, _guard) = MemoryLog::of_this_thread(Level::Info);
    let World { context, .. } = World::new();
    let mut publisher = DecisionPublisher::of(&context.metrics);
    let snapshot = context.view.with_cluster(|cluster| cluster.freeze(Timestamp::UNIX_EPOCH));
    for (held, lines) in [(0, 0), (3, 1), (5, 1), (0, 2), (1, 3)] {
        let held = [(Brake::MassDrift, held)].into();
        publisher.publish(
            &context,
            &snapshot,
            &Arc::new(Decision { held, ..Decision::default() }),
            Duration::ZERO,
        );
        assert_eq!(log.lines("holds disruption back").len(), lines);
    }
    assert!(log.lines("mass_drift")[0].contains("nodes=3"), "{:?}", log.lines(""));
}
