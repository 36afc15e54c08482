//! Repetition of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};

use super::{Event, MemorySink, ObjectRef, Reason, Recorder, Severity, Sink, reason, truncate};

/// A recorder whose time is set by hand, in seconds.
fn recorder() -> (Recorder, MemorySink, Arc<AtomicI64>) {
    let (sink, second) = (MemorySink::default(), Arc::new(AtomicI64::new(0)));
    let read = Arc::clone(&second);
    let now = move || Timestamp::UNIX_EPOCH + SignedDuration::from_secs(read.load(Ordering::Relaxed));
    (Recorder::new(sink.clone(), now), sink, second)
}

fn event(reason: Reason, uid: &str, message: &str) -> Event {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some("default".to_owned()),
        name: format!("pod-{uid}"),
        uid: uid.to_owned(),
    };
    Event::new(object, reason, message)
}

#[test]
fn an_equal_event_is_suppressed_for_the_period_of_its_reason() {
    for (reason, seconds) in [
        (reason::EVICTED, 120),
        (reason::FAILED_SCHEDULING, 300),
        (reason::UNCONSOLIDATABLE, 900),
        (reason::NO_COMPATIBLE_INSTANCE_TYPES, 60),
    ] {
        let (recorder, sink, second) = recorder();
        recorder.publish(event(reason, "a", "first"));
        second.store(seconds - 1, Ordering::Relaxed);
        recorder.publish(event(reason, "a", "hidden although its text changed"));
        assert_eq!(sink.events().len(), 1, "{}", reason.name());
        second.store(seconds, Ordering::Relaxed);
        recorder.publish(event(reason, "a", "second"));
        assert_eq!(sink.messages(reason.name()), ["first", "second"]);
    }
}

#[test]
fn what_goes_on_being_true_is_written_every_half_hour_and_what_changes_as_soon_as_it_may_be() {
    for (reason, minutes) in [(reason::UNCONSOLIDATABLE, 15), (reason::DISRUPTION_BLOCKED, 2)] {
        let (recorder, sink, second) = recorder();
        let at = |minute: i64, message| {
            second.store(minute * 60, Ordering::Relaxed);
            recorder.publish(event(reason, "a", message));
            sink.events().len()
        };
        assert_eq!(at(0, "dear"), 1);
        assert_eq!(at(minutes, "dear"), 1, "{} says the same", reason.name());
        assert_eq!(at(29, "dear"), 1);
        assert_eq!(at(30, "dear"), 2);
        assert_eq!(at(30 + minutes - 1, "blocked"), 2);
        assert_eq!(at(30 + minutes, "blocked"), 3, "{} says something else", reason.name());
        assert_eq!(at(30 + 2 * minutes, "dear"), 4);
    }
}

/// A sink with room for a number of events.
struct Narrow(MemorySink, usize);

impl Sink for Narrow {
    fn emit(&self, event: Event, at: Timestamp) -> bool {
        self.0.events().len() < self.1 && self.0.emit(event, at)
    }
}

#[test]
fn what_there_was_no_room_for_is_news_the_next_time() {
    let sink = MemorySink::default();
    let recorder = Recorder::new(Narrow(sink.clone(), 2), || Timestamp::UNIX_EPOCH);
    for uid in ["a", "b", "c", "c"] {
        recorder.publish(event(reason::UNCONSOLIDATABLE, uid, "dear"));
    }
    assert_eq!(sink.events().len(), 2);
    let wide = Recorder { sink: Box::new(sink.clone()), ..recorder };
    for uid in ["a", "b", "c"] {
        wide.publish(event(reason::UNCONSOLIDATABLE, uid, "dear"));
    }
    assert_eq!(sink.events().last().map(|event| event.dedupe.clone()), Some(vec!["c".to_owned()]));
    assert_eq!(sink.events().len(), 3, "the others were written");
}

#[test]
fn other_objects_and_other_distinguishing_values_are_news() {
    let (recorder, sink, _) = recorder();
    recorder.publish(event(reason::DISRUPTION_TERMINATING, "a", "1").distinguished_by("Empty"));
    recorder.publish(event(reason::DISRUPTION_TERMINATING, "a", "2").distinguished_by("Drifted"));
    recorder.publish(event(reason::DISRUPTION_TERMINATING, "b", "3").distinguished_by("Empty"));
    recorder.publish(event(reason::DISRUPTION_TERMINATING, "b", "4").distinguished_by("Empty"));
    assert_eq!(sink.messages("DisruptionTerminating"), ["1", "2", "3"]);
}

#[test]
fn nominations_are_limited_over_all_pods_and_stay_suppressed_when_refused() {
    let (recorder, sink, second) = recorder();
    for pod in 0..20 {
        recorder.publish(event(reason::NOMINATED, &pod.to_string(), "nominated"));
    }
    assert_eq!(sink.events().len(), 10, "burst");
    second.store(1, Ordering::Relaxed);
    recorder.publish(event(reason::NOMINATED, "19", "refused a second ago, still suppressed"));
    for pod in 20..40 {
        recorder.publish(event(reason::NOMINATED, &pod.to_string(), "nominated"));
    }
    assert_eq!(sink.events().len(), 15, "five more a second later");
}

#[test]
fn condition_transitions_are_never_suppressed() {
    let (recorder, sink, _) = recorder();
    recorder.publish(event(Reason::condition("Launched"), "a", "Unknown to True"));
    recorder.publish(event(Reason::condition("Launched"), "a", "Unknown to True"));
    assert_eq!(sink.events().len(), 2);
}

#[test]
fn long_messages_are_cut_at_a_character_boundary() {
    assert_eq!(truncate("short".to_owned(), 5), "short");
    assert_eq!(truncate("äöüäöü".to_owned(), 8), "äö...");
}

#[test]
fn every_reason_is_documented() {
    for (reason, meaning) in reason::reference() {
        assert!(meaning.ends_with('.') && !meaning.starts_with(' '), "{}: `{meaning}`", reason.name());
        assert!(reason.name().chars().all(char::is_alphanumeric), "{}", reason.name());
        assert!(!reason.kinds().is_empty(), "{} does not say what it is about", reason.name());
    }
}

/// Reason, type, kinds, values besides the object that tell two apart, seconds an equal one is suppressed.
type Row = (&'static str, Severity, &'static [&'static str], &'static [&'static str], u64);

#[test]
fn the_table_is_that_of_the_reference() {
    const NORMAL: Severity = Severity::Normal;
    const WARNING: Severity = Severity::Warning;
    const MACHINE: &[&str] = &["Node", "NodeClaim"];
    // Spec disruption 7, and spec aws-provider 14 of interruptions. Where we say more, docs/differences.md says why:
    // `DisruptionBlocked` and `FailedScheduling` speak again when the reason is another one, `FailedDraining` for each
    // pod that a budget holds, and `NodeRepairBlocked` on every object it is about.
    let table: [Row; 32] = [
        ("DisruptionBlocked", NORMAL, MACHINE, &["blocker"], 120),
        ("DisruptionBlocked", NORMAL, &["NodePool"], &["reason"], 60),
        ("DisruptionLaunching", NORMAL, &["NodeClaim"], &["reason"], 120),
        ("DisruptionWaitingReadiness", NORMAL, &["NodeClaim"], &[], 120),
        ("DisruptionTerminating", NORMAL, MACHINE, &["reason"], 120),
        ("Unconsolidatable", NORMAL, MACHINE, &[], 900),
        ("ConsolidationCandidate", NORMAL, MACHINE, &["command"], 120),
        ("ConsolidationRejected", NORMAL, MACHINE, &["command", "reason"], 120),
        ("ConsolidationApproved", NORMAL, &["Node", "NodeClaim", "NodePool"], &[], 120),
        ("FailedScheduling", WARNING, &["Pod"], &["gist"], 300),
        ("NoCompatibleInstanceTypes", WARNING, &["NodePool"], &[], 60),
        ("Nominated", NORMAL, &["Pod"], &[], 120),
        ("NodeRepairBlocked", WARNING, &["Node", "NodeClaim", "NodePool"], &[], 900),
        ("Disrupted", NORMAL, &["Pod"], &[], 120),
        ("Evicted", NORMAL, &["Pod"], &[], 120),
        ("FailedDraining", WARNING, &["Node"], &["pod"], 120),
        ("TerminationGracePeriodExpiring", WARNING, MACHINE, &[], 120),
        ("AwaitingVolumeDetachment", NORMAL, &["Node"], &[], 120),
        ("FailedConsistencyCheck", WARNING, &["NodeClaim"], &["message"], 120),
        ("InsufficientCapacityError", WARNING, &["NodeClaim", "Pod"], &[], 120),
        ("UnregisteredTaintMissing", WARNING, &["NodeClaim"], &[], 120),
        ("InvalidDoNotDisruptAnnotation", WARNING, &["Pod"], &["message"], 120),
        ("DoNotDisruptUntil", NORMAL, &["Pod"], &["end"], 120),
        ("DoNotDisruptGracePeriodElapsed", NORMAL, &["Pod"], &[], 120),
        ("Finalized", NORMAL, MACHINE, &[], 0),
        ("SpotInterrupted", WARNING, MACHINE, &[], 120),
        ("CapacityReservationInstanceInterrupted", WARNING, MACHINE, &[], 120),
        ("SpotRebalanceRecommendation", NORMAL, MACHINE, &[], 120),
        ("InstanceStopping", WARNING, MACHINE, &[], 120),
        ("InstanceTerminating", WARNING, MACHINE, &[], 120),
        ("InstanceUnhealthy", WARNING, MACHINE, &[], 120),
        ("TerminatingOnInterruption", WARNING, MACHINE, &[], 120),
    ];
    let declared: Vec<_> = reason::reference()
        .into_iter()
        .map(|(reason, _)| {
            let period = reason.period().as_secs();
            (reason.name(), reason.severity(), reason.kinds(), reason.distinctions(), period)
        })
        .collect();
    for row in table {
        assert!(declared.contains(&row), "{row:?} is not declared so");
    }
    let rate = reason::NOMINATED.rate().map(|rate| (rate.per_second, rate.burst));
    assert_eq!(rate, Some((5, 10)));
}
