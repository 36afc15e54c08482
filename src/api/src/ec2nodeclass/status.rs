//! Objects that an EC2NodeClass was resolved to (spec aws-provider 1.6).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::selector::ReservationMatch;
use crate::condition::Condition;
use crate::requirement::Requirement;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ec2NodeClassStatus {
    /// Most free addresses first, then by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<Subnet>,
    /// By id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<SecurityGroup>,
    /// By id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity_reservations: Vec<CapacityReservation>,
    /// Newest first, then by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<Ami>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    #[serde(rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ami {
    pub id: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes the image is for; shorter keys first, then by key.
    pub requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    pub availability_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    pub id: String,
    pub instance_match_criteria: ReservationMatch,
    pub instance_type: String,
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    #[serde(default)]
    pub reservation_type: ReservationType,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interruptible: bool,
    #[serde(default)]
    pub state: ReservationState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationType {
    #[default]
    Default,
    CapacityBlock,
}

impl ReservationType {
    /// The word on the wire and in the node label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::CapacityBlock => "capacity-block",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationState {
    #[default]
    Active,
    Expiring,
}

impl ReservationState {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expiring => "expiring",
        }
    }
}
