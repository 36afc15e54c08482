//! The notices AWS publishes about instances, in AWS's own format (spec aws-provider 14.1).

use jiff::Timestamp;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_aws_api::events::Event;
use karpenter_aws_api::id::{Arn, InstanceId};
use serde_json::{Value, json};

use super::State;

/// An instance reached a new state.
pub(super) fn state_changed(state: &mut State, id: &InstanceId, reached: InstanceState, at: Timestamp) {
    let detail = json!({ "instance-id": id.as_str(), "state": reached.as_str() });
    publish(state, "EC2 Instance State-change Notification", id, &detail, at);
}

/// A spot instance will be reclaimed in two minutes.
pub(super) fn spot_interruption(state: &mut State, id: &InstanceId, at: Timestamp) {
    let detail = json!({ "instance-id": id.as_str(), "instance-action": "terminate" });
    publish(state, "EC2 Spot Instance Interruption Warning", id, &detail, at);
}

/// A spot instance is more likely to be reclaimed than others.
pub(super) fn rebalance(state: &mut State, id: &InstanceId, at: Timestamp) {
    let detail = json!({ "instance-id": id.as_str() });
    publish(state, "EC2 Instance Rebalance Recommendation", id, &detail, at);
}

/// An interruptible capacity reservation takes its instance back.
pub(super) fn reservation_interruption(state: &mut State, id: &InstanceId, at: Timestamp) {
    let detail = json!({ "instance-id": id.as_str(), "instance-action": "terminate" });
    publish(state, "EC2 Capacity Reservation Instance Interruption Warning", id, &detail, at);
}

/// AWS Health announces maintenance of the hardware below an instance.
pub(super) fn scheduled_change(state: &mut State, id: &InstanceId, at: Timestamp) {
    let detail = json!({
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "affectedEntities": [{ "entityValue": id.as_str() }],
    });
    let event = Event {
        source: "aws.health".to_owned(),
        detail_type: "AWS Health Event".to_owned(),
        detail: detail.to_string(),
        resources: vec![arn(state, id)],
    };
    state.publish(&event, at);
}

fn publish(state: &mut State, detail_type: &str, id: &InstanceId, detail: &Value, at: Timestamp) {
    let event = Event {
        source: "aws.ec2".to_owned(),
        detail_type: detail_type.to_owned(),
        detail: detail.to_string(),
        resources: vec![arn(state, id)],
    };
    state.publish(&event, at);
}

fn arn(state: &State, id: &InstanceId) -> Arn {
    state.arn("ec2", &format!("instance/{id}")).into()
}
