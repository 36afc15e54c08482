//! Readiness of the room of a buffer, as the last plan saw it.

use karpenter_model::names::reason;
use karpenter_model::{ConditionStatus, PodOutcome};

use super::verdict;
use crate::step::ConditionValue;

/// The outcomes of the virtual pods of one buffer in a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Pods that fit on machines that are there or coming.
    pub existing: u32,
    /// Pods that need machines the plan launches.
    pub new: u32,
    /// Pods that nothing takes.
    pub failed: u32,
}

impl Tally {
    /// Counts one pod.
    pub fn count(&mut self, outcome: &PodOutcome) {
        match outcome {
            PodOutcome::Existing(_) | PodOutcome::InFlight(_) => self.existing += 1,
            PodOutcome::New(_) => self.new += 1,
            PodOutcome::Ignored(_) | PodOutcome::Unschedulable(_) => self.failed += 1,
        }
    }
}

/// Value of the condition [`PROVISIONING`](super::PROVISIONING) for a buffer of `replicas` pods, `ready` or not; `None` when
/// the plan shows too little, because it looked at none or at a part of them.
pub fn provisioning(ready: bool, replicas: u32, tally: Tally) -> Option<ConditionValue> {
    let Tally { existing, new, failed } = tally;
    let fails = |reason, message| Some(verdict(ConditionStatus::False, reason, message));
    if !ready {
        return fails(
            reason::NOT_READY_FOR_PROVISIONING,
            "the buffer is not ready for provisioning".to_owned(),
        );
    }
    if replicas == 0 {
        return fails(reason::BUFFER_EMPTY, "the buffer asks for no pods".to_owned());
    }
    if new > 0 || failed > 0 {
        let message =
            format!("{new}/{replicas} buffer pods require new capacity, {failed} failed to schedule");
        return fails(reason::REQUIRES_NEW_CAPACITY, message);
    }
    (existing >= replicas).then(|| {
        let message = format!("all {replicas} buffer pods fit on existing capacity");
        verdict(ConditionStatus::True, reason::FITS_EXISTING_CAPACITY, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_follows_from_what_became_of_the_pods() {
        let some = |reason, status| Some((reason, status));
        let (yes, no) = (ConditionStatus::True, ConditionStatus::False);
        // Ready, replicas, existing, new, failed.
        let table = [
            ((false, 3, 3, 0, 0), some("NotReadyForProvisioning", no)),
            ((true, 0, 0, 0, 0), some("BufferEmpty", no)),
            ((true, 3, 3, 0, 0), some("FitsExistingCapacity", yes)),
            ((true, 3, 2, 1, 0), some("RequiresNewCapacity", no)),
            ((true, 3, 2, 0, 1), some("RequiresNewCapacity", no)),
            ((true, 3, 0, 0, 0), None),
            ((true, 3, 2, 0, 0), None),
        ];
        for ((ready, replicas, existing, new, failed), expected) in table {
            let got = provisioning(ready, replicas, Tally { existing, new, failed });
            let got = got.as_ref().map(|verdict| (verdict.reason.as_str(), verdict.status));
            assert_eq!(got, expected, "{ready} {replicas} {existing} {new} {failed}");
        }
    }

    #[test]
    fn it_says_how_many_need_new_capacity_and_how_many_have_no_place() {
        let verdict = provisioning(true, 5, Tally { existing: 1, new: 3, failed: 1 }).unwrap();
        assert_eq!(verdict.message, "3/5 buffer pods require new capacity, 1 failed to schedule");
    }

    #[test]
    fn every_outcome_counts_once() {
        let mut tally = Tally::default();
        let outcomes = [
            PodOutcome::Existing("n".into()),
            PodOutcome::InFlight("c".into()),
            PodOutcome::New(karpenter_model::BinId(1)),
            PodOutcome::Ignored(Vec::new()),
            PodOutcome::Unschedulable(Vec::new()),
        ];
        for outcome in &outcomes {
            tally.count(outcome);
        }
        assert_eq!(tally, Tally { existing: 2, new: 1, failed: 2 });
    }
}
