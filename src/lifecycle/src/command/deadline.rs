//! The deadline of a drain that a repair bounds.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Claim;
use karpenter_model::clock::later;
use karpenter_model::names::annotation;

use crate::step::whole_seconds;

/// The deadline to write on `claim`, which is about to be deleted at `now` and whose drain may take `drain`; `None` if it has
/// one that is as early.
pub fn deadline(claim: &Claim, drain: Duration, now: Timestamp) -> Option<String> {
    let at = later(now, drain);
    let set: Option<Timestamp> =
        claim.annotations.get(annotation::TERMINATION_TIMESTAMP).and_then(|text| text.parse().ok());
    set.is_none_or(|set| set > at).then(|| whole_seconds(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim};

    #[test]
    fn the_deadline_is_counted_from_the_deletion_unless_an_earlier_one_is_set() {
        let run = |set: Option<&str>, drain| {
            let mut claim = claim();
            let key = annotation::TERMINATION_TIMESTAMP.to_owned();
            claim.annotations.extend(set.map(|text| (key, text.to_owned())));
            deadline(&claim, Duration::from_secs(drain), at(1000))
        };
        let text = |second| Some(whole_seconds(at(second)));
        assert_eq!(run(None, 600), text(1600));
        assert_eq!(run(None, 0), text(1000), "no drain at all");
        assert_eq!(run(text(1599).as_deref(), 600), None);
        assert_eq!(run(text(1601).as_deref(), 600), text(1600));
        assert_eq!(run(Some("soon"), 600), text(1600));
    }
}
