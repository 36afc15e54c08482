//! Every pod of a machine that goes, and that would come back elsewhere, has a place in the very command that removes
//! its machine (spec disruption 3.5).

use std::collections::BTreeSet;

use karpenter_model::{Method, Plan, PodKey};

use crate::finding::{Finding, Rule};
use crate::rules::commands::terminate_first;
use crate::world::{World, is_for_static};

/// `world` is the one after the commands: only pods that need a place wait there.
pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    for command in &plan.commands {
        // Pods of empty machines cost nothing to evict; static machines are replaced by as many others, and a machine that is
        // rebooted takes them again.
        if command.method == Method::Emptiness
            || command.is_reboot()
            || is_for_static(world.snapshot, command)
        {
            continue;
        }
        let launched = command.replacements.iter().flat_map(|launch| &launch.pods);
        let placed: BTreeSet<&PodKey> =
            launched.chain(command.nominations.iter().map(|nomination| &nomination.pod)).collect();
        let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
        let comes_back = |pod: &PodKey| command.terminate_first && terminate_first::fits(world, command, pod);
        for pod in pods
            .filter(|pod| !comes_back(pod))
            .filter(|pod| world.pod(pod).is_some() && !placed.contains(pod))
        {
            findings.push(Finding::new(Rule::Displaced, pod, "has no place once its node is gone"));
        }
    }
}
