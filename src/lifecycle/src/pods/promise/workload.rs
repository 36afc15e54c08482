//! Pods that the scheduler treats alike: the key under which broken promises are counted.
//!
//! The key is a hash, so that it fits into annotations and survives a change of leader. It covers the namespace, the
//! scheduler, everything pods ask of a node, and the controller that made them. Names and labels are left out: another
//! replica of the same template is no new argument. A rollout is one; its pods have another owner.

use std::fmt;

use karpenter_model::{Pod, PodOwner};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes of the hash that are kept: two of the workloads of one cluster do not meet in 64 bits.
const BYTES: usize = 8;

/// The key of a workload, sixteen hexadecimal digits. Equal keys, equal answers of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Workload(String);

impl Workload {
    /// The workload `pod` belongs to.
    pub fn of(pod: &Pod) -> Self {
        let asks = format!(
            "{} {} {} {:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
            pod.key.namespace,
            owner(pod),
            pod.scheduler_name,
            pod.requests,
            pod.node_selector,
            pod.required_terms,
            pod.tolerations,
            pod.host_ports,
            pod.spread,
            pod.pod_affinity,
            pod.pod_anti_affinity,
        );
        let hash = Sha256::digest(asks.as_bytes());
        Self(hash.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect())
    }
}

impl From<&str> for Workload {
    fn from(key: &str) -> Self {
        Self(key.to_owned())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The controller of a pod, where it lives as long as the workload does. Every run of a `CronJob` has a Job of its own, and
/// many operators make an owner for every run; with those in the key each run would buy its own three nodes.
fn owner(pod: &Pod) -> String {
    match (pod.owner, &pod.owner_uid) {
        (PodOwner::ReplicaSet | PodOwner::StatefulSet, Some(uid)) => uid.to_string(),
        (owner, _) => format!("{owner:?}"),
    }
}
