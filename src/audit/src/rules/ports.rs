//! No two pods of a claim request the same host port, and no daemon holds it.

use karpenter_model::{Launch, Pod};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check_launch(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    let pods: Vec<&Pod> =
        world.pods_of(launch).into_iter().filter(|pod| !pod.host_ports.is_empty()).collect();
    let types = if pods.is_empty() { Vec::new() } else { world.types_with_daemons(launch) };
    for (index, pod) in pods.iter().enumerate() {
        for other in &pods[..index] {
            if conflict(pod, other) {
                let detail = format!("wants a host port of {}", other.key);
                findings.push(Finding::new(Rule::HostPort, &pod.key, detail));
            }
        }
        for (instance_type, daemons) in &types {
            if daemons.pods.iter().any(|daemon| conflict(pod, daemon)) {
                let detail = format!("wants a host port of a daemon on type `{}`", instance_type.name);
                findings.push(Finding::new(Rule::HostPort, &pod.key, detail));
            }
        }
    }
}

/// Returns whether two pods cannot share a host.
pub(crate) fn conflict(pod: &Pod, other: &Pod) -> bool {
    pod.key != other.key
        && pod.host_ports.iter().any(|port| other.host_ports.iter().any(|held| held.conflicts_with(port)))
}
