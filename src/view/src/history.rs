//! Cost of the cluster during the last hour, minute by minute, for as long as it was watched.
//!
//! A minute's figure is the mean over that minute, weighted by time: a machine that ran for half of it counts half.

use std::collections::VecDeque;

use jiff::Timestamp;
use karpenter_model::Price;

/// Minutes that are kept.
const MINUTES: usize = 60;
const MINUTE_MS: i64 = 60_000;

/// Costs of the last hour.
#[derive(Clone, Debug, Default)]
pub struct CostHistory {
    /// Minutes that were watched, the oldest first; the last one is not over.
    minutes: VecDeque<Minute>,
    /// Time when the cost was last recorded, in milliseconds of the epoch, and the cost since.
    last: Option<(i64, Price)>,
}

#[derive(Clone, Copy, Debug)]
struct Minute {
    /// Minutes of the epoch.
    number: i64,
    /// Nano-dollars per hour, times milliseconds.
    weighted: i128,
    milliseconds: i64,
}

impl CostHistory {
    /// Records that the cluster costs `price` per hour from `now` on. Clocks that go back change nothing.
    pub fn record(&mut self, now: Timestamp, price: Price) {
        let now = now.as_millisecond();
        if let Some((mut at, before)) = self.last {
            while at < now {
                let end = now.min((at.div_euclid(MINUTE_MS) + 1) * MINUTE_MS);
                self.add(at.div_euclid(MINUTE_MS), end - at, before);
                at = end;
            }
        }
        if self.last.is_none_or(|(at, _)| at <= now) {
            self.last = Some((now, price));
        }
    }

    fn add(&mut self, number: i64, milliseconds: i64, price: Price) {
        if self.minutes.back().is_none_or(|minute| minute.number != number) {
            self.minutes.push_back(Minute { number, weighted: 0, milliseconds: 0 });
        }
        if self.minutes.len() > MINUTES {
            self.minutes.pop_front();
        }
        if let Some(minute) = self.minutes.back_mut() {
            minute.weighted += i128::from(price.nanos()) * i128::from(milliseconds);
            minute.milliseconds += milliseconds;
        }
    }

    /// The mean cost per hour of each minute, the oldest first.
    pub(crate) fn per_minute(&self) -> Vec<Price> {
        self.minutes.iter().map(|it| mean(it.weighted, it.milliseconds)).collect()
    }

    /// Returns the money spent in the time that is kept.
    pub(crate) fn spent(&self) -> Price {
        let weighted: i128 = self.minutes.iter().map(|minute| minute.weighted).sum();
        mean(weighted, 60 * MINUTE_MS)
    }
}

fn mean(weighted: i128, milliseconds: i64) -> Price {
    let nanos = weighted / i128::from(milliseconds.max(1));
    Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn dollars(dollars: i64) -> Price {
        Price::from_nanos(dollars * 1_000_000_000)
    }

    #[test]
    fn a_minute_is_the_mean_over_its_time() {
        let mut history = CostHistory::default();
        history.record(at(0), dollars(2));
        assert!(history.per_minute().is_empty(), "no time has passed");
        history.record(at(30), dollars(4));
        history.record(at(90), dollars(0));
        history.record(at(120), dollars(0));
        assert_eq!(history.per_minute(), [dollars(3), dollars(2)]);
        // 30 s at 2 dollars an hour and 60 s at 4.
        assert_eq!(history.spent().nanos(), (30 * 2 + 60 * 4) * 1_000_000_000 / 3600);
    }

    #[test]
    fn an_hour_is_kept() {
        let mut history = CostHistory::default();
        history.record(at(0), dollars(1));
        history.record(at(7200), dollars(1));
        assert_eq!(history.per_minute().len(), MINUTES);
        assert_eq!(history.spent(), dollars(1));
    }

    #[test]
    fn a_clock_that_goes_back_changes_nothing() {
        let mut history = CostHistory::default();
        history.record(at(60), dollars(1));
        history.record(at(0), dollars(9));
        history.record(at(120), dollars(1));
        assert_eq!(history.per_minute(), [dollars(1)]);
    }
}
