//! Plans that broke a rule and were not carried out. The same pods give the same plan at every pass, so a finding is
//! logged once and then every ten minutes while it keeps coming back; explanations name it all the time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Time for which a finding that was logged is not logged again.
const QUIET: SignedDuration = SignedDuration::from_mins(10);
/// Time for which one that does not come back is worth explaining.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

/// The findings, by their text.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<String, Occurrence>);

#[derive(Debug)]
struct Occurrence {
    logged: Timestamp,
    last: Timestamp,
}

impl Refused {
    /// Records a finding; returns whether it is to be logged now.
    pub(super) fn note(&mut self, finding: &str, now: Timestamp) -> bool {
        self.0.retain(|_, occurrence| now.duration_since(occurrence.last) < KEPT);
        if let Some(occurrence) = self.0.get_mut(finding) {
            occurrence.last = now;
            let quiet = now.duration_since(occurrence.logged) < QUIET;
            if !quiet {
                occurrence.logged = now;
            }
            return !quiet;
        }
        self.0.insert(finding.to_owned(), Occurrence { logged: now, last: now });
        true
    }

    /// Findings of the time before `now` for which findings are kept.
    pub(super) fn lately(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let recent = self.0.iter().filter(move |(_, occurrence)| now.duration_since(occurrence.last) < KEPT);
        recent.map(|(finding, _)| finding.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes)
    }

    #[test]
    fn a_finding_that_keeps_coming_back_is_logged_now_and_then() {
        let mut refused = Refused::default();
        let logged: Vec<i64> = (0..25).filter(|minute| refused.note("a", at(*minute))).collect();
        assert_eq!(logged, [0, 10, 20]);
        assert!(refused.note("b", at(25)), "another one is news");
        assert!(refused.note("a", at(40)), "and so is one that had gone");
    }

    #[test]
    fn it_is_told_as_long_as_it_comes_back() {
        let mut refused = Refused::default();
        refused.note("a", at(0));
        refused.note("b", at(5));
        assert_eq!(refused.lately(at(9)).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(refused.lately(at(10)).collect::<Vec<_>>(), ["b"]);
    }
}
