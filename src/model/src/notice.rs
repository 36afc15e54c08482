//! Notices of a cloud about a machine (spec aws-provider 14). The names are metric labels and part of dashboards.

use std::fmt;

/// Event that a cloud reports about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// The spot machine is reclaimed in minutes.
    SpotInterrupted,
    /// The reserved machine is reclaimed because its reservation is.
    CapacityReservationInterrupted,
    /// Maintenance or retirement is announced.
    ScheduledChange,
    /// The machine is stopping or has stopped.
    InstanceStopped,
    /// The machine is shutting down or is gone.
    InstanceTerminated,
    /// The spot machine is at an elevated risk of being reclaimed; nothing has been decided.
    RebalanceRecommendation,
    /// The operating system has not been reachable for minutes.
    InstanceStatus,
    /// The hardware has not been reachable for minutes.
    SystemStatus,
    /// Maintenance shows in the state of the machine.
    EventStatus,
}

impl NoticeKind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::SpotInterrupted,
        Self::CapacityReservationInterrupted,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::RebalanceRecommendation,
        Self::InstanceStatus,
        Self::SystemStatus,
        Self::EventStatus,
    ];

    /// The value of metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
