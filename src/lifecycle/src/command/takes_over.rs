//! Replacements that have come up and can take the pods of the machines they replace.
//!
//! A replacement that cannot is waited for as if it were still on its way, so a fleet whose new image keeps a taint, or more
//! room, is not drained onto nodes that take no pod. The reference removes the old nodes all the same.

use karpenter_model::{Claim, Effect, NodeObject};

/// Returns whether `node` has the room that its claim was made for, and no taint that was not announced and that none of the
/// nodes it replaces, `before`, has: pods on those live with theirs.
pub fn takes_over(claim: &Claim, node: &NodeObject, before: &[&NodeObject]) -> bool {
    let announced = || claim.taints.iter().chain(&claim.startup_taints);
    let known = || before.iter().flat_map(|node| &node.taints).chain(announced());
    // A preference keeps no pod away.
    let mut taints = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    taints.all(|taint| known().any(|other| other.matches(taint))) && claim.requests.fits(&node.allocatable)
}

#[cfg(test)]
mod tests {
    use karpenter_model::{Quantity, Resources, Taint};

    use super::*;
    use crate::fixture::{claim, node};

    fn cpu(cores: i64) -> Resources {
        Resources::new().with("cpu", Quantity::from_millis(cores * 1_000))
    }

    #[test]
    fn a_machine_takes_over_with_the_room_it_was_made_for() {
        let claim = Claim { requests: cpu(3), ..claim() };
        let with = |room| NodeObject { allocatable: room, ..node() };
        assert!(takes_over(&claim, &with(cpu(3)), &[]));
        assert!(!takes_over(&claim, &with(cpu(2)), &[]));
        assert!(!takes_over(&claim, &with(Resources::new()), &[]));
    }

    #[test]
    fn a_machine_takes_over_without_taints_that_only_it_has() {
        let odd = Taint::new("example.com/odd", "", Effect::NoSchedule);
        let with = |taint: &Taint| NodeObject { taints: vec![taint.clone()], ..node() };
        let tainted = with(&odd);
        assert!(!takes_over(&claim(), &tainted, &[&node()]));
        assert!(takes_over(&claim(), &tainted, &[&node(), &with(&odd)]), "pods run beside it");
        let announced = Claim { taints: vec![odd], ..claim() };
        assert!(takes_over(&announced, &tainted, &[]));
        let soft = Taint::new("example.com/odd", "", Effect::PreferNoSchedule);
        assert!(takes_over(&claim(), &with(&soft), &[]));
    }
}
