//! Notices that a cloud sends unasked: machines about to be taken, moved, stopped or found broken.
//!
//! Source: spec aws-provider 14 and spec aws-operations 2.3. The kinds are those every large cloud knows; where a
//! notice comes from (queue, poll) is the provider's business.

use jiff::Timestamp;
use karpenter_model::{CapacityType, InstanceTypeName, NoticeKind, Zone};

use crate::InstanceId;

/// One message about machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Kind of event; `None` for messages that concern no instance.
    pub kind: Option<NoticeKind>,
    /// The machines concerned; several for a maintenance event.
    pub instances: Vec<InstanceId>,
    /// Time of the message by the cloud's own record.
    pub at: Option<Timestamp>,
}

/// The identity of an offering: what runs out of capacity as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingKey {
    pub instance_type: InstanceTypeName,
    pub zone: Zone,
    pub capacity_type: CapacityType,
}
