//! Selectors of an EC2NodeClass for subnets, security groups, images, reservations and a placement group.
//!
//! In `tags` the value `*` means "the key is present".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Tag key to wanted value.
pub type TagSelector = BTreeMap<String, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetSelectorTerm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupSelectorTerm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The group name, which is not the `Name` tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservationSelectorTerm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// AWS account that owns the reservation.
    #[serde(rename = "ownerID", skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_match_criteria: Option<ReservationMatch>,
}

/// Instances that a reservation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationMatch {
    Open,
    Targeted,
}

/// Exactly one of the two is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementGroupSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AmiSelectorTerm {
    /// An AWS image family and version, for example `al2023@latest`; the only term of its list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<TagSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An account id or an alias such as `amazon`; narrows `name` and `tags`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Name or ARN of an SSM parameter that holds an image id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssm_parameter: Option<String>,
}
