//! Condition types (spec scheduling 3.3, 4, 5 and 6).

pub mod aws;

/// The root of every kind, and of Nodes.
pub const READY: &str = "Ready";

/// Pods: the scheduler has chosen a node.
pub const POD_SCHEDULED: &str = "PodScheduled";

/// Claims: the cloud has created the instance.
pub const LAUNCHED: &str = "Launched";
/// Claims: the Node has joined.
pub const REGISTERED: &str = "Registered";
/// Claims: the Node is ready for pods.
pub const INITIALIZED: &str = "Initialized";
/// Claims: the consolidation window has passed.
pub(crate) const CONSOLIDATABLE: &str = "Consolidatable";
/// Claims: no longer what its pool, class or instance type ask for.
pub const DRIFTED: &str = "Drifted";
/// Claims: every evictable pod has left.
pub(crate) const DRAINED: &str = "Drained";
/// Claims: every volume attachment is gone.
pub(crate) const VOLUMES_DETACHED: &str = "VolumesDetached";
/// Claims: the cloud has been asked to terminate the instance.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// Claims: the node matches its claim.
pub(crate) const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// Claims: the Node had registered and is gone. Not a condition of the reference.
pub const NODE_MISSING: &str = "NodeMissing";
/// Claims: its instance is being rebooted.
pub const REBOOTING: &str = "Rebooting";
/// Claims: chosen for disruption.
pub const DISRUPTION_REASON: &str = "DisruptionReason";

/// Pools, overlays and EC2NodeClasses: the object can be used as it is.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// Pools: the node class is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// Pools: nodes register. Stands alone: an unhealthy pool still schedules.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// Buffers: pods and their number are known.
pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
/// Buffers: the cluster has room for all of the buffer.
pub const PROVISIONING: &str = "Provisioning";

/// Jobs: the pods that were wanted have succeeded.
pub const COMPLETE: &str = "Complete";
/// Jobs: too many pods have failed.
pub const FAILED: &str = "Failed";
