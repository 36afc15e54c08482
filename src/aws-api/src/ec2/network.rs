//! Network of instances: zones, VPCs, subnets, security groups (spec aws-provider 7).

use crate::id::{SecurityGroupId, SubnetId, VpcId, Zone, ZoneId};
use crate::{Filter, Tags};

/// One availability zone of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailabilityZone {
    /// `eu-west-1a`
    pub name: Zone,
    /// `euw1-az2`
    pub id: ZoneId,
    /// `availability-zone`, `local-zone` or `wavelength-zone`.
    pub kind: String,
    /// `available`, `impaired`, `unavailable`, ...
    pub state: String,
}

/// Query of VPCs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VpcQuery {
    /// Exactly these.
    pub ids: Vec<VpcId>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vpc {
    pub id: VpcId,
    /// Primary IPv4 range.
    pub cidr: String,
    /// The region's default VPC.
    pub is_default: bool,
    pub tags: Tags,
}

/// Query of subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetQuery {
    /// Exactly these.
    pub ids: Vec<SubnetId>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    pub id: SubnetId,
    pub vpc: VpcId,
    pub zone: Zone,
    /// Its zone's id; a few emulators and old answers lack it.
    pub zone_id: Option<ZoneId>,
    /// IPv4 addresses still free.
    pub free_addresses: u32,
    /// IPv4 range.
    pub cidr: String,
    /// Instances get a public IPv4 address unless the launch says otherwise.
    pub public_by_default: bool,
    /// Tags, of this account only when the subnet is shared.
    pub tags: Tags,
}

/// Query of security groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityGroupQuery {
    /// Exactly these.
    pub ids: Vec<SecurityGroupId>,
    /// All of these filters; the group's name is filter `group-name`.
    pub filters: Vec<Filter>,
}

/// One security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// `sg-...`
    pub id: SecurityGroupId,
    /// Group name (not the `Name` tag).
    pub name: String,
    /// Its VPC; absent only in long retired accounts.
    pub vpc: Option<VpcId>,
    pub tags: Tags,
}
