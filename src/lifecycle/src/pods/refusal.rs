//! Pods whose place broke a rule when the plan was checked, and when they are planned for again.
//!
//! The planner is deterministic: asked the same it answers the same, and the second opinion refuses it again. So a pod
//! whose place was refused is left out of plans for a while, with a delay that doubles, and the others are planned for
//! as if it were not there. One that is gone, or has got a node, is forgotten.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_model::{Pod, PodUid};

use crate::pods::promise::{HOLD_MAX, HOLD_MIN};

/// Pods whose places were refused.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<PodUid, Record>);

#[derive(Debug)]
struct Record {
    times: u32,
    held: Held,
}

/// A pod that is not planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The rule its place broke.
    pub why: String,
    /// Time at which it is planned for again.
    pub until: Timestamp,
}

impl Refusals {
    /// Records that the place of `pod` was refused at `now` because of `why`; returns until when it is held.
    pub fn refused(&mut self, pod: &Pod, why: &str, now: Timestamp) -> Timestamp {
        let times = self.0.get(&pod.uid).map_or(0, |record| record.times).saturating_add(1);
        let until = now + HOLD_MIN.saturating_mul(2_u32.saturating_pow(times - 1)).min(HOLD_MAX);
        let held = Held { why: why.to_owned(), until };
        self.0.insert(pod.uid.clone(), Record { times, held });
        until
    }

    /// Reason and time until which `pod` is not to be planned for, if it is held at `now`.
    pub fn held(&self, pod: &Pod, now: Timestamp) -> Option<&Held> {
        self.0.get(&pod.uid).map(|record| &record.held).filter(|held| held.until > now)
    }

    /// Forgets every pod that `waits` does not contain.
    pub fn keep(&mut self, waits: impl Fn(&PodUid) -> bool) {
        self.0.retain(|uid, _| waits(uid));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_model::PodKey;

    use super::*;

    #[test]
    fn a_refused_pod_is_held_longer_each_time_and_forgotten_once_it_is_gone() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + Duration::from_mins(minutes.unsigned_abs());
        let pod = |name: &str| Pod::pending(PodKey::new("default", name), name, at(0));
        let mut refusals = Refusals::default();
        let (odd, other) = (pod("odd"), pod("other"));
        assert_eq!(refusals.held(&odd, at(0)), None);
        let mut now = 0;
        for minutes in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(refusals.refused(&odd, "Spread: too many", at(now)), at(now + minutes));
            let held = refusals.held(&odd, at(now + minutes - 1)).expect("it is held");
            assert_eq!((held.why.as_str(), held.until), ("Spread: too many", at(now + minutes)));
            assert_eq!(refusals.held(&other, at(now)), None, "no other pod is");
            now += minutes;
            assert_eq!(refusals.held(&odd, at(now)), None, "its time has come");
        }
        refusals.keep(|uid| *uid == "odd");
        assert_eq!(refusals.refused(&odd, "", at(now)), at(now + 60), "it still waits");
        refusals.keep(|_| false);
        assert_eq!(refusals.refused(&odd, "", at(now)), at(now + 2), "another pod of that uid would be new");
    }
}
