//! The clock of each pod that has not started: when it was seen, decided about, placed and bound. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Pod, PodKey, PodPhase, PodUid};

/// The pods that have not started yet.
#[derive(Debug, Default)]
pub(super) struct Timings(BTreeMap<PodKey, Clock>);

#[derive(Debug)]
struct Clock {
    uid: PodUid,
    created: Timestamp,
    bound: bool,
    /// First seen waiting for capacity.
    acknowledged: Option<Timestamp>,
    /// First decision, whatever it was.
    decided: Option<Timestamp>,
    /// The decision that gave it a place; taken back when a later one does not.
    placed: Option<Timestamp>,
}

/// Moment that a pod has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The first decision, counted from when it was seen.
    Decided,
    /// A node, counted from its creation.
    Bound,
    /// Readiness, counted from its creation.
    Started,
    /// A node, counted from the decision that gave it a place.
    ProvisionedBound,
    /// Readiness, counted from the decision that gave it a place.
    ProvisionedStarted,
}

/// A moment and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waited(pub(super) Moment, pub(super) Duration);

/// Moment that a pod still waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// A node, since its creation.
    Unbound,
    /// Readiness, since its creation.
    Unstarted,
    /// A node, since it was given a place.
    ProvisioningUnbound,
    /// Readiness, since it was given a place.
    ProvisioningUnstarted,
    /// A first decision, since it was seen.
    Undecided,
}

impl Timings {
    /// Records a pod as it is now. Only one that was seen pending is measured: for every other it is not known when it
    /// was bound or became ready, and one that is not ready any more has started before.
    pub(super) fn seen(&mut self, pod: &Pod, now: Timestamp) -> Vec<Waited> {
        let same = self.0.get(&pod.key).is_some_and(|clock| clock.uid == pod.uid);
        let ready = pod.ready == Some(true);
        let begins = pod.phase == PodPhase::Pending && !ready;
        if pod.is_terminal() || (!same && !begins) {
            self.0.remove(&pod.key);
            return Vec::new();
        }
        if !same {
            self.0.insert(pod.key.clone(), Clock::new(pod));
        }
        let Some(clock) = self.0.get_mut(&pod.key) else { return Vec::new() };
        if pod.is_provisionable() {
            clock.acknowledged.get_or_insert(now);
        }
        let mut waited = Vec::new();
        if pod.node_name.is_some() && !std::mem::replace(&mut clock.bound, true) {
            waited.push(Waited(Moment::Bound, since(clock.created, now)));
            waited.extend(clock.placed.map(|at| Waited(Moment::ProvisionedBound, since(at, now))));
        }
        if ready {
            waited.push(Waited(Moment::Started, since(clock.created, now)));
            waited.extend(clock.placed.map(|at| Waited(Moment::ProvisionedStarted, since(at, now))));
            self.0.remove(&pod.key);
        }
        waited
    }

    /// Forgets a pod that is gone.
    pub(super) fn gone(&mut self, key: &PodKey) -> Vec<Waited> {
        self.0.remove(key);
        Vec::new()
    }

    /// Records a decision; `placed` is true if the pod was given a place.
    pub(super) fn decided(&mut self, key: &PodKey, placed: bool, now: Timestamp) -> Option<Waited> {
        let clock = self.0.get_mut(key).filter(|clock| !clock.bound)?;
        if placed {
            clock.placed.get_or_insert(now);
        } else {
            clock.placed = None;
        }
        if clock.decided.replace(clock.decided.unwrap_or(now)).is_some() {
            return None;
        }
        Some(Waited(Moment::Decided, since(clock.acknowledged?, now)))
    }

    /// The pods that wait for something, and how long they have.
    pub(super) fn ages(&self, age: Age, now: Timestamp) -> impl Iterator<Item = (PodKey, Duration)> {
        self.0.iter().filter_map(move |(key, clock)| {
            let from = match age {
                Age::Unbound => Some(clock.created).filter(|_| !clock.bound),
                Age::Unstarted => Some(clock.created),
                Age::ProvisioningUnbound => clock.placed.filter(|_| !clock.bound),
                Age::ProvisioningUnstarted => clock.placed,
                Age::Undecided => clock.acknowledged.filter(|_| !clock.bound && clock.decided.is_none()),
            };
            Some((key.clone(), since(from?, now)))
        })
    }
}

impl Clock {
    fn new(pod: &Pod) -> Self {
        Self {
            uid: pod.uid.clone(),
            created: pod.created_at,
            // One that is bound when first seen was bound at an unknown time.
            bound: pod.node_name.is_some(),
            acknowledged: None,
            decided: None,
            placed: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod() -> Pod {
        Pod::pending(PodKey::new("ns", "web"), "uid", at(0))
    }

    fn waited(moment: Moment, seconds: u64) -> Waited {
        Waited(moment, Duration::from_secs(seconds))
    }

    #[test]
    fn a_pod_is_measured_from_creation_and_from_its_place() {
        let (mut timings, mut pod) = (Timings::default(), pod());
        assert!(timings.seen(&pod, at(1)).is_empty());
        assert_eq!(timings.decided(&pod.key, false, at(3)), Some(waited(Moment::Decided, 2)));
        assert_eq!(timings.decided(&pod.key, true, at(10)), None, "the first decision counts");
        assert_eq!(timings.decided(&pod.key, true, at(20)), None);
        pod.node_name = Some("n".into());
        let bound = timings.seen(&pod, at(50));
        assert_eq!(bound, [waited(Moment::Bound, 50), waited(Moment::ProvisionedBound, 40)]);
        assert!(timings.seen(&pod, at(51)).is_empty(), "bound once");
        pod.ready = Some(true);
        let started = timings.seen(&pod, at(60));
        assert_eq!(started, [waited(Moment::Started, 60), waited(Moment::ProvisionedStarted, 50)]);
        assert!(timings.0.is_empty());
        assert!(timings.seen(&pod, at(61)).is_empty(), "started once");
    }

    #[test]
    fn a_later_refusal_takes_the_place_back() {
        let (mut timings, mut pod) = (Timings::default(), pod());
        timings.seen(&pod, at(1));
        timings.decided(&pod.key, true, at(2));
        timings.decided(&pod.key, false, at(3));
        pod.node_name = Some("n".into());
        assert_eq!(timings.seen(&pod, at(9)), [waited(Moment::Bound, 9)]);
    }

    #[test]
    fn pods_that_ran_before_that_end_or_go_are_not_measured() {
        let mut timings = Timings::default();
        assert!(timings.seen(&Pod { ready: Some(true), ..pod() }, at(9)).is_empty());
        timings.seen(&pod(), at(1));
        assert!(timings.seen(&Pod { phase: PodPhase::Failed, ..pod() }, at(2)).is_empty());
        assert!(timings.0.is_empty());
        timings.seen(&pod(), at(1));
        timings.gone(&pod().key);
        assert!(timings.0.is_empty());
        let bound_before = Pod { node_name: Some("n".into()), ..pod() };
        assert!(timings.seen(&bound_before, at(5)).is_empty());
    }

    #[test]
    fn only_a_pod_that_was_seen_pending_is_measured() {
        let day = 86_400;
        let state = |phase, ready| Pod { phase, ready: Some(ready), node_name: Some("n".into()), ..pod() };
        let (running, flapped) = (state(PodPhase::Running, true), state(PodPhase::Running, false));
        let pending = state(PodPhase::Pending, false);
        let other = Pod { uid: "another".into(), ..flapped.clone() };
        let cases: [(&str, Vec<&Pod>, usize, usize); 6] = [
            ("ran before and flaps", vec![&running, &flapped, &running], 0, 0),
            ("ran before and is not ready", vec![&flapped], 0, 0),
            ("ran before and becomes ready", vec![&flapped, &running], 0, 0),
            ("started once, and flaps", vec![&pending, &running, &flapped, &running, &flapped], 1, 0),
            ("is seen pending", vec![&pending, &flapped], 0, 1),
            ("took the name of one that was pending", vec![&pending, &other], 0, 0),
        ];
        for (what, states, started, aging) in cases {
            let mut timings = Timings::default();
            let all: Vec<Waited> = states.iter().flat_map(|pod| timings.seen(pod, at(10 * day))).collect();
            let starts = all.iter().filter(|Waited(moment, _)| *moment == Moment::Started).count();
            let ages = timings.ages(Age::Unstarted, at(10 * day)).count();
            assert_eq!((starts, ages), (started, aging), "{what}");
        }
    }

    #[test]
    fn ages_are_of_what_is_still_missing() {
        let (mut timings, mut pod) = (Timings::default(), pod());
        timings.seen(&pod, at(1));
        let age = |timings: &Timings, age| timings.ages(age, at(11)).next().map(|(_, age)| age.as_secs());
        assert_eq!(age(&timings, Age::Unbound), Some(11));
        assert_eq!(age(&timings, Age::Undecided), Some(10));
        assert_eq!(age(&timings, Age::ProvisioningUnbound), None);
        timings.decided(&pod.key, true, at(5));
        assert_eq!(age(&timings, Age::Undecided), None);
        assert_eq!(age(&timings, Age::ProvisioningUnbound), Some(6));
        pod.node_name = Some("n".into());
        timings.seen(&pod, at(8));
        assert_eq!(age(&timings, Age::Unbound), None);
        assert_eq!(age(&timings, Age::Unstarted), Some(11));
        assert_eq!(age(&timings, Age::ProvisioningUnstarted), Some(6));
    }

    #[test]
    fn a_pod_that_is_bound_before_any_plan_looks_at_it_is_not_undecided() {
        let (mut timings, mut pod) = (Timings::default(), pod());
        timings.seen(&pod, at(1));
        pod.node_name = Some("n".into());
        timings.seen(&pod, at(2));
        assert_eq!(timings.ages(Age::Undecided, at(11)).count(), 0);
    }
}
