//! Condition types and reasons of EC2NodeClasses (spec aws-provider 1.7).

use super::Dependents;

pub const AMIS_READY: &str = "AMIsReady";
pub const SUBNETS_READY: &str = "SubnetsReady";
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// What `Ready` follows from; reservations count only with the gate `ReservedCapacity`.
pub const fn dependents(reserved_capacity: bool) -> Dependents {
    const WITHOUT: &[&str] = &[
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
    ];
    const WITH: &[&str] = &[
        AMIS_READY,
        SUBNETS_READY,
        SECURITY_GROUPS_READY,
        INSTANCE_PROFILE_READY,
        VALIDATION_SUCCEEDED,
        PLACEMENT_GROUP_READY,
        CAPACITY_RESERVATIONS_READY,
    ];
    Dependents(if reserved_capacity { WITH } else { WITHOUT })
}

pub const REASON_AMI_NOT_FOUND: &str = "AMINotFound";
pub const REASON_UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
pub const REASON_SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
pub const REASON_SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
pub const REASON_PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
pub const REASON_PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
pub const REASON_DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
pub const REASON_CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
pub const REASON_TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
pub const REASON_CREATE_LAUNCH_TEMPLATE_AUTH: &str = "CreateLaunchTemplateAuthCheckFailed";
pub const REASON_CREATE_FLEET_AUTH: &str = "CreateFleetAuthCheckFailed";
pub const REASON_RUN_INSTANCES_AUTH: &str = "RunInstancesAuthCheckFailed";
pub const REASON_USER_DATA_SIZE: &str = "UserDataSizeLimitExceeded";
