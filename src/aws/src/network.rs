//! Networks of nodes: subnets with their free addresses, and security groups (spec aws-provider 7).

pub mod addresses;
pub mod placement_groups;
pub mod security_groups;
pub mod subnets;
pub mod zonal_shifts;
pub mod zone_names;
