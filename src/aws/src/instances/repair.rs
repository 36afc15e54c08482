//! Node conditions that justify replacing a machine (spec aws-provider 5.12).

use std::time::Duration;

use karpenter_cloud::RepairPolicy;
use karpenter_model::names::condition;

const MINUTE: u64 = 60;

/// The policies of the EKS node monitoring agent's conditions.
pub(crate) const POLICIES: [RepairPolicy; 7] = [
    policy(condition::READY, "False", 30),
    policy(condition::READY, "Unknown", 30),
    policy("AcceleratedHardwareReady", "False", 10),
    policy("StorageReady", "False", 30),
    policy("NetworkingReady", "False", 30),
    policy("KernelReady", "False", 30),
    policy("ContainerRuntimeReady", "False", 30),
];

const fn policy(condition: &'static str, status: &'static str, minutes: u64) -> RepairPolicy {
    RepairPolicy { condition, status, toleration: Duration::from_secs(minutes * MINUTE) }
}
