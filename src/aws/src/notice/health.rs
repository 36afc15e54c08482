//! Notices from the status checks of EC2 (spec aws-provider 14.2). Pure.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::Filter;
use karpenter_aws_api::ec2::{HealthStatus, InstanceHealth, ScheduledEvent};
use karpenter_model::NoticeKind;

/// Time for which a check must have failed.
pub const THRESHOLD: Duration = Duration::from_mins(2);

/// Scheduled events that end or interrupt an instance.
const CODES: [&str; 5] =
    ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];

/// The questions to ask, one after the other: EC2 takes filters together, and each of these is enough by itself.
pub fn queries() -> [Vec<Filter>; 3] {
    [
        vec![Filter::new("instance-status.status", ["impaired"])],
        vec![Filter::new("system-status.status", ["impaired"])],
        vec![Filter::new("event.code", CODES)],
    ]
}

/// Faults of an instance. The volume check is not looked at.
pub fn notices(health: &InstanceHealth, now: Timestamp) -> Vec<NoticeKind> {
    let failing = |status: &HealthStatus| {
        let long = status.impaired_since.is_some_and(|since| {
            now.duration_since(since) >= jiff::SignedDuration::try_from(THRESHOLD).unwrap_or_default()
        });
        status.failed && long
    };
    let mut notices = Vec::new();
    if failing(&health.instance) {
        notices.push(NoticeKind::InstanceStatus);
    }
    if failing(&health.system) {
        notices.push(NoticeKind::SystemStatus);
    }
    // An event has no duration to wait for: EC2 has set its time (spec aws-provider 14.2).
    if health.events.iter().any(is_ahead) {
        notices.push(NoticeKind::EventStatus);
    }
    notices
}

/// EC2 keeps events that are over for a while and marks them in their text.
fn is_ahead(event: &ScheduledEvent) -> bool {
    let over = ["[Completed]", "[Canceled]"].iter().any(|mark| event.description.starts_with(mark));
    CODES.contains(&event.code.as_str()) && !over
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    fn check(failed: bool, since: Option<i64>) -> HealthStatus {
        HealthStatus { status: "impaired".to_owned(), failed, impaired_since: since.map(at) }
    }

    fn event(code: &str, description: &str) -> ScheduledEvent {
        ScheduledEvent { code: code.to_owned(), description: description.to_owned(), not_before: None }
    }

    fn health(instance: HealthStatus, system: HealthStatus, events: Vec<ScheduledEvent>) -> InstanceHealth {
        InstanceHealth { id: "i-1".into(), zone: None, instance, system, events }
    }

    #[test]
    fn checks_count_after_two_minutes_and_events_at_once() {
        let fine = || HealthStatus::default();
        let table = [
            (health(fine(), fine(), vec![]), vec![]),
            (health(check(true, Some(0)), fine(), vec![]), vec![NoticeKind::InstanceStatus]),
            (health(check(true, Some(1)), fine(), vec![]), vec![]),
            (health(check(false, Some(0)), fine(), vec![]), vec![]),
            (health(check(true, None), fine(), vec![]), vec![]),
            (
                health(check(true, Some(0)), check(true, Some(0)), vec![event("instance-stop", "soon")]),
                vec![NoticeKind::InstanceStatus, NoticeKind::SystemStatus, NoticeKind::EventStatus],
            ),
            (health(fine(), fine(), vec![event("system-reboot", "")]), vec![NoticeKind::EventStatus]),
            (health(fine(), fine(), vec![event("system-reboot", "[Completed] it was")]), vec![]),
            (health(fine(), fine(), vec![event("instance-stop", "[Canceled] no more")]), vec![]),
            (health(fine(), fine(), vec![event("something-else", "")]), vec![]),
        ];
        for (health, expected) in table {
            assert_eq!(notices(&health, at(120)), expected, "{health:?}");
        }
    }
}
