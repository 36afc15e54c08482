//! Condition types and reasons of NodeClaims (spec scheduling 4).

use super::Dependents;

pub const LAUNCHED: &str = "Launched";
pub const REGISTERED: &str = "Registered";
pub const INITIALIZED: &str = "Initialized";
pub const CONSOLIDATABLE: &str = "Consolidatable";
pub const DRIFTED: &str = "Drifted";
pub const DRAINED: &str = "Drained";
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
pub const DISRUPTION_REASON: &str = "DisruptionReason";

/// What `Ready` follows from.
pub const DEPENDENTS: Dependents = Dependents(&[LAUNCHED, REGISTERED, INITIALIZED]);

pub const REASON_LAUNCH_FAILED: &str = "LaunchFailed";
pub const REASON_NODE_NOT_FOUND: &str = "NodeNotFound";
pub const REASON_REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
pub const REASON_MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
pub const REASON_NODE_NOT_READY: &str = "NodeNotReady";
pub const REASON_STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
pub const REASON_KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
pub const REASON_RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
pub const REASON_DRA_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
pub const REASON_NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
pub const REASON_REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
pub const REASON_INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
pub const REASON_DRAINING: &str = "Draining";
pub const REASON_AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
pub const REASON_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
pub const REASON_CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";
