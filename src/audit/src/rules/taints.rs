//! Pods tolerate the hard taints of the claim they go to; startup taints go away before pods come.

use karpenter_model::Launch;

use crate::finding::{Finding, Rule};
use crate::world::{World, hard_taint};

pub(crate) fn check_launch(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    for pod in world.pods_of(launch) {
        if let Some(taint) = hard_taint(&launch.taints, pod) {
            findings.push(Finding::new(
                Rule::Taint,
                &pod.key,
                format!("does not tolerate {taint} of {}", launch.bin),
            ));
        }
    }
}
