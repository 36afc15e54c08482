//! A large backlog is planned in slices: each pass looks at a bounded number of pods, and the next one goes on where
//! it stopped.
//!
//! Pods are served in rounds, the oldest first. A round ends with the youngest pod there was when it began, so pods
//! that arrive later wait for the next round and cannot hold up those that wait already: a pod is looked at again
//! after at most one full round, however many arrive.
//!
//! Pods that have a place and are not bound yet take part in every pass, on top of its slice: without them the
//! nodes that come up for them would look free.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{Pod, PodKey, Report};

/// Position of a pod in the order of service.
type Place = (Timestamp, PodKey);

/// Order in which pending pods are served. Carried from pass to pass, never persisted: after a restart a new round begins.
#[derive(Debug, Clone, Default)]
pub struct Backlog {
    /// The last pod that was served.
    after: Option<Place>,
    /// The last pod of the round.
    until: Option<Place>,
    /// Pods that got a place in the last pass.
    placed: BTreeSet<PodKey>,
}

impl Backlog {
    /// The pods of `pending` that have a place, and at most `most` of those whose turn it is; all of them when there
    /// are no more than that. The others are left out of the pass: nothing is decided or reported about them.
    pub fn admit(&mut self, pending: &[Arc<Pod>], most: usize) -> Vec<Arc<Pod>> {
        let (mut admitted, waiting): (Vec<_>, Vec<_>) =
            pending.iter().cloned().partition(|pod| self.placed.contains(&pod.key));
        if waiting.len() <= most {
            // No round is under way where all are admitted. A later one that began at this place would make
            // the oldest pods wait.
            (self.after, self.until) = (None, None);
            return pending.to_vec();
        }
        admitted.extend(self.slice(&waiting, most));
        admitted
    }

    /// Records which pods of a pass got a place.
    pub fn planned(&mut self, report: &Report) {
        let placed = report.pods.iter().filter(|(_, outcome)| outcome.is_placed());
        self.placed = placed.map(|(pod, _)| pod.clone()).collect();
    }

    fn slice(&mut self, waiting: &[Arc<Pod>], most: usize) -> Vec<Arc<Pod>> {
        let mut queue: Vec<(Place, &Arc<Pod>)> = waiting.iter().map(|pod| (place(pod), pod)).collect();
        queue.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut admitted = self.next(&queue, most);
        if admitted.len() < most {
            // The round is over: the rest of the pass is the beginning of the next, up to those just served.
            let served = admitted.first().map(|pod| place(pod));
            (self.after, self.until) = (None, queue.last().map(|(place, _)| place.clone()));
            queue.retain(|(place, _)| served.as_ref().is_none_or(|served| place < served));
            admitted.extend(self.next(&queue, most - admitted.len()));
        }
        admitted
    }

    /// The next `most` pods of the round.
    fn next(&mut self, queue: &[(Place, &Arc<Pod>)], most: usize) -> Vec<Arc<Pod>> {
        let waiting = queue.iter().skip_while(|(place, _)| self.after.as_ref() >= Some(place));
        // Without a round the end is `None`, which is less than every place: nothing is admitted, and a round
        // begins.
        let waiting = waiting.take_while(|(place, _)| Some(place) <= self.until.as_ref());
        let admitted: Vec<&(Place, &Arc<Pod>)> = waiting.take(most).collect();
        if let Some((last, _)) = admitted.last() {
            self.after = Some(last.clone());
        }
        admitted.into_iter().map(|(_, pod)| Arc::clone(pod)).collect()
    }
}

fn place(pod: &Pod) -> Place {
    (pod.created_at, pod.key.clone())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use karpenter_model::{BinId, PodOutcome};
    use proptest::prelude::*;

    use super::*;

    fn pod(number: usize, created_at: i64) -> Arc<Pod> {
        let created_at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(created_at);
        Arc::new(Pod::pending(PodKey::new("default", &format!("p{number:04}")), "uid", created_at))
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| pod.key.name.as_str()).collect()
    }

    #[test]
    fn pods_that_have_a_place_take_part_in_every_pass_until_they_are_bound() {
        let mut backlog = Backlog::default();
        let pending: Vec<_> = (0..5).map(|number| pod(number, 10)).collect();
        let first = backlog.admit(&pending, 2);
        let placed = |pods: &[Arc<Pod>]| Report {
            pods: pods.iter().map(|pod| (pod.key.clone(), PodOutcome::New(BinId(1)))).collect(),
            ..Report::default()
        };
        backlog.planned(&placed(&first));
        assert_eq!(names(&backlog.admit(&pending, 2)), ["p0000", "p0001", "p0002", "p0003"]);
        // The first two were bound.
        assert_eq!(names(&backlog.admit(&pending[2..], 2)), ["p0004", "p0002"]);
    }

    #[test]
    fn rounds_go_on_where_the_last_pass_stopped_and_leave_late_pods_for_the_next() {
        let mut backlog = Backlog::default();
        let mut pending: Vec<_> = (0..5).map(|number| pod(number, 10)).collect();
        assert_eq!(names(&backlog.admit(&pending, 2)), ["p0000", "p0001"]);
        pending.push(pod(9, 20));
        assert_eq!(names(&backlog.admit(&pending, 2)), ["p0002", "p0003"]);
        assert_eq!(names(&backlog.admit(&pending, 2)), ["p0004", "p0000"], "the next round begins at once");
        assert_eq!(names(&backlog.admit(&pending, 2)), ["p0001", "p0002"]);
        assert_eq!(names(&backlog.admit(&pending, 4)), ["p0003", "p0004", "p0009", "p0000"]);
        assert_eq!(backlog.admit(&pending, 6).len(), 6, "all fit");
    }

    proptest! {
        /// However many pods arrive, one that waits is served before two rounds of those that waited with it are over.
        #[test]
        fn no_pod_starves(
            waiting in 1usize..40,
            most in 1usize..12,
            arrivals in prop::collection::vec(0usize..30, 1..60),
        ) {
            let mut backlog = Backlog::default();
            let mut pending: Vec<_> = (0..waiting).map(|number| pod(number, 0)).collect();
            // Passes since each pod was served, and how many pods there were then.
            let mut since: Vec<(usize, usize)> = vec![(0, waiting); waiting];
            for (pass, arriving) in arrivals.into_iter().enumerate() {
                let admitted = backlog.admit(&pending, most);
                prop_assert_eq!(admitted.len(), most.min(pending.len()), "no pass is left empty");
                for (number, one) in pending.iter().enumerate() {
                    let (passes, then) = since[number];
                    let served = admitted.iter().any(|other| other.key == one.key);
                    since[number] = if served { (0, pending.len()) } else { (passes + 1, then) };
                    // The rest of this round, and the next, whose pods are there when this one ends.
                    let bound = then.div_ceil(most) + (then + 30 * (then.div_ceil(most) + 1)).div_ceil(most) + 2;
                    prop_assert!(since[number].0 <= bound, "{} starves in pass {}", number, pass);
                }
                for _ in 0..arriving {
                    pending.push(pod(pending.len(), i64::try_from(pass).unwrap_or(0) + 1));
                    since.push((0, pending.len()));
                }
            }
        }
    }
}
