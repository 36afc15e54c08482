//! The world once every command of a plan has been started: its machines are being removed, and their pods
//! wait for the places the commands promise them. Rules about places are checked against that.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{BinId, Node, NodeId, Plan, Pod, Snapshot};

use crate::world::is_for_static;

/// The snapshot with the machines being removed, and what commands promise as a plan for it.
pub(crate) struct Afterwards {
    pub(crate) snapshot: Snapshot,
    pub(crate) plan: Plan,
    /// Pods wait that no command mentions.
    pub(crate) others_wait: bool,
}

impl Afterwards {
    /// Returns the state after the commands of `plan`.
    pub(crate) fn of(snapshot: &Snapshot, plan: &Plan) -> Self {
        let gone: BTreeSet<&NodeId> =
            plan.commands.iter().flat_map(karpenter_model::Command::nodes).collect();
        let (leaving, staying): (Vec<_>, Vec<_>) =
            snapshot.nodes.iter().cloned().partition(|node| gone.contains(&node.id));
        let ending = leaving.iter().map(|node| Arc::new(ending(snapshot, node)));
        let mut after = Plan { revision: plan.revision, ..Plan::default() };
        // Replacements of static machines are for no pod in particular; they are checked by themselves.
        let commands = plan.commands.iter().filter(|command| !is_for_static(snapshot, command));
        for command in commands {
            after.launches.extend(command.replacements.iter().cloned());
            after.nominations.extend(command.nominations.iter().cloned());
        }
        for (number, launch) in (1..).zip(&mut after.launches) {
            launch.bin = BinId(number);
        }
        let nodes = staying.iter().cloned().chain(ending).collect();
        let mut world = Snapshot { nodes, ..snapshot.clone() };
        let homeless = leaving.iter().flat_map(|node: &Arc<Node>| &node.pods);
        let homeless = homeless.filter(|pod| snapshot.currently_reschedulable(pod));
        world.pending.extend(homeless.map(|pod| Arc::new(unbound(pod))));
        let launched = after.launches.iter().flat_map(|launch| &launch.pods);
        let placed: BTreeSet<_> =
            launched.chain(after.nominations.iter().map(|nomination| &nomination.pod)).collect();
        let elsewhere = staying.iter().filter(|node| node.is_leaving()).flat_map(|node| &node.pods);
        let others_wait = world.pending.iter().chain(elsewhere).any(|pod| !placed.contains(&pod.key));
        Self { snapshot: world, others_wait, plan: after }
    }
}

/// `node` when its pods look for another place: what ends with it, such as daemons, is still there and counts in
/// rules about other pods, as it does for the scheduler at that moment.
fn ending(snapshot: &Snapshot, node: &Node) -> Node {
    let pods = node.pods.iter().filter(|pod| !snapshot.currently_reschedulable(pod)).cloned().collect();
    Node { pods, marked_for_deletion: true, ..node.clone() }
}

/// `pod` once it has left its machine.
fn unbound(pod: &Pod) -> Pod {
    Pod { node_name: None, nominated_node: None, unschedulable: true, ..pod.clone() }
}
