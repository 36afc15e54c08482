//! Capacity bought ahead, and groups that place instances relative to each other (spec aws-provider 9, 10).

use jiff::Timestamp;

use crate::id::{InstanceType, PlacementGroupId, ReservationId, Zone};
use crate::{Filter, Tags};

/// Query of capacity reservations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityReservationQuery {
    /// Exactly these; an unknown one fails the call.
    pub ids: Vec<ReservationId>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityReservation {
    /// `cr-...`
    pub id: ReservationId,
    /// Account that pays for it.
    pub owner: String,
    /// The type it reserves.
    pub instance_type: InstanceType,
    /// The zone it reserves in.
    pub zone: Zone,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `default` or `capacity-block`; `None` means default.
    pub kind: Option<String>,
    /// `active`, `expired`, ...
    pub state: String,
    /// Instances it reserves.
    pub total: u32,
    /// Instances that can still be launched into it.
    pub available: u32,
    /// Time at which it ends, if it does.
    pub ends_at: Option<Timestamp>,
    /// EC2 may take its instances back; `None` means no.
    pub interruptible: Option<bool>,
    /// Operating system of its instances, as it is billed: `Linux/UNIX`, `Red Hat Enterprise Linux`, `Windows`, ...
    pub platform: Option<String>,
    /// `default` or `dedicated` hardware; `None` means default.
    pub tenancy: Option<String>,
    pub tags: Tags,
}

/// Query of placement groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementGroupQuery {
    /// By name.
    pub names: Vec<String>,
    /// By id.
    pub ids: Vec<PlacementGroupId>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One placement group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementGroup {
    /// `pg-...`
    pub id: PlacementGroupId,
    pub name: String,
    pub strategy: PlacementStrategy,
    /// `available`, `pending`, ...
    pub state: String,
    /// Partitions of a partition group.
    pub partitions: Option<u32>,
    pub tags: Tags,
}

/// Strategy of a placement group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlacementStrategy {
    /// Close together.
    Cluster,
    /// In numbered partitions that share no rack.
    Partition,
    /// Each on a rack of its own, seven per zone.
    Spread,
    /// A strategy that did not exist when this was written.
    Other(String),
}

impl PlacementStrategy {
    /// EC2's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cluster => "cluster",
            Self::Partition => "partition",
            Self::Spread => "spread",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for PlacementStrategy {
    fn from(text: &str) -> Self {
        match text {
            "cluster" => Self::Cluster,
            "partition" => Self::Partition,
            "spread" => Self::Spread,
            other => Self::Other(other.to_owned()),
        }
    }
}
