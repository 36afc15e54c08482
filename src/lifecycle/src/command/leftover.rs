//! Leftovers of commands whose process ended or that were rolled back half-way: a taint that keeps pods away and a
//! condition, neither of which belongs to a command any more (spec disruption 3.1.4).

use karpenter_model::{ClaimName, ConditionType, Node, NodeName, Taint};

/// Changes to take back from one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub node: NodeName,
    pub claim: ClaimName,
    /// The Node has the disrupted taint.
    pub taint: bool,
    /// The claim has the condition `DisruptionReason`.
    pub condition: bool,
}

/// Leftovers of a command on `node`, which no command has any more. Machines that are being removed keep theirs, and those
/// that are not ours are not touched.
pub fn leftover(node: &Node) -> Option<Leftover> {
    let (claim, name) = (node.claim.as_deref()?, node.name.clone()?);
    if node.is_leaving() || node.deletion.is_some() {
        return None;
    }
    let taint = node.taints.iter().any(|taint| taint.matches(&Taint::disrupted()));
    // As in the reference, on initialized nodes only (spec disruption 3.1.4). A machine that is being rebooted is
    // none, and keeps the condition that its repair has set.
    let condition = node.initialized() && claim.conditions.contains_key(&ConditionType::DisruptionReason);
    (taint || condition).then(|| Leftover { node: name, claim: claim.name.clone(), taint, condition })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::Claim;
    use karpenter_model::names::label;

    use super::*;
    use crate::fixture::{at, claim, holding};

    fn machine(claim: Claim) -> Node {
        let mut node = Node::new("id".into(), at(0));
        node.name = Some("node".into());
        node.labels = [(label::INITIALIZED.into(), "true".into())].into();
        node.claim = Some(Arc::new(claim));
        node
    }

    fn marked() -> Claim {
        holding(claim(), &[ConditionType::DisruptionReason])
    }

    fn tainted(mut node: Node) -> Node {
        node.taints = vec![Taint::disrupted()];
        node
    }

    #[test]
    fn what_a_command_wrote_is_found() {
        let found = |node: &Node| leftover(node).map(|leftover| (leftover.taint, leftover.condition));
        assert_eq!(found(&machine(claim())), None);
        assert_eq!(found(&tainted(machine(claim()))), Some((true, false)));
        assert_eq!(found(&machine(marked())), Some((false, true)));
        assert_eq!(found(&tainted(machine(marked()))), Some((true, true)));
    }

    #[test]
    fn the_condition_stays_until_the_node_is_initialized() {
        let mut node = tainted(machine(marked()));
        node.labels.clear();
        assert_eq!(leftover(&node).map(|leftover| leftover.condition), Some(false));
    }

    #[test]
    fn machines_that_leave_and_machines_of_others_keep_their_taint() {
        let leaving: [fn(&mut Node); 5] = [
            |node| node.marked_for_deletion = true,
            |node| node.deletion = Some(at(1)),
            |node| node.claim = Some(Arc::new(Claim { deletion: Some(at(1)), ..marked() })),
            |node| node.claim = Some(Arc::new(holding(marked(), &[ConditionType::InstanceTerminating]))),
            |node| node.claim = None,
        ];
        for (index, change) in leaving.into_iter().enumerate() {
            let mut node = tainted(machine(marked()));
            change(&mut node);
            assert_eq!(leftover(&node), None, "{index}");
        }
    }
}
