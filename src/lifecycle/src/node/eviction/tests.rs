//! Answers of the eviction API, back-off, and identity of pods.

use karpenter_model::PodKey;

use super::*;
use crate::fixture::at;

fn pod(uid: &str) -> PodRef {
    PodRef { key: PodKey::new("ns", "web"), uid: uid.into() }
}

fn reason() -> DrainReason {
    DrainReason::of(Some("Underutilized"))
}

#[test]
fn answers_are_classified() {
    let refused = |code, message| Answer::Refused { code, message };
    let several =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let table = [
        (Answer::Accepted, Meaning::Evicted),
        (refused(404, "pods \"web\" not found"), Meaning::Gone),
        (refused(409, "uid does not match"), Meaning::Gone),
        (
            refused(429, "Cannot evict pod as it would violate the pod's disruption budget."),
            Meaning::BudgetExhausted,
        ),
        (refused(500, several), Meaning::SeveralBudgets),
        (refused(500, "internal error"), Meaning::Failed),
        (refused(403, "forbidden"), Meaning::Failed),
        (Answer::Lost, Meaning::Failed),
    ];
    for (answer, meaning) in table {
        assert_eq!(classify(answer), meaning, "{answer:?}");
    }
}

#[test]
fn backoff_doubles_from_a_tenth_of_a_second_to_ten_seconds() {
    let millis: Vec<u128> = (1..=9).map(|failures| backoff(failures).as_millis()).collect();
    assert_eq!(millis, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
}

#[test]
fn a_queued_pod_is_queued_once_and_keeps_its_backoff() {
    let mut queue = Queue::default();
    assert!(queue.add(pod("1"), &"node".into(), at(0)));
    queue.answered(&pod("1"), Meaning::BudgetExhausted, &reason(), at(0));
    assert!(!queue.add(pod("1"), &"node".into(), at(0)));
    assert_eq!(queue.due(at(0)), []);
    assert_eq!(queue.due(at(1)), [pod("1")]);
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_pod_created_anew_is_another_pod() {
    let mut queue = Queue::default();
    queue.add(pod("1"), &"node".into(), at(0));
    assert!(queue.contains(&pod("1")));
    assert!(!queue.contains(&pod("2")));
    assert_eq!(queue.answered(&pod("2"), Meaning::Evicted, &reason(), at(0)), []);
    assert_eq!(queue.len(), 1);
}

#[test]
fn evicted_and_gone_pods_leave_nothing_behind() {
    for (meaning, events) in [(Meaning::Evicted, 1), (Meaning::Gone, 0)] {
        let mut queue = Queue::default();
        queue.add(pod("1"), &"node".into(), at(0));
        assert_eq!(queue.answered(&pod("1"), meaning, &reason(), at(0)).len(), events, "{meaning:?}");
        assert!(queue.is_empty());
        assert_eq!(queue.next_due(), None);
    }
}

#[test]
fn budgets_are_told_on_the_node_and_other_failures_are_not() {
    let about = |meaning| {
        let mut queue = Queue::default();
        queue.add(pod("1"), &"node".into(), at(0));
        queue.answered(&pod("1"), meaning, &reason(), at(0))
    };
    let texts = [
        (Meaning::BudgetExhausted, "evicting pod ns/web violates a PDB"),
        (Meaning::SeveralBudgets, "evicting pod ns/web is covered by multiple PDBs, which are not supported"),
    ];
    for (meaning, text) in texts {
        let event = Event::new(About::Node("node".into()), "FailedDraining", text).on("ns/web");
        assert_eq!(about(meaning), [Effect::Event(event)]);
    }
    let evicted = Event::new(About::Pod(pod("1")), "Evicted", "Evicted pod: Underutilized");
    assert_eq!(about(Meaning::Evicted), [Effect::Event(evicted)]);
    assert_eq!(about(Meaning::Failed), []);
}

#[test]
fn drain_reason_is_the_condition_or_forceful() {
    assert_eq!(DrainReason::of(Some("Drifted")).as_str(), "Drifted");
    assert_eq!(DrainReason::of(Some("")).as_str(), "Forceful Termination");
    assert_eq!(DrainReason::of(None).as_str(), "Forceful Termination");
}

#[test]
fn due_pods_come_longest_due_first() {
    let mut queue = Queue::default();
    queue.add(pod("2"), &"node".into(), at(2));
    queue.add(pod("1"), &"node".into(), at(3));
    queue.add(pod("3"), &"node".into(), at(9));
    assert_eq!(queue.due(at(3)), [pod("2"), pod("1")]);
    assert_eq!(queue.next_due(), Some(at(2)));
}
