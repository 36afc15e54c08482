//! Reads the messages of the interruption queue (spec aws-provider 14.1). Pure: text in, [`Notice`] out.
//!
//! A message that is well-formed but of no concern, such as one of the tests people send by hand, is a notice without
//! kind. Only what cannot be read at all is an error; the reader of the queue drops both.

use jiff::Timestamp;
use karpenter_cloud::{InstanceId, Notice};
use karpenter_model::NoticeKind;
use serde_json::Value;

pub mod health;

/// The message is not one of `EventBridge`'s.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read message: {0}; it is dropped")]
pub struct Unreadable(String);

/// Reads one message.
///
/// # Errors
/// [`Unreadable`] when the text is not the JSON object of an event.
pub fn parse(body: &str) -> Result<Notice, Unreadable> {
    // As sent by hand to try out the queue; it is no error (spec aws-provider 14.1).
    if body.trim().is_empty() {
        return Ok(nothing());
    }
    let event: Value = serde_json::from_str(body).map_err(|error| Unreadable(error.to_string()))?;
    if !event.is_object() {
        return Err(Unreadable("not an object".to_owned()));
    }
    // A topic between the rule and the queue wraps the event, unless the subscription delivers it raw.
    if let ("Notification", Some(message)) = (text_of(&event, "Type"), event["Message"].as_str()) {
        return parse(message);
    }
    let text = |field| text_of(&event, field);
    let at = text("time").parse().ok();
    let detail = &event["detail"];
    let kind = match (text("version"), text("source"), text("detail-type")) {
        ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => Some(NoticeKind::SpotInterrupted),
        ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            Some(NoticeKind::CapacityReservationInterrupted)
        }
        ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            Some(NoticeKind::RebalanceRecommendation)
        }
        ("0", "aws.ec2", "EC2 Instance State-change Notification") => state(detail),
        ("0", "aws.health", "AWS Health Event") => health_event(detail),
        _ => None,
    };
    let instances = match kind {
        None => Vec::new(),
        Some(NoticeKind::ScheduledChange) => affected(detail),
        Some(_) => detail["instance-id"].as_str().into_iter().map(InstanceId::from).collect(),
    };
    Ok(Notice { kind, instances, at })
}

fn text_of<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_default()
}

fn nothing() -> Notice {
    Notice { kind: None, instances: Vec::new(), at: None::<Timestamp> }
}

/// States are spelled in lower case, and accepted in any.
fn state(detail: &Value) -> Option<NoticeKind> {
    match detail["state"].as_str()?.to_ascii_lowercase().as_str() {
        "stopping" | "stopped" => Some(NoticeKind::InstanceStopped),
        "shutting-down" | "terminated" => Some(NoticeKind::InstanceTerminated),
        _ => None,
    }
}

/// AWS Health sends an event once more when it is over or called off.
fn health_event(detail: &Value) -> Option<NoticeKind> {
    let concerns = detail["service"] == "EC2" && detail["eventTypeCategory"] == "scheduledChange";
    (concerns && detail["statusCode"] != "closed").then_some(NoticeKind::ScheduledChange)
}

/// An event that is updated names those too that it no longer affects.
fn affected(detail: &Value) -> Vec<InstanceId> {
    let entities = detail["affectedEntities"].as_array().into_iter().flatten();
    let entities = entities.filter(|entity| entity["status"] != "RESOLVED");
    entities.filter_map(|entity| entity["entityValue"].as_str()).map(InstanceId::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(source: &str, detail_type: &str, detail: &Value) -> String {
        let event = json!({
            "version": "0", "id": "1", "source": source, "detail-type": detail_type, "account": "1",
            "time": "2026-01-01T00:00:00Z", "region": "us-west-2", "resources": [], "detail": detail,
        });
        event.to_string()
    }

    fn ec2(detail_type: &str, state: &str) -> String {
        event("aws.ec2", detail_type, &json!({"instance-id": "i-1", "state": state}))
    }

    fn kind(body: &str) -> Option<NoticeKind> {
        parse(body).expect("readable").kind
    }

    #[test]
    fn each_message_has_its_kind_and_names_its_instance() {
        use NoticeKind::{
            CapacityReservationInterrupted, InstanceStopped, InstanceTerminated, RebalanceRecommendation,
            SpotInterrupted,
        };
        const STATE: &str = "EC2 Instance State-change Notification";
        let table = [
            ("EC2 Spot Instance Interruption Warning", "", Some(SpotInterrupted)),
            (
                "EC2 Capacity Reservation Instance Interruption Warning",
                "",
                Some(CapacityReservationInterrupted),
            ),
            ("EC2 Instance Rebalance Recommendation", "", Some(RebalanceRecommendation)),
            (STATE, "stopping", Some(InstanceStopped)),
            (STATE, "stopped", Some(InstanceStopped)),
            (STATE, "shutting-down", Some(InstanceTerminated)),
            (STATE, "terminated", Some(InstanceTerminated)),
            (STATE, "Stopping", Some(InstanceStopped)),
            (STATE, "pending", None),
            (STATE, "running", None),
            (STATE, "", None),
            ("EC2 Something New", "", None),
        ];
        for (detail_type, state, expected) in table {
            let notice = parse(&ec2(detail_type, state)).expect("readable");
            assert_eq!(notice.kind, expected, "{detail_type} {state}");
            let named: Vec<&str> = notice.instances.iter().map(InstanceId::as_str).collect();
            assert_eq!(named, if expected.is_some() { vec!["i-1"] } else { vec![] }, "{detail_type} {state}");
            assert_eq!(notice.at, "2026-01-01T00:00:00Z".parse().ok());
        }
    }

    #[test]
    fn only_scheduled_changes_of_ec2_count_and_name_every_instance() {
        let health = |service: &str, category: &str| {
            let entities = json!([{"entityValue": "i-1"}, {"entityValue": "i-2"}, {"other": 1}]);
            let detail =
                json!({"service": service, "eventTypeCategory": category, "affectedEntities": entities});
            event("aws.health", "AWS Health Event", &detail)
        };
        let notice = parse(&health("EC2", "scheduledChange")).expect("readable");
        assert_eq!((notice.kind, notice.instances.len()), (Some(NoticeKind::ScheduledChange), 2));
        for (service, category) in
            [("EC2", "accountNotification"), ("EC2", "issue"), ("RDS", "scheduledChange")]
        {
            assert_eq!(kind(&health(service, category)), None, "{service} {category}");
        }
        let entities = json!([
            {"entityValue": "i-1", "status": "RESOLVED"}, {"entityValue": "i-2", "status": "PENDING"},
        ]);
        let detail =
            json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": entities});
        let notice = parse(&event("aws.health", "AWS Health Event", &detail)).expect("readable");
        assert_eq!(notice.instances, [InstanceId::from("i-2")]);
        for (status, expected) in [("upcoming", true), ("open", true), ("closed", false)] {
            let detail =
                json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "statusCode": status});
            let found = kind(&event("aws.health", "AWS Health Event", &detail));
            assert_eq!(found, expected.then_some(NoticeKind::ScheduledChange), "{status}");
        }
    }

    #[test]
    fn an_event_that_came_through_a_topic_is_read_as_one_that_came_directly() {
        let wrapped = |message: &str| {
            let envelope = json!({
                "Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:us-west-2:1:shop",
                "Message": message, "Timestamp": "2026-01-01T00:00:05Z", "SignatureVersion": "1",
            });
            envelope.to_string()
        };
        let raw = ec2("EC2 Spot Instance Interruption Warning", "");
        assert_eq!(parse(&wrapped(&raw)), parse(&raw));
        assert_eq!(kind(&wrapped(&raw)), Some(NoticeKind::SpotInterrupted));
        assert_eq!(kind(&wrapped("")), None);
        assert!(parse(&wrapped("hello")).is_err());
        let confirmation =
            json!({"Type": "SubscriptionConfirmation", "Message": "You have chosen to subscribe"});
        assert_eq!(kind(&confirmation.to_string()), None);
    }

    #[test]
    fn what_is_of_no_concern_is_no_error_and_what_is_no_event_is() {
        let warning = "EC2 Spot Instance Interruption Warning";
        let newer = ec2(warning, "").replace("\"version\":\"0\"", "\"version\":\"1\"");
        for body in
            ["", "  ", "{}", "{\"version\": 0}", newer.as_str(), &event("my.app", warning, &json!({}))]
        {
            assert_eq!(kind(body), None, "{body}");
        }
        let bare = parse(&event("aws.ec2", warning, &json!(null))).expect("readable");
        assert_eq!((bare.kind, bare.instances.len()), (Some(NoticeKind::SpotInterrupted), 0));
        for body in ["hello", "[]", "1", "{", "null"] {
            assert!(parse(body).is_err(), "{body}");
        }
    }
}
