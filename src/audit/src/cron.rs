//! Open windows of budgets, found by asking every minute the window could have opened in.
//!
//! Slower than the planner's evaluator and written from the grammar alone (spec disruption 3.4): two opinions.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use karpenter_model::clock::time_zone;

/// Seconds in a minute and in a day.
const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
/// Days within which a schedule must fire to count as one that ever does.
const HORIZON: i64 = 5 * 366;
/// Names of months and weekdays, in order.
const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const WEEKDAYS: &str = "sun mon tue wed thu fri sat";

/// Minutes, hours, days of the month, months and weekdays that match; whether days were left open.
struct Times {
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
    any_day: bool,
}

/// Returns whether a window of `duration` that opens by `schedule` is open at `now`, in seconds since the epoch; `None` when
/// the schedule cannot be read. One that never opens counts as always open, as the reference has it. A time that clocks skip
/// counts in the minute in which they do.
pub(crate) fn is_open(schedule: &str, duration: Duration, now: i64) -> Option<bool> {
    let (zone, times) = read(schedule)?;
    let length = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let mut minute = now.div_euclid(MINUTE) * MINUTE;
    while minute > now.saturating_sub(length) {
        let shown = on_clock(&zone, minute);
        let midnight = minute - shown.rem_euclid(DAY);
        let steady = on_clock(&zone, midnight) == shown - shown.rem_euclid(DAY);
        if midnight < minute && steady && !times.covers(shown.div_euclid(DAY)) {
            // No minute of this day can match, but what clocks skip before its first.
            minute = midnight;
            continue;
        }
        let first = shown.min(on_clock(&zone, minute - MINUTE) + MINUTE);
        if (first..=shown).step_by(60).any(|shown| times.match_minute(shown)) {
            return Some(true);
        }
        minute -= MINUTE;
    }
    let today = now.saturating_sub(length).div_euclid(DAY);
    Some(!(today..=today + HORIZON).any(|day| times.covers(day)))
}

/// Returns the time that a clock in `zone` shows at `instant`, in seconds since it showed the epoch's midnight.
fn on_clock(zone: &TimeZone, instant: i64) -> i64 {
    let offset = Timestamp::from_second(instant).map_or(0, |instant| zone.to_offset(instant).seconds());
    instant + i64::from(offset)
}

impl Times {
    /// Returns whether the minute a clock shows matches, in seconds since it showed the epoch's midnight.
    fn match_minute(&self, shown: i64) -> bool {
        let has =
            |set: &BTreeSet<u32>, value: i64| u32::try_from(value).is_ok_and(|value| set.contains(&value));
        self.covers(shown.div_euclid(DAY))
            && has(&self.hours, shown.rem_euclid(DAY) / 3_600)
            && has(&self.minutes, shown.rem_euclid(3_600) / MINUTE)
    }

    /// Returns whether `day`, counted from the epoch, matches.
    fn covers(&self, day: i64) -> bool {
        let (month, of_month) = month_and_day(day);
        // The epoch was a Thursday.
        let weekday = u32::try_from((day + 4).rem_euclid(7)).unwrap_or(0);
        let (by_date, by_weekday) = (self.days.contains(&of_month), self.weekdays.contains(&weekday));
        let days = if self.any_day { by_date && by_weekday } else { by_date || by_weekday };
        self.months.contains(&month) && days
    }
}

/// Month and day of the month of a day counted from the epoch, by walking over whole years and months.
fn month_and_day(day: i64) -> (u32, u32) {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let year_of = |year: i64| if leap(year) { 366 } else { 365 };
    let (mut year, mut rest) = (1970, day);
    while rest < 0 {
        year -= 1;
        rest += year_of(year);
    }
    while rest >= year_of(year) {
        rest -= year_of(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (month, u32::try_from(rest).unwrap_or(0) + 1)
}

fn read(schedule: &str) -> Option<(TimeZone, Times)> {
    let schedule = schedule.trim();
    let prefixed = ["CRON_TZ=", "TZ="].iter().find_map(|prefix| schedule.strip_prefix(prefix));
    let (zone, written) = match prefixed.and_then(|rest| rest.split_once(char::is_whitespace)) {
        Some((name, written)) => (time_zone(name)?, written.trim()),
        None => (TimeZone::UTC, schedule),
    };
    let fields = match written {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        written => written,
    };
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
    let any = |field: &str| field.split(',').any(|part| matches!(part, "*" | "?" | "*/1" | "?/1"));
    let times = Times {
        minutes: values(minutes, 0, 59, "")?,
        hours: values(hours, 0, 23, "")?,
        days: values(days, 1, 31, "")?,
        months: values(months, 1, 12, MONTHS)?,
        weekdays: values(weekdays, 0, 6, WEEKDAYS)?,
        any_day: any(days) || any(weekdays),
    };
    Some((zone, times))
}

/// The values a field names.
fn values(field: &str, low: u32, high: u32, names: &str) -> Option<BTreeSet<u32>> {
    let value = |text: &str| {
        let text = text.to_ascii_lowercase();
        let spelled = (low..).zip(names.split_whitespace()).find(|(_, name)| **name == text);
        spelled.map(|(number, _)| number).or_else(|| digits(&text))
    };
    let mut all = BTreeSet::new();
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, digits(step)?),
            None => (part, 1),
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*" | "?", _) => (low, high),
            (_, Some((from, to))) => (value(from)?, value(to)?),
            (one, None) if part.contains('/') => (value(one)?, high),
            (one, None) => (value(one)?, value(one)?),
        };
        if step == 0 || from > to || from < low || to > high {
            return None;
        }
        all.extend((from..=to).filter(|value| (value - from) % step == 0));
    }
    Some(all)
}

/// A number without sign.
fn digits(text: &str) -> Option<u32> {
    let all = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_calendars_do() {
        for (day, expected) in [
            (0, (1, 1)),
            (-1, (12, 31)),
            (11_016, (2, 29)),
            (20_513, (3, 1)),
            (21_243, (2, 29)),
            (47_540, (2, 28)),
            (47_541, (3, 1)),
        ] {
            assert_eq!(month_and_day(day), expected, "{day}");
        }
    }
}
