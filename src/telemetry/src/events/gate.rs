//! Decides whether an event is news. Pure: the time is passed in.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::later;

use super::Event;
use super::reason::Rate;

/// Reason in lower case, and dedupe values.
pub(super) type Key = (String, Vec<String>);

/// Memory of what was emitted. Entries are dropped when their periods are over, so it holds no more than the
/// distinct events of the last half hour.
#[derive(Debug, Default)]
pub(super) struct Gate {
    emitted: BTreeMap<Key, Emitted>,
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
            let key = Self::key(event);
            let text = hash(&event.message);
            if self.emitted.get(&key).is_some_and(|emitted| emitted.suppresses(text, now)) {
                return false;
            }
            let unchanged_until = later(now, event.reason.unchanged_period());
            self.emitted.insert(key, Emitted { text, until: later(now, period), unchanged_until });
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

    /// Key by which two events are the same one.
    pub(super) fn key(event: &Event) -> Key {
        (event.reason.name().to_lowercase(), event.dedupe.clone())
    }

    /// An admitted event was not emitted after all.
    pub(super) fn forget(&mut self, key: &Key) {
        self.emitted.remove(key);
    }

    fn sweep(&mut self, now: Timestamp) {
        const EVERY: Duration = Duration::from_mins(1);
        if self.swept.is_none_or(|swept| later(swept, EVERY) <= now) {
            self.emitted.retain(|_, emitted| emitted.unchanged_until > now);
            self.swept = Some(now);
        }
    }
}

/// Remembered state of an event.
#[derive(Debug)]
struct Emitted {
    /// Hash of its message.
    text: u64,
    /// End of the suppression of equal events.
    until: Timestamp,
    /// End of the suppression of those with the same message.
    unchanged_until: Timestamp,
}

impl Emitted {
    fn suppresses(&self, text: u64, now: Timestamp) -> bool {
        self.until > now || (self.text == text && self.unchanged_until > now)
    }
}

fn hash(message: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.hash(&mut hasher);
    hasher.finish()
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
