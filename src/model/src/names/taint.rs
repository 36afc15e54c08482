//! Keys of taints (spec scheduling 2).

/// A node carries it while it is disrupted or terminated.
pub const DISRUPTED: &str = "karpenter.sh/disrupted";
/// A node carries it while its instance is rebooted.
pub(crate) const REBOOTING: &str = "karpenter.sh/rebooting";
/// A node carries it from boot until it is registered.
pub(crate) const UNREGISTERED: &str = "karpenter.sh/unregistered";
/// The kubelet of the node does not report that it is ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The kubelet of the node does not report.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The node runs out of disk space.
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// The node runs out of memory.
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// The node runs out of process ids.
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// The network of the node is not set up.
pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
/// The cloud controller manager has not seen the node yet.
pub(crate) const CLOUD_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Prefix of the keys of the node readiness controller.
pub(crate) const READINESS_PREFIX: &str = "readiness.k8s.io/";
