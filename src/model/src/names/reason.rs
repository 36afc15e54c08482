//! Reasons of conditions and of events; some are both. What an event says about itself, and how often it is published,
//! is in the table of `karpenter-telemetry`.

pub mod aws;

// Conditions of every kind (spec scheduling 1).

/// No controller has decided the condition yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// The root: a dependent is False at the current generation.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// The root: a dependent is not known yet at the current generation.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

// Conditions of claims (spec scheduling 4).

/// The provider could not launch and gave no reason of its own.
pub const LAUNCH_FAILED: &str = "LaunchFailed";
/// No Node has joined for the claim.
pub const NODE_NOT_FOUND: &str = "NodeNotFound";
/// Several Nodes have the id of the claim's instance.
pub const MULTIPLE_NODES_FOUND: &str = "MultipleNodesFound";
/// The provider does not let the Node register yet.
pub const REGISTRATION_HOOK_PENDING: &str = "RegistrationHookPending";
/// The Node did not join in time.
pub const REGISTRATION_FAILED: &str = "RegistrationFailed";
/// The kubelet does not report that the Node is ready.
pub const NODE_NOT_READY: &str = "NodeNotReady";
/// A start-up taint is still there.
pub const STARTUP_TAINTS_EXIST: &str = "StartupTaintsExist";
/// A taint that goes away by itself is still there.
pub const KNOWN_EPHEMERAL_TAINTS_EXIST: &str = "KnownEphemeralTaintsExist";
/// The Node does not offer a resource yet that it will have.
pub const RESOURCE_NOT_REGISTERED: &str = "ResourceNotRegistered";
/// A driver has not published the devices of the Node yet.
pub const DRIVER_POOLS_NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
/// The claim was made from another template than its pool has.
pub const NODE_POOL_DRIFTED: &str = "NodePoolDrifted";
/// The labels of the claim do not meet the requirements of its pool.
pub const REQUIREMENTS_DRIFTED: &str = "RequirementsDrifted";
/// The instance type of the claim is not offered to its pool.
pub const INSTANCE_TYPE_NOT_FOUND: &str = "InstanceTypeNotFound";
/// The claim expires before long, and the controller is set to replace it before that.
pub const EXPIRES_SOON: &str = "ExpiresSoon";
/// The cloud recommends to move off the machine, and the controller is set to do so.
pub const REBALANCE_RECOMMENDED: &str = "RebalanceRecommended";
/// Pods still keep the node.
pub const DRAINING: &str = "Draining";
/// Waiting ended at the deadline.
pub const TERMINATION_GRACE_PERIOD_ELAPSED: &str = "TerminationGracePeriodElapsed";
/// The node waits for its instance, which is being rebooted.
pub const REBOOTING: &str = "Rebooting";
/// A reboot was decided: the node drains before it. Condition `Rebooting`.
pub const REBOOT_REQUESTED: &str = "RebootRequested";
/// The cloud was asked to reboot the instance. Condition `Rebooting`.
pub const REBOOT_ISSUED: &str = "RebootIssued";
/// The instance has rebooted and its node is ready. Condition `Rebooting`.
pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
/// The reboot was given up. Condition `Rebooting`, and an event.
pub const REBOOT_FAILED: &str = "RebootFailed";
/// The node does not match its claim.
pub const CONSISTENCY_CHECK_FAILED: &str = "ConsistencyCheckFailed";

// Conditions of pools and overlays (spec scheduling 3.3 and 5).

/// A rule that the schema cannot state is broken.
pub const NODE_POOL_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
/// The pool names a class that does not exist.
pub const NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
/// The class is being deleted.
pub const NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
/// The class does not report whether it is ready.
pub const NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
/// The overlay is wrong by itself.
pub const RUNTIME_VALIDATION: &str = "RuntimeValidation";
/// Another overlay of the same weight says something else.
pub const CONFLICT: &str = "Conflict";

// Conditions of pods.

/// The scheduler found no node.
pub const UNSCHEDULABLE: &str = "Unschedulable";
/// Condition `PodScheduled` of a pod that waits for its scheduling gates to go.
pub const SCHEDULING_GATED: &str = "SchedulingGated";

// Conditions of buffers (spec scheduling 23).

/// It is not known what the pods of the buffer are like.
pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
/// The pod template does not exist.
pub const POD_TEMPLATE_NOT_FOUND: &str = "PodTemplateNotFound";
/// The workload does not exist.
pub const SCALABLE_REF_NOT_FOUND: &str = "ScalableRefNotFound";
/// Pods and their number are not known.
pub const NOT_READY_FOR_PROVISIONING: &str = "NotReadyForProvisioning";
/// The buffer requests no pods.
pub const BUFFER_EMPTY: &str = "BufferEmpty";
/// Some of the buffer has no place on the nodes there are.
pub const REQUIRES_NEW_CAPACITY: &str = "RequiresNewCapacity";
/// All of the buffer has a place.
pub const FITS_EXISTING_CAPACITY: &str = "FitsExistingCapacity";

// Events (spec disruption 7).

/// A node or claim may not be disrupted, or a budget is used up.
pub const DISRUPTION_BLOCKED: &str = "DisruptionBlocked";
/// A replacement is being launched.
pub const DISRUPTION_LAUNCHING: &str = "DisruptionLaunching";
/// A replacement is not ready yet.
pub const DISRUPTION_WAITING_READINESS: &str = "DisruptionWaitingReadiness";
/// The node is being removed.
pub const DISRUPTION_TERMINATING: &str = "DisruptionTerminating";
/// Consolidation leaves the node alone.
pub const UNCONSOLIDATABLE: &str = "Unconsolidatable";
/// A cheaper replacement was found and is being checked.
pub const CONSOLIDATION_CANDIDATE: &str = "ConsolidationCandidate";
/// The second look dropped a replacement.
pub const CONSOLIDATION_REJECTED: &str = "ConsolidationRejected";
/// The Balanced policy approved a move.
pub const CONSOLIDATION_APPROVED: &str = "ConsolidationApproved";
/// A brake holds the disruption of a node or pool back.
pub const DISRUPTION_HELD: &str = "DisruptionHeld";
/// No pool can take the pod.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";
/// The requirements of the pool leave no instance type.
pub const NO_COMPATIBLE_INSTANCE_TYPES: &str = "NoCompatibleInstanceTypes";
/// The pod is expected on a node or claim.
pub const NOMINATED: &str = "Nominated";
/// Too many nodes are unhealthy for repair to be safe.
pub const NODE_REPAIR_BLOCKED: &str = "NodeRepairBlocked";
/// The instance of the node has rebooted.
pub const REBOOT_OBSERVED: &str = "RebootObserved";
/// The pod is deleted because its node reached its deadline.
pub const DISRUPTED: &str = "Disrupted";
/// The pod was evicted from a node that is being removed.
pub const EVICTED: &str = "Evicted";
/// Pods still keep the node from being removed.
pub const FAILED_DRAINING: &str = "FailedDraining";
/// The cloud refuses to terminate the instance of a node or claim that is being removed.
pub const TERMINATION_FAILED: &str = "TerminationFailed";
/// The node will be removed at its deadline whatever its pods ask for.
pub const TERMINATION_GRACE_PERIOD_EXPIRING: &str = "TerminationGracePeriodExpiring";
/// Volumes are still attached to the node that is being removed.
pub const AWAITING_VOLUME_DETACHMENT: &str = "AwaitingVolumeDetachment";
/// The node does not have what its claim promised.
pub const FAILED_CONSISTENCY_CHECK: &str = "FailedConsistencyCheck";
/// The cloud had no capacity for the claim.
pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacityError";
/// The node joined without the taint that keeps pods away until it is registered.
pub const UNREGISTERED_TAINT_MISSING: &str = "UnregisteredTaintMissing";
/// The node has registered and is not initialized for a long time.
pub const NODE_NOT_INITIALIZED: &str = "NodeNotInitialized";
/// The node would have to expire before it can be of use.
pub const EXPIRY_HELD: &str = "ExpiryHeld";
/// The do-not-disrupt annotation of the pod cannot be read.
pub const INVALID_DO_NOT_DISRUPT: &str = "InvalidDoNotDisruptAnnotation";
/// The node expires soon, and its pool can launch nothing in its place.
pub const EXPIRES_UNREPLACED: &str = "ExpiresWithoutReplacement";
/// The pod is protected for some time.
pub const DO_NOT_DISRUPT_UNTIL: &str = "DoNotDisruptUntil";
/// The protection of the pod has ended.
pub const DO_NOT_DISRUPT_ELAPSED: &str = "DoNotDisruptGracePeriodElapsed";
/// The finalizer is gone.
pub const FINALIZED: &str = "Finalized";
/// Nodes came up for pods like this one and the scheduler did not use them.
pub const PROMISED_NODE_NOT_USED: &str = "PromisedNodeNotUsed";
/// A node has other devices than its type was to bring along.
pub const DEVICES_NOT_AS_DESCRIBED: &str = "DevicesNotAsDescribed";
/// A plan broke a rule and was not applied.
pub const PLAN_REFUSED: &str = "PlanRefused";
/// The cluster is shifted away from a zone.
pub const ZONAL_SHIFT_ACTIVE: &str = "ZonalShiftActive";
/// A shift away from a zone is over.
pub const ZONAL_SHIFT_CLEARED: &str = "ZonalShiftCleared";
/// The cloud takes a spot instance back.
pub const SPOT_INTERRUPTED: &str = "SpotInterrupted";
/// The cloud takes a reserved instance back.
pub const CAPACITY_RESERVATION_INTERRUPTED: &str = "CapacityReservationInstanceInterrupted";
/// The cloud advises to move off a spot instance.
pub const SPOT_REBALANCE: &str = "SpotRebalanceRecommendation";
/// The instance is stopping.
pub const INSTANCE_STOPPING: &str = "InstanceStopping";
/// The instance is terminating.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// The instance is impaired or has maintenance ahead.
pub const INSTANCE_UNHEALTHY: &str = "InstanceUnhealthy";
/// The claim is deleted because its instance is going away.
pub const TERMINATING_ON_INTERRUPTION: &str = "TerminatingOnInterruption";
/// Claims still use the node class that is being deleted.
pub const WAITING_ON_NODE_CLAIM_TERMINATION: &str = "WaitingOnNodeClaimTermination";
