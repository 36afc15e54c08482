//! Annotations (spec scheduling 2).

pub mod aws;

/// Pods and nodes: blocks voluntary disruption. `true`; on pods also a positive duration.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Nodes and claims: `true` keeps repair away.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// Pools and claims: hash of the pool template, decimal.
pub const POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Pools and claims: version of the hash algorithm.
pub const POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// Claims: RFC 3339 instant after which termination no longer waits.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// Claims: longest time the drain before a reboot may take, as Go writes a duration; absent: no bound.
pub const REBOOT_GRACE_PERIOD: &str = "karpenter.sh/reboot-termination-grace-period";
/// Claims: boot id of the Node before the call that reboots its instance.
pub const PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Claims: sorted, comma-separated drivers of devices to wait for.
pub const REQUESTED_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Claims: `true` when `minValues` were lowered.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// Claims: `true` when a type it may become has an overlaid price.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// Claims: `true` when a type it may become has an overlaid amount of a resource.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Claims: RFC 3339 instant at which the cloud recommended to move off the machine, written where the controller is set to
/// act on that.
pub const REBALANCE_RECOMMENDED: &str = "karpenter.sh/rebalance-recommended";
/// Claims: sorted, comma-separated keys of the workloads that the claim was launched for.
pub const LAUNCHED_FOR: &str = "karpenter.sh/launched-for";
/// Pools: the workloads that nodes of the pool have not served, as JSON. Taking it away ends their holds.
pub const UNSERVED_WORKLOADS: &str = "karpenter.sh/unserved-workloads";
/// Pods: how much its eviction costs compared with that of an ordinary pod, an integer of 32 bits.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
/// Pods: how much deleting this pod of a ReplicaSet costs compared with its siblings, an integer.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Volume claims: set once claim and volume are bound to each other.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Volume claims: the Node the scheduler has chosen for the pod. The volume is provisioned for it, and the scheduler sends
/// the pod to no other one.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Storage classes: claims that name none get this one.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Any object: rules of `karpenter lint` whose warnings are meant, separated by commas.
pub const LINT_ACCEPTED: &str = "karpenter.sh/lint-accepted";

/// Names of versions before v1 and present names. Nothing reads the old ones any more.
pub const RENAMED: [(&str, &str); 2] =
    [("karpenter.sh/do-not-evict", DO_NOT_DISRUPT), ("karpenter.sh/do-not-consolidate", DO_NOT_DISRUPT)];
