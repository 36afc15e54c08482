//! Effects of standing commands that the snapshot does not show yet.
//!
//! Commands happen in the order in which they were proposed: each was judged on what those before it leave, so
//! passes and second looks take them in that order too. In any other, pods of two commands may get places that
//! the commands do not have, and both may then get the same one.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{Command, Node, NodeId, Snapshot};

use crate::disrupt::Standing;

/// Nodes one standing command takes away.
#[derive(Debug)]
pub(crate) struct Assumed<'a> {
    /// Its place among the proposed commands; none for commands that are known only by their nodes, which came before.
    pub(crate) place: Option<usize>,
    /// The nodes that are not leaving in the snapshot; at least one.
    pub(crate) nodes: Vec<&'a Node>,
}

/// Nodes of standing commands that `count` and are not being removed in `snapshot`, in the order of the commands and
/// each once: a command that is proposed and runs already is one.
pub(crate) fn assumed<'a>(
    snapshot: &'a Snapshot,
    standing: &Standing<'_>,
    count: impl Fn(&NodeId) -> bool,
) -> Vec<Assumed<'a>> {
    let by_id: BTreeMap<&NodeId, &'a Node> =
        snapshot.nodes.iter().map(|node| (&node.id, node.as_ref())).collect();
    let here = |id: &NodeId| by_id.get(id).copied().filter(|node| count(&node.id) && !node.is_leaving());
    let named: BTreeSet<&NodeId> = standing.proposed.iter().flat_map(Command::nodes).collect();
    let others = standing.running.iter().filter(|id| !named.contains(id));
    let before = Assumed { place: None, nodes: others.filter_map(here).collect() };
    let proposed = standing.proposed.iter().enumerate().map(|(place, command)| Assumed {
        place: Some(place),
        nodes: command.nodes().filter_map(here).collect(),
    });
    std::iter::once(before).chain(proposed).filter(|one| !one.nodes.is_empty()).collect()
}
