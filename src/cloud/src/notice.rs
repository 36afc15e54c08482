//! What a cloud tells us unasked: machines about to be taken, moved, stopped or found broken.
//!
//! Source: spec aws-provider 14 and aws-operations 2.3. The kinds are those every large cloud knows; where a
//! notice comes from (queue, poll) is the provider's business.

use jiff::Timestamp;
use karpenter_model::{CapacityType, InstanceTypeName, Zone};

use crate::InstanceId;

/// One message about machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What happens.
    pub kind: NoticeKind,
    /// The machines concerned; several for a maintenance event.
    pub instances: Vec<InstanceId>,
    /// When the cloud says it wrote the message.
    pub at: Timestamp,
}

/// What happens to the machines of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// The spot machine is reclaimed in minutes.
    SpotInterruption,
    /// The reserved machine is reclaimed because its reservation is.
    ReservationInterruption,
    /// The spot machine is at an elevated risk of being reclaimed; nothing has been decided.
    RebalanceRecommendation,
    /// Maintenance or retirement is scheduled.
    ScheduledChange,
    /// The machine is stopping or has stopped.
    Stopping,
    /// The machine is shutting down or is gone.
    Terminating,
    /// A status check of the cloud has been failing.
    Unhealthy,
}

impl NoticeKind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::SpotInterruption,
        Self::ReservationInterruption,
        Self::RebalanceRecommendation,
        Self::ScheduledChange,
        Self::Stopping,
        Self::Terminating,
        Self::Unhealthy,
    ];

    /// True when the claim has to be given up now; a rebalance recommendation is only reported.
    pub const fn ends_claim(self) -> bool {
        match self {
            Self::SpotInterruption
            | Self::ReservationInterruption
            | Self::ScheduledChange
            | Self::Stopping
            | Self::Terminating
            | Self::Unhealthy => true,
            Self::RebalanceRecommendation => false,
        }
    }

    /// True when the notice is evidence that the offering of the machine has no capacity left.
    pub const fn exhausts_offering(self) -> bool {
        matches!(self, Self::SpotInterruption | Self::ReservationInterruption)
    }
}

/// The identity of an offering: what runs out of capacity as one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingKey {
    /// Instance type.
    pub instance_type: InstanceTypeName,
    /// Zone.
    pub zone: Zone,
    /// Capacity type.
    pub capacity_type: CapacityType,
}
