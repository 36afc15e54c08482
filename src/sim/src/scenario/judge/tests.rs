//! The judge on recordings made by hand: what is met is silent, what is not says expectation, expected and actual.

use super::*;
use crate::scenario::record::{Occurrence, Removal};

fn node(instance_type: &str, zone: &str, capacity_type: &str) -> NodeFact {
    NodeFact {
        pool: "general".to_owned(),
        zone: zone.to_owned(),
        instance_type: instance_type.to_owned(),
        capacity_type: capacity_type.to_owned(),
        arch: "amd64".to_owned(),
    }
}

fn minutes(number: u64) -> Duration {
    Duration::from_mins(number)
}

/// Ten minutes with one node, ten with three, ten with two; a pod waits in the second ten.
fn recording() -> Recording {
    let large = node("c6a.large", "a", "spot");
    let xlarge = node("m6a.xlarge", "b", "on-demand");
    let pod = |running, node: Option<&NodeFact>| PodFact {
        namespace: "default".to_owned(),
        workload: "web".to_owned(),
        running,
        node: node.cloned(),
    };
    let picture = |at, nanos, nodes: &[&NodeFact], pods: &[(PodFact, u64)]| Picture {
        at: minutes(at),
        per_hour: Price::from_nanos(nanos),
        nodes: nodes.iter().map(|node| (*node).clone()).collect(),
        pods: pods.iter().cloned().collect(),
    };
    let events = Occurrence {
        reason: "FailedScheduling".to_owned(),
        kind: "Pod".to_owned(),
        name: "web-1".to_owned(),
        message: "no pool can take it".to_owned(),
        times: vec![minutes(11), minutes(16)],
    };
    let removal =
        |at, reason: &str| Removal { at: minutes(at), pool: "general".to_owned(), reason: reason.to_owned() };
    Recording {
        pictures: vec![
            picture(0, 600_000_000, &[&large], &[(pod(true, Some(&large)), 2)]),
            picture(
                10,
                1_800_000_000,
                &[&large, &large, &xlarge],
                &[(pod(true, Some(&large)), 2), (pod(false, None), 1)],
            ),
            picture(
                20,
                1_200_000_000,
                &[&large, &xlarge],
                &[(pod(true, Some(&large)), 2), (pod(true, Some(&xlarge)), 1)],
            ),
        ],
        removals: vec![removal(20, "Underutilized"), removal(25, "Drifted")],
        events: [("uid".to_owned(), events)].into(),
        took: minutes(30),
        one_plan: Some(Price::from_nanos(1_000_000_000)),
        ..Recording::default()
    }
}

/// Returns the failure of one expectation, written as in a file, about the recording.
fn said(text: &str) -> Option<String> {
    let given = serde_saphyr::from_str(text).unwrap();
    let what = Expected::of(given, Span(minutes(30))).unwrap();
    let failures = judge(&[Line { line: 7, what }], &recording());
    failures.first().map(ToString::to_string)
}

#[test]
fn what_is_met_is_silent() {
    for text in [
        "nodes: {exactly: 2}",
        "{nodes: {exactly: 3}, at: 15m}",
        "{nodes: {exactly: 1}, at: 9m59s}",
        "{nodes: {atLeast: 1, atMost: 3}, when: always}",
        "{nodes: {exactly: 3}, when: eventually}",
        "{nodes: {atMost: 1}, when: always, until: 9m}",
        "nodes: {instanceType: c6a.*, exactly: 1}",
        "nodes: {capacityType: on-demand, zone: b, exactly: 1}",
        "pods: {workload: web, exactly: 3}",
        "pods: {workload: web, capacityType: spot, exactly: 2}",
        "{pods: {phase: pending, exactly: 1}, at: 10m}",
        "cost: {perHour: {atMost: 1.2}}",
        // A sixth of an hour each of 0.60, 1.80 and 1.20.
        "cost: {total: {atMost: 0.60, atLeast: 0.60}}",
        "{cost: {total: {atMost: 0.40, atLeast: 0.40}}, at: 20m}",
        "realised: {atMost: 1.2}",
        "disruptions: {exactly: 2}",
        "disruptions: {reason: Drifted, exactly: 1}",
        "{disruptions: {exactly: 0}, until: 15m}",
        "events: {reason: FailedScheduling, kind: Pod, exactly: 2}",
        "{events: {reason: FailedScheduling, message: no pool, exactly: 1}, from: 12m}",
        "events: {reason: Evicted, exactly: 0}",
    ] {
        assert_eq!(said(text), None, "{text}");
    }
}

#[test]
fn what_is_not_met_names_expectation_expected_and_actual() {
    for (text, expected) in [
        (
            "nodes: {atMost: 1}",
            "line 7: `nodes` at the end: expected at most 1, actual 2, of 1 c6a.large spot, 1 m6a.xlarge on-demand",
        ),
        (
            "{nodes: {pool: general, atMost: 2}, when: always, because: quota}",
            "line 7: `nodes` of pool general always: expected at most 2, actual 3 at 10m, of 2 c6a.large spot, 1 m6a.xlarge on-demand (quota)",
        ),
        (
            "{nodes: {atLeast: 4}, when: eventually}",
            "line 7: `nodes` eventually: expected at least 4, actual from 1 to 3",
        ),
        (
            "{pods: {phase: pending, exactly: 0}, at: 12m}",
            "line 7: `pods` of phase pending at 12m: expected exactly 0, actual 1",
        ),
        (
            "cost: {perHour: {atMost: 1.00}}",
            "line 7: `cost.perHour` at the end: expected at most $1.0000, actual $1.2000, for 1 c6a.large spot, 1 m6a.xlarge on-demand",
        ),
        (
            "cost: {total: {atMost: 0.50}}",
            "line 7: `cost.total` at the end: expected at most $0.5000, actual $0.6000; most of it an hour at 10m: $1.8000, for 2 c6a.large spot, 1 m6a.xlarge on-demand",
        ),
        (
            "realised: {atMost: 1.01}",
            "line 7: `realised` at the end: expected at most 1.01, actual 1.200: $1.2000, for 1 c6a.large spot, 1 m6a.xlarge on-demand, where one plan costs $1.0000",
        ),
        (
            "disruptions: {reason: Empty, atLeast: 1}",
            "line 7: `disruptions` of reason Empty: expected at least 1, actual 0 (of all: 1 Drifted, 1 Underutilized)",
        ),
        (
            "events: {reason: FailedScheduling, exactly: 0}",
            "line 7: `events` of reason FailedScheduling: expected exactly 0, actual 2",
        ),
        ("pendingTime: {p99: 1m}", "line 7: `pendingTime.p99`: expected at most 1m, actual no pod at all"),
    ] {
        assert_eq!(said(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn percentiles_are_times_that_were_measured() {
    let times: Vec<Duration> = (1..=200).map(Duration::from_secs).collect();
    for (percent, seconds) in [(50, 100), (90, 180), (99, 198), (100, 200)] {
        assert_eq!(percentile(&times, percent), Some(Duration::from_secs(seconds)));
    }
    assert_eq!(percentile(&times[..1], 50), Some(Duration::from_secs(1)));
    assert_eq!(percentile(&[], 50), None);
}
