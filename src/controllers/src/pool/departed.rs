//! Series of pools that are gone: kept until the last changes of their machines have been scraped, then dropped.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karpenter_model::PoolName;

/// Time that the series of a pool outlive it and its machines.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

/// Pools that have series, each with the time since which it is gone; `None` while it is there.
#[derive(Debug, Default)]
pub(super) struct Departed(BTreeMap<PoolName, Option<Timestamp>>);

impl Departed {
    /// Records the pools that are there or have machines; returns those whose series are to be dropped.
    pub(super) fn look(&mut self, present: BTreeSet<PoolName>, now: Timestamp) -> Vec<PoolName> {
        for (_, since) in self.0.iter_mut().filter(|(pool, _)| !present.contains(*pool)) {
            since.get_or_insert(now);
        }
        self.0.extend(present.into_iter().map(|pool| (pool, None)));
        let over =
            |since: &mut Option<Timestamp>| since.is_some_and(|since| now.duration_since(since) >= KEPT);
        self.0.extract_if(.., |_, since| over(since)).map(|(pool, _)| pool).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_dropped_a_while_after_it_and_its_machines_have_gone_unless_it_comes_back() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let present =
            |names: &[&str]| names.iter().map(|name| PoolName::from(*name)).collect::<BTreeSet<_>>();
        let mut departed = Departed::default();
        let steps: [(&[&str], i64, &[&str]); 7] = [
            (&["a", "b", "c"], 0, &[]),
            (&["c"], 1, &[]),
            // The same name again.
            (&["b", "c"], 5, &[]),
            (&["c"], 11, &["a"]),
            // Counted from when it went the second time.
            (&["c"], 20, &[]),
            (&["c"], 21, &["b"]),
            (&["c"], 90, &[]),
        ];
        for (there, minutes, dropped) in steps {
            assert_eq!(departed.look(present(there), at(minutes)), dropped, "after {minutes} minutes");
        }
        assert_eq!(departed.0.len(), 1);
    }
}
