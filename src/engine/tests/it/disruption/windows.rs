//! Windows of budgets by the planner and by the audit, against a table worked out by hand, and against
//! each other for random schedules.

use std::collections::BTreeSet;
use std::fmt::Write;

use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::{Plan, Snapshot};
use karpenter_testkit::snapshot;

/// One empty machine in a pool that may lose none while a window is open. `schedule` with spaces.
fn guarded(now: &str, schedule: &str, duration: &str) -> Snapshot {
    let schedule = schedule.replace(' ', "_");
    snapshot(&format!(
        "now {now}
type  small cpu=2 mem=4Gi od=0.10
pool  web types=* budget=0@@{schedule}/{duration}
node  a pool=web type=small zone=a capacity=on-demand\n"
    ))
}

/// Returns the opinions of the planner and the audit: open, closed, or not to be understood counts as open.
fn opinions(now: &str, schedule: &str, duration: &str) -> (bool, bool) {
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let guarded = guarded(now, schedule, duration);
    let planner = decide(&guarded, &mut Memory::default(), &standing).commands.is_empty();
    let mut free = guarded.clone();
    for pool in &mut free.pools {
        std::sync::Arc::make_mut(pool).disruption.budgets.clear();
    }
    let commands = decide(&free, &mut Memory::default(), &standing).commands.clone();
    assert_eq!(commands.len(), 1, "the machine is free to go");
    let findings = audit(&guarded, &Plan { commands, ..Plan::default() });
    (planner, findings.iter().any(|finding| finding.rule == Rule::Budget))
}

#[test]
fn windows_are_open_when_the_calendar_says_so() {
    // 2026-01-01 is a Thursday, 2028 and 2000 are leap years, 2100 is not.
    let table = [
        // Daily, and the edges of the window: the start belongs to it, the end does not.
        ("2026-01-01T08:59:59Z", "0 9 * * *", "8h", false),
        ("2026-01-01T09:00:00Z", "0 9 * * *", "8h", true),
        ("2026-01-01T16:59:59Z", "0 9 * * *", "8h", true),
        ("2026-01-01T17:00:00Z", "0 9 * * *", "8h", false),
        // Over midnight, over the end of a year.
        ("2026-01-01T01:00:00Z", "0 22 * * *", "4h", true),
        ("2026-01-01T02:00:00Z", "0 22 * * *", "4h", false),
        ("2026-01-01T00:30:00Z", "0 0 31 12 *", "25h", true),
        // @weekly is Sunday midnight.
        ("2026-01-04T00:00:00Z", "@weekly", "1h", true),
        ("2026-01-03T23:59:59Z", "@weekly", "1h", false),
        ("2026-01-04T01:00:00Z", "@weekly", "1h", false),
        // A long window over a daily schedule is always open once it was.
        ("2026-01-07T13:00:00Z", "0 0 * * *", "48h", true),
        // Working hours.
        ("2026-01-02T10:00:00Z", "0 9 * * mon-fri", "8h", true),
        ("2026-01-03T10:00:00Z", "0 9 * * mon-fri", "8h", false),
        ("2026-01-05T10:00:00Z", "0 9 * * MON-fri", "8h", true),
        // Leap days.
        ("2028-02-29T12:00:00Z", "0 0 29 2 *", "24h", true),
        ("2028-03-01T00:00:00Z", "0 0 29 2 *", "24h", false),
        ("2027-02-28T12:00:00Z", "0 0 29 2 *", "24h", false),
        ("2000-02-29T12:00:00Z", "0 0 29 2 *", "24h", true),
        ("2000-03-01T00:00:00Z", "0 0 29 2 *", "24h", false),
        // 2100 is none: without a leap day within five years the schedule counts as never, and never as always.
        ("2096-02-29T12:00:00Z", "0 0 29 2 *", "24h", true),
        ("2097-06-01T00:00:00Z", "0 0 29 2 *", "24h", true),
        ("2100-02-28T12:00:00Z", "0 0 29 2 *", "24h", false),
        ("2104-02-29T00:00:00Z", "0 0 29 2 *", "24h", true),
        // Day of month and weekday: both with a star, either without, `*/1` is a star and `*/2` is none.
        ("2026-02-13T12:00:00Z", "0 0 13 * *", "24h", true),
        ("2026-01-02T12:00:00Z", "0 0 13 * 5", "24h", true),
        ("2026-01-13T12:00:00Z", "0 0 13 * 5", "24h", true),
        ("2026-01-14T12:00:00Z", "0 0 13 * 5", "24h", false),
        ("2026-01-02T12:00:00Z", "0 0 */1 * 5", "24h", true),
        ("2026-01-03T12:00:00Z", "0 0 */1 * 5", "24h", false),
        ("2026-01-03T12:00:00Z", "0 0 */2 * 5", "24h", true),
        ("2026-01-04T12:00:00Z", "0 0 */2 * 5", "24h", false),
        ("2026-01-05T12:00:00Z", "0 0 ? * 1", "24h", true),
        // Steps and lists.
        ("2026-01-01T00:45:30Z", "5/20 * * * *", "1m", true),
        ("2026-01-01T00:46:00Z", "5/20 * * * *", "1m", false),
        ("2026-01-01T00:10:00Z", "10-50/10 * * * *", "1m", true),
        ("2026-01-01T00:05:00Z", "10-50/10 * * * *", "1m", false),
        ("2026-03-01T00:00:00Z", "0 0 1 jan,MAR *", "1m", true),
        ("2026-02-01T00:00:00Z", "0 0 1 jan,MAR *", "1m", false),
        // Macros.
        ("2026-02-01T00:10:00Z", "@monthly", "1h", true),
        ("2026-01-01T00:10:00Z", "@yearly", "1h", true),
        ("2026-01-01T00:10:00Z", "@annually", "1h", true),
        ("2026-01-02T00:10:00Z", "@midnight", "1h", true),
        ("2026-01-02T13:10:00Z", "@daily", "1h", false),
        ("2026-01-02T13:10:00Z", "@hourly", "15m", true),
        // Never: treated as always, as the reference does.
        ("2026-01-01T00:00:00Z", "0 0 31 2 *", "1h", true),
        ("2026-01-01T00:00:00Z", "0 0 30 2 *", "1h", true),
        // Not to be understood: nothing may go.
        ("2026-01-03T10:00:00Z", "0 0 * * tue-mon", "1h", true),
        ("2026-01-03T10:00:00Z", "0 0 * * 7", "1h", true),
        ("2026-01-03T10:00:00Z", "*/0 * * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "-1 * * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "60 * * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "* * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "TZ=UTC 0 0 0 * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "TZ=Europe/Berln 0 0 * * *", "1h", true),
        ("2026-01-03T10:00:00Z", "TZ=Europe/Berlin", "1h", true),
    ];
    for (now, schedule, duration, open) in table {
        assert_eq!(opinions(now, schedule, duration), (open, open), "{schedule} for {duration} at {now}");
    }
}

#[test]
fn windows_of_a_time_zone_follow_its_clocks() {
    let table = [
        // Berlin is an hour before UTC in winter, two in summer.
        ("2026-01-05T07:59:59Z", "TZ=Europe/Berlin 0 9 * * mon-fri", "8h", false),
        ("2026-01-05T08:00:00Z", "TZ=Europe/Berlin 0 9 * * mon-fri", "8h", true),
        ("2026-01-05T16:00:00Z", "TZ=Europe/Berlin 0 9 * * mon-fri", "8h", false),
        ("2026-07-06T07:00:00Z", "TZ=Europe/Berlin 0 9 * * mon-fri", "8h", true),
        ("2026-07-06T15:00:00Z", "TZ=Europe/Berlin 0 9 * * mon-fri", "8h", false),
        ("2026-07-06T10:00:00Z", "TZ=UTC 0 9 * * *", "8h", true),
        // Monday begins in Sydney when it is Sunday in UTC.
        ("2026-06-21T14:00:00Z", "TZ=Australia/Sydney 0 0 * * mon", "24h", true),
        ("2026-06-22T14:00:00Z", "TZ=Australia/Sydney 0 0 * * mon", "24h", false),
        // On 2026-03-29 clocks in Berlin go at 01:00Z from 2:00 to 3:00, and what they skip counts then.
        ("2026-03-29T00:59:00Z", "TZ=Europe/Berlin 30 2 * * *", "1h", false),
        ("2026-03-29T01:00:00Z", "TZ=Europe/Berlin 30 2 * * *", "1h", true),
        ("2026-03-29T02:00:00Z", "TZ=Europe/Berlin 30 2 * * *", "1h", false),
        // On 2026-10-25 they show at 01:00Z for the second time that it is 2:00.
        ("2026-10-25T00:30:00Z", "TZ=Europe/Berlin 30 2 * * *", "10m", true),
        ("2026-10-25T00:40:00Z", "TZ=Europe/Berlin 30 2 * * *", "10m", false),
        ("2026-10-25T01:30:00Z", "TZ=Europe/Berlin 30 2 * * *", "10m", true),
    ];
    for (now, schedule, duration, open) in table {
        assert_eq!(opinions(now, schedule, duration), (open, open), "{schedule} for {duration} at {now}");
    }
}

/// A field of a random schedule.
fn field(rng: &mut fastrand::Rng, least: u32, most: u32) -> String {
    let mut number = || rng.u32(least..=most);
    let (one, other) = (number(), number());
    let (low, high) = (one.min(other), one.max(other));
    match rng.u8(0..8) {
        0..3 => "*".to_owned(),
        3 => format!("{one}"),
        4 => format!("{low}-{high}"),
        5 => format!("*/{}", rng.u32(1..7)),
        6 => format!("{low}/{}", rng.u32(1..9)),
        _ => format!("{one},{other}"),
    }
}

/// Zones whose clocks never change, change at night, change at midnight, and changed by a whole day.
const ZONES: [&str; 6] =
    ["Asia/Kolkata", "Europe/Berlin", "America/Havana", "Africa/Cairo", "America/Santiago", "Pacific/Apia"];

#[test]
fn planner_and_audit_agree_about_random_windows() {
    let mut open = 0;
    for seed in 0..1_200 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut schedule = String::new();
        if rng.bool() {
            let _ = write!(schedule, "TZ={} ", ZONES[rng.usize(0..ZONES.len())]);
        }
        for (least, most) in [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)] {
            let _ = write!(schedule, "{} ", field(rng, least, most));
        }
        let (year, month, day) = (rng.u32(1999..2105), rng.u32(1..=12), rng.u32(1..=28));
        let now = format!(
            "{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            rng.u32(0..24),
            rng.u32(0..60),
            rng.u32(0..60)
        );
        let duration = ["1m", "15m", "1h", "8h", "30h", "400h"][rng.usize(0..6)];
        let (planner, auditor) = opinions(&now, schedule.trim(), duration);
        assert_eq!(planner, auditor, "seed {seed}: {schedule}for {duration} at {now}");
        open += u32::from(planner);
    }
    assert!((240..960).contains(&open), "{open} of 1200 are open");
}
