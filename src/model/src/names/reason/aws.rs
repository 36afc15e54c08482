//! Reasons of conditions that exist only on AWS (spec aws-provider 1.7, 5.9 and 9).

/// The images could not be looked up.
pub const AMI_RESOLUTION_FAILED: &str = "AMIResolutionFailed";
/// No image fits, or the image of a launch is gone.
pub const AMI_NOT_FOUND: &str = "AMINotFound";
/// The alias names no family of images.
pub const UNSUPPORTED_ALIAS: &str = "UnsupportedAlias";
/// The subnets could not be looked up, or are not yet.
pub const SUBNET_RESOLUTION_FAILED: &str = "SubnetResolutionFailed";
/// No subnet fits.
pub const SUBNETS_NOT_FOUND: &str = "SubnetsNotFound";
/// The security groups could not be looked up.
pub const SECURITY_GROUP_RESOLUTION_FAILED: &str = "SecurityGroupResolutionFailed";
/// No security group fits.
pub const SECURITY_GROUPS_NOT_FOUND: &str = "SecurityGroupsNotFound";
/// The instance profile could not be looked up or made.
pub const INSTANCE_PROFILE_RESOLUTION_FAILED: &str = "InstanceProfileResolutionFailed";
/// EC2 does not find the instance profile that the class names.
pub const INSTANCE_PROFILE_NOT_FOUND: &str = "InstanceProfileNotFound";
/// Something that was made for a class under deletion could not be removed.
pub const CLEAN_UP_FAILED: &str = "CleanUpFailed";
/// The placement group could not be looked up.
pub const PLACEMENT_GROUP_RESOLUTION_FAILED: &str = "PlacementGroupResolutionFailed";
/// The placement group does not exist.
pub const PLACEMENT_GROUP_NOT_FOUND: &str = "PlacementGroupNotFound";
/// Capacity reservations could not be looked up.
pub const CAPACITY_RESERVATION_RESOLUTION_FAILED: &str = "CapacityReservationResolutionFailed";
/// Instance types could not be looked up.
pub const INSTANCE_TYPE_RESOLUTION_FAILED: &str = "InstanceTypeResolutionFailed";
/// Validation waits for another condition.
pub const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
/// The range of service addresses is not known.
pub const CLUSTER_CIDR_RESOLUTION_FAILED: &str = "ClusterCIDRResolutionFailed";
/// A tag is reserved for the controller.
pub const TAG_VALIDATION_FAILED: &str = "TagValidationFailed";
/// AWS did not answer whether launches are allowed.
pub const VALIDATION_UNANSWERED: &str = "ValidationUnanswered";
/// The controller may not create launch templates.
pub const CREATE_LAUNCH_TEMPLATE_AUTH: &str = "CreateLaunchTemplateAuthCheckFailed";
/// The controller may not create fleets.
pub const CREATE_FLEET_AUTH: &str = "CreateFleetAuthCheckFailed";
/// The controller may not run instances.
pub const RUN_INSTANCES_AUTH: &str = "RunInstancesAuthCheckFailed";
/// The user data is longer than EC2 takes.
pub const USER_DATA_SIZE: &str = "UserDataSizeLimitExceeded";
/// The kubelet block has fields or values that no kubelet takes.
pub const KUBELET_INVALID: &str = "InvalidKubeletConfiguration";
/// The kubelet block has expressions, and they are off.
pub const KUBELET_EXPRESSIONS_DISABLED: &str = "KubeletExpressionsDisabled";
/// An expression of the kubelet block does not compile.
pub const KUBELET_EXPRESSION_INVALID: &str = "KubeletExpressionInvalid";
/// The family of images has no way to pass a field of the kubelet block on.
pub const KUBELET_UNSUPPORTED: &str = "UnsupportedKubeletConfiguration";
/// An expression of the kubelet block has no result.
pub const KUBELET_EXPRESSION_FAILED: &str = "KubeletExpressionEvaluationFailed";
/// No user data can be made of that of the class.
pub const USER_DATA_INVALID: &str = "UserDataInvalid";
/// EC2 launches nothing with what the class says of network interfaces.
pub const NETWORK_INTERFACES_INVALID: &str = "NetworkInterfacesInvalid";
/// The class has other static fields than the instance was launched with.
pub const NODE_CLASS_DRIFT: &str = "NodeClassDrift";
/// The class has not the image.
pub const AMI_DRIFT: &str = "AMIDrift";
/// The instance has other security groups than the class.
pub const SECURITY_GROUP_DRIFT: &str = "SecurityGroupDrift";
/// The class has not the subnet.
pub const SUBNET_DRIFT: &str = "SubnetDrift";
/// The class has not the reservation.
pub const CAPACITY_RESERVATION_DRIFT: &str = "CapacityReservationDrift";
/// The instance is in another placement group than the class names.
pub const PLACEMENT_GROUP_DRIFT: &str = "PlacementGroupDrift";
