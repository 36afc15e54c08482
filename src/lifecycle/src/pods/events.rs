//! Pod events: when something last came to or left a node (spec disruption 1.12).
//!
//! The time is what `consolidateAfter` counts from. Unlike the reference, a restart does not move it: pods that
//! the stored time accounts for are no news (spec disruption 9.14).

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Claim, Pod};

use crate::step::{Effect, Step};

/// Shortest time between two writes for one claim; below the validation delay of disruption (15 s).
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// Event of the watch about a pod.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// The pod is there since the watch began.
    Listed(&'a Pod),
    /// The pod appeared.
    Created(&'a Pod),
    /// The pod changed.
    Updated {
        /// Before.
        old: &'a Pod,
        /// After.
        new: &'a Pod,
    },
    /// The pod is gone.
    Deleted(&'a Pod),
}

/// Records the event on the claim of the pod's node, if it is one that counts.
pub fn step(claim: &Claim, seen: Seen<'_>, now: Timestamp) -> Step {
    if !counts(claim, seen) {
        return Step::idle();
    }
    match claim.last_pod_event {
        Some(last) if since(last, now) < WRITE_INTERVAL => Step::idle(),
        _ => Step::of([Effect::RecordPodEvent(now)]),
    }
}

/// True when a pod came to a node or left it: newly bound, newly terminal, newly terminating, created, or deleted
/// without any of the last two before. The object of a pod that has left already is of no consequence to its node:
/// Jobs are cleaned up hours after they have ended.
fn counts(claim: &Claim, seen: Seen<'_>) -> bool {
    let pod = match seen {
        Seen::Listed(pod) | Seen::Created(pod) | Seen::Deleted(pod) | Seen::Updated { new: pod, .. } => pod,
    };
    // Daemons come and go with the node, which is no use of it.
    if pod.node_name.is_none() || pod.is_daemon() {
        return false;
    }
    match seen {
        Seen::Created(_) => true,
        Seen::Deleted(last) => !last.is_terminal() && !last.is_terminating(),
        Seen::Listed(pod) => {
            // The kubelet starts a pod after it was bound, so its start would be later than the event of its binding.
            let bound = pod.bound_at.or(pod.started_at).unwrap_or(pod.created_at);
            // Within the interval nothing was written for a pod that came, so the stored time stands for it too.
            claim.last_pod_event.is_none_or(|last| since(last, bound) >= WRITE_INTERVAL)
        }
        Seen::Updated { old, new } => {
            old.node_name.is_none()
                || (!old.is_terminal() && new.is_terminal())
                || (!old.is_terminating() && new.is_terminating())
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::{PodKey, PodOwner, PodPhase};

    use super::*;
    use crate::fixture::{at, claim};

    fn bound() -> Pod {
        let mut pod = Pod::pending(PodKey::new("ns", "a"), "uid", at(0));
        pod.node_name = Some("node".into());
        pod
    }

    fn recorded(claim: &Claim, seen: Seen<'_>) -> bool {
        step(claim, seen, at(100)) == Step::of([Effect::RecordPodEvent(at(100))])
    }

    #[test]
    fn binding_ending_and_creating_count_and_other_updates_do_not() {
        let claim = claim();
        let unbound = Pod { node_name: None, ..bound() };
        let terminal = Pod { phase: PodPhase::Succeeded, ..bound() };
        let terminating = Pod { deletion: Some(at(1)), ..bound() };
        let labelled = bound().with(|pod| pod.priority = Some(1));
        let old = bound();
        assert!(recorded(&claim, Seen::Created(&old)));
        assert!(recorded(&claim, Seen::Updated { old: &unbound, new: &old }));
        assert!(recorded(&claim, Seen::Updated { old: &old, new: &terminal }));
        assert!(recorded(&claim, Seen::Updated { old: &old, new: &terminating }));
        assert!(!recorded(&claim, Seen::Updated { old: &old, new: &labelled }));
        assert!(!recorded(&claim, Seen::Updated { old: &terminating, new: &terminating }));
        assert!(!recorded(&claim, Seen::Created(&unbound)));
        assert!(!recorded(&claim, Seen::Created(&bound().with(|pod| pod.owner = PodOwner::DaemonSet))));
    }

    #[test]
    fn the_end_of_a_pod_counts_once_and_the_removal_of_its_object_only_if_it_came_first() {
        let claim = claim();
        let ended = |phase| Pod { phase, ..bound() };
        let terminating = Pod { deletion: Some(at(1)), ..bound() };
        assert!(recorded(&claim, Seen::Deleted(&bound())), "deleted by force");
        assert!(!recorded(&claim, Seen::Deleted(&ended(PodPhase::Succeeded))), "a Job is cleaned up");
        assert!(!recorded(&claim, Seen::Deleted(&ended(PodPhase::Failed))));
        assert!(!recorded(&claim, Seen::Deleted(&terminating)), "it left when it was asked to");
    }

    #[test]
    fn a_second_event_within_ten_seconds_is_ignored() {
        let pod = bound();
        for (last, written) in [(91, false), (90, true), (100, false), (0, true)] {
            let claim = Claim { last_pod_event: Some(at(last)), ..claim() };
            assert_eq!(recorded(&claim, Seen::Created(&pod)), written, "last event at {last}");
        }
    }

    #[test]
    fn pods_found_at_start_are_news_only_if_the_stored_time_does_not_account_for_them() {
        let pod = Pod { bound_at: Some(at(50)), started_at: Some(at(70)), ..bound() };
        for (last, written) in [
            (None, true),
            (Some(at(40)), true),
            (Some(at(41)), false),
            (Some(at(50)), false),
            (Some(at(60)), false),
        ] {
            let claim = Claim { last_pod_event: last, ..claim() };
            assert_eq!(recorded(&claim, Seen::Listed(&pod)), written, "{last:?}");
        }
    }

    #[test]
    fn a_pod_found_at_start_without_a_time_of_binding_came_when_it_started() {
        let pod = Pod { bound_at: None, started_at: Some(at(50)), ..bound() };
        for (last, written) in [(at(40), true), (at(50), false)] {
            let claim = Claim { last_pod_event: Some(last), ..claim() };
            assert_eq!(recorded(&claim, Seen::Listed(&pod)), written, "{last}");
        }
    }
}
