//! Predicates of pods that more than one place uses (spec disruption 0.5).

use jiff::{SignedDuration, Timestamp};

use crate::clock::since;
use crate::pod::{DoNotDisrupt, Pod, PodOwner, PodPhase};
use crate::taint::Taint;

/// Time after its deletion timestamp from which a pod counts as stuck.
pub(crate) const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// One unit of pod deletion cost or priority weighs 1/2^27 or 1/2^25 of a pod; costs are kept in 1/2^27.
const COST_UNIT: i64 = 1 << 27;

impl Pod {
    /// Failed or succeeded.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded)
    }

    /// Being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    /// Neither terminal nor terminating.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating()
    }

    /// Owned by a daemon set.
    pub fn is_daemon(&self) -> bool {
        self.owner == PodOwner::DaemonSet
    }

    /// A static pod.
    pub fn is_mirror(&self) -> bool {
        self.owner == PodOwner::Mirror
    }

    /// Would be created elsewhere if its node were removed.
    pub fn is_reschedulable(&self) -> bool {
        let returns = self.is_active() || (self.owner == PodOwner::StatefulSet && self.is_terminating());
        returns && !self.is_daemon() && !self.is_mirror()
    }

    /// Stands for room that a capacity buffer keeps free, and exists nowhere else.
    pub fn is_virtual(&self) -> bool {
        self.buffer.is_some()
    }

    /// Waits for capacity: the scheduler gave up on it. Whether it is to be planned for depends on the node it may be
    /// nominated for, see [`Snapshot::waiting`](crate::Snapshot::waiting).
    pub fn is_provisionable(&self) -> bool {
        self.unschedulable && self.node_name.is_none() && !self.is_daemon() && !self.is_mirror()
    }

    /// Asks for the same node as `other`, which is the same pod at another time.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.requests == other.requests
            && self.node_selector == other.node_selector
            && self.required_terms == other.required_terms
            && self.tolerations == other.tolerations
            && self.host_ports == other.host_ports
            && self.spread == other.spread
            && self.pod_affinity == other.pod_affinity
            && self.pod_anti_affinity == other.pod_anti_affinity
            && self.volumes == other.volumes
    }

    /// The do-not-disrupt annotation holds at `now`. Without a start time a duration holds (fail safe).
    pub fn blocks_disruption(&self, now: Timestamp) -> bool {
        match &self.do_not_disrupt {
            DoNotDisrupt::No | DoNotDisrupt::Invalid(_) => false,
            DoNotDisrupt::Always => true,
            DoNotDisrupt::For(duration) => self.started_at.is_none_or(|start| since(start, now) < *duration),
        }
    }

    /// May be disrupted as far as the pod itself is concerned.
    pub fn is_disruptable(&self, now: Timestamp) -> bool {
        !self.is_active() || !self.blocks_disruption(now)
    }

    /// Tolerates the taint of nodes that are being disrupted, so it is left where it is.
    pub fn tolerates_disruption(&self) -> bool {
        if self.tolerations.is_empty() {
            return false;
        }
        let taint = Taint::disrupted();
        self.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
    }

    /// The eviction API would be asked to remove it.
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        self.is_active() && !self.tolerates_disruption() && !self.is_mirror() && !self.blocks_disruption(now)
    }

    /// Its eviction asks the pod disruption budgets that cover it. The eviction API deletes a pod that has not begun to run
    /// without asking any.
    pub fn asks_budgets(&self, now: Timestamp) -> bool {
        self.is_evictable(now) && self.phase != PodPhase::Pending
    }

    /// Terminating for more than a minute longer than it should.
    pub(crate) fn is_stuck_terminating(&self, now: Timestamp) -> bool {
        self.deletion.is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER)
    }

    /// A drain must wait for it or evict it.
    pub fn is_drainable(&self, now: Timestamp) -> bool {
        !self.tolerates_disruption() && !self.is_stuck_terminating(now) && !self.is_mirror()
    }

    /// A drain is not finished while such a pod is on the node.
    pub fn is_waiting_eviction(&self, now: Timestamp) -> bool {
        !self.is_terminal() && self.is_drainable(now)
    }

    /// Cost of evicting it, in 1/2^27 of an ordinary pod: 1 + disruption cost / 2^27 + priority / 2^25,
    /// clamped to -10..10 (spec disruption 3.3). Exact, because both divisors are powers of two. A pod without a disruption
    /// cost has its deletion cost.
    pub fn eviction_cost(&self) -> i64 {
        let priority = i64::from(self.priority.unwrap_or(0));
        let own = self.disruption_cost.unwrap_or(self.deletion_cost);
        let cost = COST_UNIT + i64::from(own) + priority * 4;
        cost.clamp(-10 * COST_UNIT, 10 * COST_UNIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::id::PodKey;
    use crate::taint::Toleration;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn pod() -> Pod {
        Pod::pending(PodKey::new("ns", "a"), "uid", at(0))
    }

    #[test]
    fn only_stateful_set_pods_stay_reschedulable_while_terminating() {
        let mut pod = Pod { deletion: Some(at(0)), ..pod() };
        assert!(!pod.is_reschedulable());
        pod.owner = PodOwner::StatefulSet;
        assert!(pod.is_reschedulable());
        pod.phase = PodPhase::Succeeded;
        assert!(pod.is_reschedulable(), "terminal and terminating still counts");
    }

    #[test]
    fn daemon_and_mirror_pods_are_neither_reschedulable_nor_provisionable() {
        for owner in [PodOwner::DaemonSet, PodOwner::Mirror] {
            let pod = pod().with(|pod| pod.owner = owner);
            assert!(!pod.is_reschedulable());
            assert!(!pod.is_provisionable());
        }
        assert!(pod().is_provisionable());
        assert!(Pod { nominated_node: Some("n".into()), ..pod() }.is_provisionable());
        assert!(!Pod { node_name: Some("n".into()), ..pod() }.is_provisionable());
        assert!(!Pod { unschedulable: false, ..pod() }.is_provisionable());
    }

    #[test]
    fn do_not_disrupt_duration_counts_from_the_start_and_fails_safe() {
        let hour = DoNotDisrupt::For(Duration::from_hours(1));
        let table = [
            (DoNotDisrupt::No, Some(at(0)), 0, false),
            (DoNotDisrupt::Always, None, 0, true),
            (hour.clone(), None, 100_000, true),
            (hour.clone(), Some(at(0)), 3599, true),
            (hour.clone(), Some(at(0)), 3600, false),
            (hour, Some(at(10)), 0, true),
            (DoNotDisrupt::Invalid("yes".into()), None, 0, false),
        ];
        for (do_not_disrupt, started_at, now, expected) in table {
            let pod = pod().with(|pod| {
                pod.started_at = started_at;
                pod.do_not_disrupt = do_not_disrupt;
            });
            assert_eq!(pod.blocks_disruption(at(now)), expected, "{:?}", pod.do_not_disrupt);
        }
    }

    #[test]
    fn pods_that_tolerate_the_disrupted_taint_are_left_alone() {
        let pod = pod().with(|pod| pod.tolerations = vec![Toleration::everything()]);
        assert!(!pod.is_evictable(at(0)));
        assert!(!pod.is_drainable(at(0)));
    }

    #[test]
    fn stuck_pods_no_longer_hold_up_a_drain() {
        let pod = Pod { deletion: Some(at(0)), ..pod() };
        assert!(pod.is_waiting_eviction(at(60)));
        assert!(!pod.is_waiting_eviction(at(61)));
    }

    #[test]
    fn a_disruption_cost_takes_the_place_of_the_deletion_cost() {
        let table = [(None, 7, 7), (Some(-3), 7, -3), (Some(0), 7, 0), (Some(1 << 27), 0, 1 << 27)];
        for (own, deletion, counted) in table {
            let pod = pod().with(|pod| (pod.disruption_cost, pod.deletion_cost) = (own, deletion));
            assert_eq!(pod.eviction_cost(), COST_UNIT + counted, "{own:?} {deletion}");
        }
    }

    #[test]
    fn eviction_cost_is_clamped() {
        let table = [
            (0, None, COST_UNIT),
            (i32::MIN, None, -15 * COST_UNIT),
            (0, Some(1 << 25), 2 * COST_UNIT),
            (i32::MAX, Some(2_000_000_000), 10 * COST_UNIT),
        ];
        for (deletion_cost, priority, expected) in table {
            let pod = pod().with(|pod| {
                pod.priority = priority;
                pod.deletion_cost = deletion_cost;
            });
            assert_eq!(pod.eviction_cost(), expected.max(-10 * COST_UNIT));
        }
    }
}
