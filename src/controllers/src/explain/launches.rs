//! The way of each launch in milliseconds, from the batch of its pods to the node that takes pods.
//!
//! Kept for the latest launches of this process. After a restart, conditions of the claim show in seconds what is left
//! of it.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use karpenter_model::ClaimName;

use super::Fact;

/// Launches that are kept, so that memory is bounded; the oldest is dropped first.
const KEPT: usize = 2_048;

/// A point on the way of a launch, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The batch was opened: by the first pod that asked for a plan, or by the end of the pass before, for pods that had come
    /// meanwhile.
    BatchOpened,
    /// The batch was closed: what is known was frozen for a plan.
    BatchClosed,
    /// The plan was made and audited.
    Planned,
    /// The NodeClaim was created.
    Created,
    /// The provider was asked for a machine, for the first time.
    LaunchRequested,
    /// The provider answered, for the last time.
    LaunchAnswered,
    /// The machine is in the status of the claim.
    Launched,
    /// Its node has joined.
    Registered,
    /// Its node takes pods.
    Initialized,
}

impl Step {
    fn label(self) -> &'static str {
        match self {
            Self::BatchOpened => "batch opened",
            Self::BatchClosed => "batch closed",
            Self::Planned => "planned",
            Self::Created => "nodeclaim created",
            Self::LaunchRequested => "launch requested",
            Self::LaunchAnswered => "launch answered",
            Self::Launched => "launched",
            Self::Registered => "registered",
            Self::Initialized => "initialized",
        }
    }
}

/// The latest launches.
#[derive(Debug, Default)]
pub(super) struct Launches {
    steps: BTreeMap<ClaimName, BTreeMap<Step, Timestamp>>,
    order: VecDeque<ClaimName>,
}

impl Launches {
    /// Records that the launch of `claim` has reached `step`.
    pub(super) fn reached(&mut self, claim: &ClaimName, step: Step, at: Timestamp) {
        if !self.steps.contains_key(claim) {
            if self.order.len() == KEPT {
                let oldest = self.order.pop_front();
                oldest.map(|oldest| self.steps.remove(&oldest));
            }
            self.order.push_back(claim.clone());
        }
        let steps = self.steps.entry(claim.clone()).or_default();
        match step {
            // Between the first question and the last answer are the tries that failed.
            Step::LaunchAnswered => drop(steps.insert(step, at)),
            _ => drop(steps.entry(step).or_insert(at)),
        }
    }

    /// Recorded points of the launch of `claim`, each with the milliseconds since the one before and since the first.
    pub(super) fn facts(&self, claim: &ClaimName) -> Vec<Fact> {
        let Some(steps) = self.steps.get(claim) else { return Vec::new() };
        let mut facts = Vec::with_capacity(steps.len());
        let mut before: Option<(Timestamp, Timestamp)> = None;
        for (step, at) in steps {
            let value = match before {
                None => format!("{at:.3}"),
                Some((first, last)) => {
                    format!("{} ms later, {} ms in all", milliseconds(last, *at), milliseconds(first, *at))
                }
            };
            facts.push(Fact { name: step.label().to_owned(), value });
            before = Some((before.map_or(*at, |(first, _)| first), *at));
        }
        facts
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> i128 {
    to.duration_since(from).as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn each_step_has_its_milliseconds_however_late_it_was_recorded() {
        let mut launches = Launches::default();
        let claim = ClaimName::from("web-1");
        for (step, millisecond) in [
            (Step::Created, 1_020),
            (Step::BatchOpened, 0),
            (Step::BatchClosed, 1_000),
            (Step::Planned, 1_012),
            (Step::LaunchRequested, 1_025),
            (Step::LaunchAnswered, 1_500),
            // The first try has failed.
            (Step::LaunchRequested, 2_000),
            (Step::LaunchAnswered, 2_400),
        ] {
            launches.reached(&claim, step, at(millisecond));
        }
        let facts = launches.facts(&claim);
        let shown: Vec<_> = facts.iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect();
        assert_eq!(
            shown,
            [
                "batch opened: 1970-01-01T00:00:00.000Z",
                "batch closed: 1000 ms later, 1000 ms in all",
                "planned: 12 ms later, 1012 ms in all",
                "nodeclaim created: 8 ms later, 1020 ms in all",
                "launch requested: 5 ms later, 1025 ms in all",
                "launch answered: 1375 ms later, 2400 ms in all",
            ]
        );
        assert!(launches.facts(&ClaimName::from("web-2")).is_empty());
    }

    #[test]
    fn the_oldest_launch_goes_when_there_are_many() {
        let mut launches = Launches::default();
        let name = |number: usize| ClaimName::from(format!("web-{number}").as_str());
        for number in 0..=KEPT {
            launches.reached(&name(number), Step::Created, at(0));
            launches.reached(&name(number), Step::LaunchRequested, at(1));
        }
        assert!(launches.facts(&name(0)).is_empty());
        assert_eq!(launches.facts(&name(1)).len(), 2);
        assert_eq!((launches.steps.len(), launches.order.len()), (KEPT, KEPT));
    }
}
