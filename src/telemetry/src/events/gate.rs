//! Decides whether an event is news. Pure: the time is passed in.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::later;

use super::Event;
use super::reason::Rate;

/// Memory of what was emitted. Entries are dropped when their period is over, so it holds no more than the
/// distinct events of the last few minutes.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// End of the suppression of each (reason in lower case, dedupe values).
    suppressed: BTreeMap<(String, Vec<String>), Timestamp>,
    buckets: BTreeMap<String, Bucket>,
    swept: Option<Timestamp>,
}

impl Gate {
    /// True when `event` may be emitted at `now`. An event refused by its rate still counts as emitted, so it
    /// does not come back until its period is over (spec disruption 7).
    pub(super) fn admit(&mut self, event: &Event, now: Timestamp) -> bool {
        self.sweep(now);
        let period = event.reason.period();
        if !period.is_zero() {
            let key = (event.reason.name().to_lowercase(), event.dedupe.clone());
            if self.suppressed.get(&key).is_some_and(|until| *until > now) {
                return false;
            }
            self.suppressed.insert(key, later(now, period));
        }
        match event.reason.rate() {
            None => true,
            Some(rate) => self
                .buckets
                .entry(event.reason.name().to_owned())
                .or_insert_with(|| Bucket::full(rate, now))
                .take(rate, now),
        }
    }

    fn sweep(&mut self, now: Timestamp) {
        const EVERY: Duration = Duration::from_mins(1);
        if self.swept.is_none_or(|swept| later(swept, EVERY) <= now) {
            self.suppressed.retain(|_, until| *until > now);
            self.swept = Some(now);
        }
    }
}

/// A token bucket in thousandths of a token, so that it needs no floats.
#[derive(Debug)]
struct Bucket {
    millitokens: i64,
    filled: Timestamp,
}

impl Bucket {
    fn full(rate: Rate, now: Timestamp) -> Self {
        Self { millitokens: i64::from(rate.burst) * 1000, filled: now }
    }

    fn take(&mut self, rate: Rate, now: Timestamp) -> bool {
        let elapsed_ms = now.as_millisecond().saturating_sub(self.filled.as_millisecond()).max(0);
        self.millitokens = elapsed_ms
            .saturating_mul(i64::from(rate.per_second))
            .saturating_add(self.millitokens)
            .min(i64::from(rate.burst) * 1000);
        self.filled = now;
        let admitted = self.millitokens >= 1000;
        if admitted {
            self.millitokens -= 1000;
        }
        admitted
    }
}
