//! Machines: how they are found, what they report, how they end (spec aws-provider 5.10, 5.11, 14.2).

use jiff::Timestamp;

use crate::ec2::{CapacityReservationPreference, InterfaceKind, Tenancy};
use crate::id::{
    ImageId, InstanceId, InstanceType, PlacementGroupId, ReservationId, SecurityGroupId, SubnetId, VpcId,
    Zone, ZoneId,
};
use crate::{Filter, Tags};

/// Query of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceQuery {
    /// Exactly these; one that EC2 does not know fails the whole call.
    pub ids: Vec<InstanceId>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// `i-...`
    pub id: InstanceId,
    pub instance_type: InstanceType,
    pub image: ImageId,
    pub state: InstanceState,
    pub zone: Zone,
    /// Zone id, when EC2 reports it.
    pub zone_id: Option<ZoneId>,
    /// Hardware tenancy.
    pub tenancy: Tenancy,
    pub placement_group: Option<PlacementGroupId>,
    /// Partition of the placement group, from 1.
    pub partition: Option<u32>,
    /// Purchase option, when not on-demand.
    pub lifecycle: Option<Lifecycle>,
    /// Spot request behind it.
    pub spot_request: Option<String>,
    /// Reservation it runs in.
    pub reservation: Option<ReservationId>,
    pub reservation_preference: Option<CapacityReservationPreference>,
    /// Launch time.
    pub launched_at: Timestamp,
    /// Subnet of the primary interface; gone once terminated.
    pub subnet: Option<SubnetId>,
    /// VPC; gone once terminated.
    pub vpc: Option<VpcId>,
    /// Security groups of the primary interface.
    pub security_groups: Vec<SecurityGroupId>,
    pub interfaces: Vec<InstanceInterface>,
    /// Private DNS name, which EKS turns into the node name; empty text counts as absent.
    pub private_dns: Option<String>,
    /// Private IPv4 address.
    pub private_ip: Option<String>,
    /// ARN of the instance profile.
    pub instance_profile: Option<String>,
    pub tags: Tags,
}

/// One network interface of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInterface {
    /// Kind of the interface, when it is one we launch.
    pub kind: Option<InterfaceKind>,
    pub subnet: Option<SubnetId>,
    pub security_groups: Vec<SecurityGroupId>,
}

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    /// Being launched.
    Pending,
    Running,
    /// Being stopped.
    Stopping,
    Stopped,
    /// Being terminated.
    ShuttingDown,
    /// Gone; EC2 still lists it for about an hour.
    Terminated,
}

impl InstanceState {
    /// All states that still cost or hold something: everything but `terminated` (spec aws-provider 5.11).
    pub const ALIVE: [Self; 5] =
        [Self::Pending, Self::Running, Self::Stopping, Self::Stopped, Self::ShuttingDown];

    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// Parses EC2's spelling; `None` for a state that did not exist when this was written.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "pending" => Self::Pending,
            "running" => Self::Running,
            "stopping" => Self::Stopping,
            "stopped" => Self::Stopped,
            "shutting-down" => Self::ShuttingDown,
            "terminated" => Self::Terminated,
            _ => return None,
        })
    }
}

/// Purchase option of an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifecycle {
    Spot,
    CapacityBlock,
    InterruptibleCapacityReservation,
    /// Something else, for example `scheduled`.
    Other(String),
}

impl From<&str> for Lifecycle {
    fn from(text: &str) -> Self {
        match text {
            "spot" => Self::Spot,
            "capacity-block" => Self::CapacityBlock,
            "interruptible-capacity-reservation" => Self::InterruptibleCapacityReservation,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Effect of `TerminateInstances` on one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    pub id: InstanceId,
    /// Before.
    pub previous: InstanceState,
    /// After.
    pub current: InstanceState,
}

/// Health of one instance as `DescribeInstanceStatus` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceHealth {
    pub id: InstanceId,
    pub zone: Option<Zone>,
    /// Reachability of the operating system.
    pub instance: HealthStatus,
    /// Reachability of the hardware.
    pub system: HealthStatus,
    /// Maintenance AWS has scheduled.
    pub events: Vec<ScheduledEvent>,
}

/// Result of one of the two health checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthStatus {
    /// `ok`, `impaired`, `initializing`, `insufficient-data`, `not-applicable`.
    pub status: String,
    /// A detail of it failed.
    pub failed: bool,
    /// Since when it has failed.
    pub impaired_since: Option<Timestamp>,
}

/// Maintenance AWS has scheduled for an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// `instance-reboot`, `system-reboot`, `system-maintenance`, `instance-retirement`, `instance-stop`.
    pub code: String,
    /// AWS's text; starts with `[Completed]` or `[Canceled]` when it is over.
    pub description: String,
    /// Earliest start.
    pub not_before: Option<Timestamp>,
}
