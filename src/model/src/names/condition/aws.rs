//! Condition types of EC2NodeClasses (spec aws-provider 1.7).

/// Images were found.
pub const AMIS_READY: &str = "AMIsReady";
/// Subnets were found.
pub const SUBNETS_READY: &str = "SubnetsReady";
/// Security groups were found.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// The instance profile exists.
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// The placement group exists.
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
/// Capacity reservations were looked up.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";
