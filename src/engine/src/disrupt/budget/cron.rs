//! The cron schedules of budget windows: the grammar of the reference's parser (spec disruption 3.4), in UTC, or in the time
//! zone that stands before the five fields as `CRON_TZ=Europe/Berlin` or `TZ=Europe/Berlin`.
//!
//! A time that clocks skip is a hit at the moment in which they do, and one that they show twice is two hits: a window
//! that protects a night is never left out, and one of every minute has no hole.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use karpenter_model::clock::time_zone;

/// Days ahead in which a hit is searched; a schedule without one counts as always open.
const HORIZON_DAYS: u32 = 5 * 366;
/// Largest number of adjacent hits or days that are searched for the end of the last window: more than the
/// horizon has days.
const MERGED: u32 = HORIZON_DAYS + 1_000;

/// Reason why a schedule cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CronError(String);

impl std::fmt::Display for CronError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The values one field allows, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// Written with a star and no step above one.
    star: bool,
}

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Time zone in which its times are read.
    zone: TimeZone,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads five fields or one of the macros, with or without a time zone before them.
    pub(crate) fn parse(text: &str) -> Result<Self, CronError> {
        let (zone, expression) = zoned(text)?;
        let expanded = match expression {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            fields => fields,
        };
        let error = |part: &str| CronError(format!("schedule `{text}` has an invalid field `{part}`"));
        let fields: Vec<&str> = expanded.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError(format!("schedule `{text}` needs five fields or a macro such as @daily")));
        };
        let parse =
            |part: &str, low, high, names: &[&str]| field(part, low, high, names).ok_or_else(|| error(part));
        Ok(Self {
            zone,
            minute: parse(minute, 0, 59, &[])?,
            hour: parse(hour, 0, 23, &[])?,
            day: parse(day, 1, 31, &[])?,
            month: parse(month, 1, 12, &MONTHS)?,
            // Sunday is 0 and never 7, as in the parser of the reference (spec disruption 3.4).
            weekday: parse(weekday, 0, 6, &WEEKDAYS)?,
        })
    }

    /// Returns whether a window of `duration` that opened at some hit is open at `now`: hit <= now < hit + duration.
    pub(crate) fn is_open(&self, duration: Duration, now: Timestamp) -> bool {
        // A window that is longer than clocks reach back is always open.
        let Ok(duration) = SignedDuration::try_from(duration) else { return true };
        let Ok(checkpoint) = now.checked_sub(duration) else { return true };
        // A schedule that never fires counts as open, as in the reference (spec disruption 3.4).
        self.next(checkpoint).is_none_or(|hit| hit <= now)
    }

    /// Returns when the window that is open at `now` closes, windows that overlap or touch counting as one; `None`
    /// when none is open, or none closes within the horizon.
    pub(crate) fn closes(&self, duration: Duration, now: Timestamp) -> Option<Timestamp> {
        let duration = SignedDuration::try_from(duration).ok()?;
        let mut hit = self.next(now.checked_sub(duration).ok()?).filter(|hit| *hit <= now)?;
        // A day may have a thousand hits. Where they all run into each other, the last one stands for them.
        let days_are_whole = SignedDuration::from_mins(self.longest_gap().into()) <= duration;
        for _ in 0..MERGED {
            if days_are_whole {
                hit = self.last_of_day(hit)?;
            }
            let end = hit.checked_add(duration).ok()?;
            match self.next(hit) {
                Some(next) if next <= end => hit = next,
                Some(_) | None => return Some(end),
            }
        }
        None
    }

    /// The most minutes from one hit to the next of the same day; zero when a day has one hit.
    fn longest_gap(&self) -> u32 {
        let longest = |field: Field, unit: u32| {
            let values: Vec<u32> = field.values().collect();
            values.windows(2).map(|pair| (pair[1] - pair[0]) * unit).max()
        };
        let span = self.minute.values().last().unwrap_or(0) - self.minute.values().next().unwrap_or(0);
        let over_hours = longest(self.hour, 60).map(|minutes| minutes - span);
        longest(self.minute, 1).max(over_hours).unwrap_or(0)
    }

    /// The last hit of the day of `hit`, or the last one before clocks change on that day. `hit` itself if no clock shows
    /// it: what was skipped is as far from the next hit as it happens to be.
    fn last_of_day(&self, hit: Timestamp) -> Option<Timestamp> {
        let offset = self.zone.to_offset(hit);
        let shown = offset.to_datetime(hit);
        if !self.shows(shown) {
            return Some(hit);
        }
        let date = shown.date();
        let mut last = date.to_datetime(self.last_time(None)?);
        if let Some(change) = self.zone.following(hit).next()
            && let shown = offset.to_datetime(change.timestamp())
            && shown <= last
        {
            last = date.to_datetime(self.last_time(Some(shown.time()))?);
        }
        offset.to_timestamp(last).ok()
    }

    /// Returns when a window opens or closes next after `now`; `None` when none does within the horizon.
    pub(crate) fn changes(&self, duration: Duration, now: Timestamp) -> Option<Timestamp> {
        if self.is_open(duration, now) { self.closes(duration, now) } else { self.next(now) }
    }

    /// The first hit strictly after `instant`, within the horizon.
    fn next(&self, instant: Timestamp) -> Option<Timestamp> {
        let horizon = instant.checked_add(SignedDuration::from_hours(24 * i64::from(HORIZON_DAYS))).ok()?;
        let mut offset = self.zone.to_offset(instant);
        let mut shown = offset.to_datetime(instant);
        let mut changes = self.zone.following(instant);
        loop {
            let hit = self.next_shown(shown).and_then(|hit| offset.to_timestamp(hit).ok());
            // Up to the horizon the clock does not change again, so the hit stands.
            let Some(change) = changes.next().filter(|change| change.timestamp() <= horizon) else {
                return hit;
            };
            let changed = change.timestamp();
            // A hit after the change was computed with an offset that does not hold then.
            if hit.is_some_and(|hit| hit < changed) {
                return hit;
            }
            let before = offset.to_datetime(changed);
            offset = change.offset();
            shown = offset.to_datetime(changed);
            // Clocks that go forward skip times: a hit among them, or at the time they show then, is at the change.
            let skipped = before.min(shown).checked_sub(1.minute()).ok()?;
            if self.next_shown(skipped).is_some_and(|hit| hit <= shown) {
                return Some(changed);
            }
        }
    }

    /// The first hit strictly after `shown`, within the horizon, on a clock that never changes.
    fn next_shown(&self, shown: DateTime) -> Option<DateTime> {
        let mut date = shown.date();
        let mut after = Some(shown.time());
        for _ in 0..HORIZON_DAYS {
            if self.covers(date)
                && let Some(time) = self.first_time(after)
            {
                return Some(date.to_datetime(time));
            }
            date = date.checked_add(1.day()).ok()?;
            after = None;
        }
        None
    }

    /// The first hit of a day, strictly after `after` if given.
    fn first_time(&self, after: Option<Time>) -> Option<Time> {
        let (from, minute) = after.map_or((0, 0), |time| (time.hour(), time.minute() + 1));
        let at = |hour, minutes_from| Some(Time::constant(hour, self.minute.first(minutes_from)?, 0, 0));
        let same_hour = self.hour.has(from).then(|| at(from, minute)).flatten();
        same_hour.or_else(|| at(self.hour.first(from + 1)?, 0))
    }

    /// The last hit of a day, strictly before `before` if given.
    fn last_time(&self, before: Option<Time>) -> Option<Time> {
        let (until, minute) = before.map_or((24, 0), |time| (time.hour(), time.minute()));
        let at = |hour, minutes_until| Some(Time::constant(hour, self.minute.last(minutes_until)?, 0, 0));
        let same_hour = self.hour.has(until).then(|| at(until, minute)).flatten();
        same_hour.or_else(|| at(self.hour.last(until)?, 60))
    }

    /// Returns whether a clock that shows `time` shows a hit.
    fn shows(&self, time: DateTime) -> bool {
        self.covers(time.date()) && self.hour.has(time.hour()) && self.minute.has(time.minute())
    }

    /// Day of month and weekday must both match when one of them is a star, otherwise either is enough.
    fn covers(&self, date: Date) -> bool {
        let day = self.day.has(date.day());
        let weekday = self.weekday.has(date.weekday().to_sunday_zero_offset());
        let days = if self.day.star || self.weekday.star { day && weekday } else { day || weekday };
        self.month.has(date.month()) && days
    }
}

impl Field {
    /// The values in ascending order.
    fn values(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |value| self.bits & (1 << value) != 0)
    }

    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }

    /// The smallest value from `value` on.
    fn first(self, value: i8) -> Option<i8> {
        let rest = self.bits.checked_shr(u32::try_from(value).ok()?)?;
        (rest != 0).then(|| i8::try_from(rest.trailing_zeros()).ok()?.checked_add(value)).flatten()
    }

    /// The largest value below `value`.
    fn last(self, value: i8) -> Option<i8> {
        let rest = self.bits & !u64::MAX.checked_shl(u32::try_from(value).ok()?)?;
        rest.checked_ilog2().and_then(|value| i8::try_from(value).ok())
    }
}

/// The time zone of a schedule, and what follows it.
fn zoned(text: &str) -> Result<(TimeZone, &str), CronError> {
    let named = text.trim();
    let Some(rest) = named.strip_prefix("CRON_TZ=").or_else(|| named.strip_prefix("TZ=")) else {
        return Ok((TimeZone::UTC, named));
    };
    let (name, expression) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let zone = time_zone(name).ok_or_else(|| {
        CronError(format!(
            "schedule `{text}` is in the time zone `{name}`, which the tz database does not have"
        ))
    })?;
    Ok((zone, expression.trim_start()))
}

/// A comma list of `*`, `?`, `N`, `N-M`, each with an optional `/step`; `N/step` runs to the end.
fn field(text: &str, low: u32, high: u32, names: &[&str]) -> Option<Field> {
    let mut whole = Field { bits: 0, star: false };
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (part, None),
        };
        let star = matches!(range, "*" | "?");
        let value = |text| named(text, low, names);
        let (first, last) = match range.split_once('-') {
            _ if star => (low, high),
            Some((first, last)) => (value(first)?, value(last)?),
            None if step.is_some() => (value(range)?, high),
            None => (value(range)?, value(range)?),
        };
        let step = step.unwrap_or(1);
        if step == 0 || first < low || last > high || first > last {
            return None;
        }
        // `*/2` is no star to the rule about days, and `*/1` is one (spec disruption 3.4).
        whole.star |= star && step == 1;
        for value in (first..=last).step_by(usize::try_from(step).ok()?) {
            whole.bits |= 1 << value;
        }
    }
    Some(whole)
}

fn named(text: &str, low: u32, names: &[&str]) -> Option<u32> {
    let position = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match position {
        Some(position) => u32::try_from(position).ok().map(|position| position + low),
        None => number(text),
    }
}

fn number(text: &str) -> Option<u32> {
    // `parse` alone would accept a leading `+`.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn next_hit_is_strictly_after_and_in_utc() {
        let table = [
            ("0 9 * * *", "2026-01-01T08:59:59Z", "2026-01-01T09:00:00Z"),
            ("0 9 * * *", "2026-01-01T09:00:00Z", "2026-01-02T09:00:00Z"),
            ("*/15 * * * *", "2026-01-01T00:00:00.5Z", "2026-01-01T00:15:00Z"),
            ("5/20 * * * *", "2026-01-01T00:06:00Z", "2026-01-01T00:25:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 * * MON-fri", "2026-01-02T12:00:00Z", "2026-01-05T00:00:00Z"),
            ("0 0 1 jan,Mar *", "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z"),
            // A star on either side: both must match. No star: either does.
            ("0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 */1 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 */2 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 ? * 1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
            ("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ];
        for (text, after, expected) in table {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.next(at(after)), Some(at(expected)), "{text} after {after}");
        }
    }

    #[test]
    fn windows_include_their_start_and_exclude_their_end() {
        let schedule = Schedule::parse("0 9 * * *").unwrap();
        let table = [
            ("2026-01-01T08:59:59Z", false),
            ("2026-01-01T09:00:00Z", true),
            ("2026-01-01T16:59:59Z", true),
            ("2026-01-01T17:00:00Z", false),
        ];
        for (now, open) in table {
            assert_eq!(schedule.is_open(Duration::from_hours(8), at(now)), open, "{now}");
        }
        assert!(schedule.is_open(Duration::from_hours(25), at("2026-01-01T08:00:00Z")), "windows overlap");
    }

    #[test]
    fn the_end_of_a_window_is_the_end_of_all_it_runs_into() {
        let closes = |text: &str, hours, now: &str| {
            Schedule::parse(text).unwrap().closes(Duration::from_hours(hours), at(now))
        };
        let end = |text| Some(at(text));
        assert_eq!(closes("0 9 * * *", 8, "2026-01-01T10:00:00Z"), end("2026-01-01T17:00:00Z"));
        assert_eq!(closes("0 9 * * *", 8, "2026-01-01T17:00:00Z"), None, "closed already");
        assert_eq!(
            closes("0 9,17 * * *", 8, "2026-01-01T10:00:00Z"),
            end("2026-01-02T01:00:00Z"),
            "they touch"
        );
        assert_eq!(
            closes("0 9,16 * * *", 8, "2026-01-01T10:00:00Z"),
            end("2026-01-02T00:00:00Z"),
            "they overlap"
        );
        assert_eq!(closes("* * * * *", 1, "2026-01-01T10:00:00Z"), None, "always open");
        assert_eq!(closes("0 0 * * mon-fri", 24, "2026-01-05T10:00:00Z"), end("2026-01-10T00:00:00Z"));
    }

    #[test]
    fn windows_of_many_hits_close_however_many_there_are() {
        let minutes = Duration::from_mins;
        let table = [
            ("* * * * mon-fri", minutes(1), "2026-01-05T10:00:00Z", Some("2026-01-10T00:00:00Z")),
            ("* * * * mon-fri", minutes(10), "2026-01-05T10:00:30Z", Some("2026-01-10T00:09:00Z")),
            ("*/5 * 1-30 * *", minutes(5), "2026-01-05T10:00:00Z", Some("2026-01-31T00:00:00Z")),
            // Those of a day do not run into each other.
            ("*/5 * * * *", minutes(4), "2026-01-05T10:02:00Z", Some("2026-01-05T10:04:00Z")),
            ("0-50 * * * *", minutes(9), "2026-01-05T10:02:00Z", Some("2026-01-05T10:59:00Z")),
            ("0-50 * * * *", minutes(10), "2026-01-05T10:02:00Z", None),
            // Those of a day do, but not those of two.
            ("0-50 9,10 * * *", minutes(10), "2026-01-05T09:02:00Z", Some("2026-01-05T11:00:00Z")),
            ("0 */2 * * *", minutes(120), "2026-01-05T09:02:00Z", None),
        ];
        for (text, duration, now, expected) in table {
            let closes = Schedule::parse(text).unwrap().closes(duration, at(now));
            assert_eq!(closes, expected.map(at), "{text} for {duration:?} at {now}");
        }
    }

    #[test]
    fn a_window_changes_when_it_opens_and_when_it_closes() {
        let table = [
            ("0 9 * * *", "2026-01-01T08:00:00Z", Some("2026-01-01T09:00:00Z")),
            ("0 9 * * *", "2026-01-01T09:00:00Z", Some("2026-01-01T17:00:00Z")),
            ("0 9 * * *", "2026-01-01T17:00:00Z", Some("2026-01-02T09:00:00Z")),
            ("* * * * *", "2026-01-01T17:00:00Z", None),
            ("0 0 31 2 *", "2026-01-01T17:00:00Z", None),
        ];
        for (text, now, expected) in table {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(
                schedule.changes(Duration::from_hours(8), at(now)),
                expected.map(at),
                "{text} at {now}"
            );
        }
    }

    #[test]
    fn a_time_zone_says_what_clocks_show() {
        let table = [
            ("CRON_TZ=Europe/Berlin 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00Z"),
            ("TZ=Europe/Berlin 0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T07:00:00Z"),
            ("TZ=Asia/Kolkata 0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T03:30:00Z"),
            ("TZ=UTC 0 9 * * *", "2026-07-01T00:00:00Z", "2026-07-01T09:00:00Z"),
            ("  TZ=America/New_York   @daily ", "2026-07-01T00:00:00Z", "2026-07-01T04:00:00Z"),
            // The weekday is that of the zone: Monday begins in Sydney on Sunday, in UTC.
            ("TZ=Australia/Sydney 0 8 * * mon", "2026-06-20T00:00:00Z", "2026-06-21T22:00:00Z"),
            // On 2026-03-29 clocks in Berlin go from 2:00 to 3:00, which is 01:00Z.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("TZ=Europe/Berlin 0 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("TZ=Europe/Berlin 30 3 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"),
            ("TZ=Europe/Berlin */15 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
            // On 2026-10-25 they go from 3:00 back to 2:00, which is 01:00Z too.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
            ("TZ=Europe/Berlin 0 3 * * *", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"),
        ];
        for (text, after, expected) in table {
            let schedule = Schedule::parse(text).unwrap();
            assert_eq!(schedule.next(at(after)), Some(at(expected)), "{text} after {after}");
        }
    }

    /// Minute by minute, by what a clock on the wall shows and has skipped since the minute before.
    #[test]
    fn hits_are_what_clocks_show_or_skip() {
        let changes = [
            ("Europe/Berlin", "2026-03-27T00:00:00Z"),
            ("Europe/Berlin", "2026-10-23T00:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-03T00:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-02T00:00:00Z"),
            ("America/Havana", "2026-03-06T00:00:00Z"),
            ("America/Havana", "2026-10-30T00:00:00Z"),
            ("Pacific/Apia", "2011-12-28T00:00:00Z"),
            ("Asia/Kathmandu", "2026-03-01T00:00:00Z"),
        ];
        let fields =
            ["0 9 * * 1-5", "30 2 * * *", "*/20 0-3 * * *", "0 0 1,30 * *", "45 23 * * 6", "* 2 29 3 *"];
        for (zone, from) in changes {
            for fields in fields {
                let schedule = Schedule::parse(&format!("CRON_TZ={zone} {fields}")).unwrap();
                let zone = time_zone(zone).unwrap();
                let shown = |instant: Timestamp| zone.to_datetime(instant);
                let mut expected = Vec::new();
                for minute in 1..5 * 24 * 60 {
                    let now = at(from) + SignedDuration::from_mins(minute);
                    let (before, now_shown) = (shown(now - SignedDuration::from_mins(1)), shown(now));
                    let first = now_shown.min(before + 1.minute());
                    let mut times = std::iter::successors(Some(first), |time| Some(*time + 1.minute()))
                        .take_while(|time| *time <= now_shown);
                    if times.any(|time| schedule.shows(time)) {
                        expected.push(now);
                    }
                }
                let end = at(from) + SignedDuration::from_mins(5 * 24 * 60 - 1);
                let hits = std::iter::successors(schedule.next(at(from)), |hit| schedule.next(*hit));
                let hits: Vec<Timestamp> = hits.take_while(|hit| *hit <= end).collect();
                assert_eq!(hits, expected, "{fields} in {zone:?} from {from}");
                for minutes in [10, 90, 24 * 60] {
                    closes_where_hits_end(&schedule, &hits, minutes, end);
                }
            }
        }
    }

    /// Every window that opens and closes before `end` closes when the last hit it runs into is over.
    fn closes_where_hits_end(schedule: &Schedule, hits: &[Timestamp], minutes: i64, end: Timestamp) {
        let length = SignedDuration::from_mins(minutes);
        for (number, hit) in hits.iter().enumerate() {
            let mut last = *hit;
            for next in &hits[number..] {
                if *next <= last + length {
                    last = *next;
                }
            }
            if last + length < end {
                let closes = schedule.closes(length.unsigned_abs(), *hit);
                assert_eq!(closes, Some(last + length), "{schedule:?} at {hit} for {minutes} minutes");
            }
        }
    }

    #[test]
    fn windows_of_a_zone_close_across_changes_of_its_clocks() {
        let table = [
            ("TZ=Europe/Berlin * * * jan-nov *", 1, Some("2026-11-30T23:00:00Z")),
            ("TZ=Europe/Berlin * * * * *", 1, None),
            ("TZ=Europe/Berlin 0 * * * *", 60, None),
        ];
        for (text, minutes, expected) in table {
            let schedule = Schedule::parse(text).unwrap();
            let closes = schedule.closes(Duration::from_mins(minutes), at("2026-01-05T10:00:00Z"));
            assert_eq!(closes, expected.map(at), "{text}");
        }
    }

    #[test]
    fn schedules_that_never_hit_count_as_open() {
        let never = Schedule::parse("0 0 31 2 *").unwrap();
        assert!(never.is_open(Duration::from_mins(1), at("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn refuses_what_the_reference_refuses() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "* * * * tue-mon",
            "*/0 * * * *",
            "-1 * * * *",
            "a * * * *",
            "@fortnightly",
            "TZ=UTC * * * * * *",
            "TZ=UTC",
            "TZ= * * * * *",
            "TZ=Europe/Berln * * * * *",
            "tz=Europe/Berlin * * * * *",
            "* * * * * TZ=Europe/Berlin",
            "1- * * * *",
            "1,,2 * * * *",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text:?}");
        }
    }
}
