//! `status.resources` and `status.nodes` of a pool (spec disruption 1.14).

use std::time::Duration;

use karpenter_model::{Node, PoolName, Quantity, Resources};

/// Period of the count.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Resources shown even when there are none.
const ALWAYS_SHOWN: [&str; 5] = ["cpu", "memory", "pods", "ephemeral-storage", "nodes"];

/// Sums over a pool's machines; machines that are being removed do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// `status.resources`.
    pub resources: Resources,
    /// `status.nodes`.
    pub nodes: i64,
}

/// Counts the machines of a pool.
pub fn count<'a>(pool: &PoolName, nodes: impl IntoIterator<Item = &'a Node>) -> Count {
    let mut resources =
        ALWAYS_SHOWN.iter().fold(Resources::new(), |all, name| all.with(name, Quantity::ZERO));
    for node in nodes {
        if node.is_managed() && !node.is_leaving() && node.pool().as_ref() == Some(pool) {
            resources.add(&node.effective_capacity());
        }
    }
    let nodes = resources.amount("nodes").as_units_ceil();
    Count { resources, nodes }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::names::label;
    use karpenter_model::{Claim, ConditionType};

    use super::*;
    use crate::fixture::{at, claim, holding};

    fn machine(promised: i64) -> Node {
        let claim =
            Claim { capacity: Resources::new().with("cpu", Quantity::from_units(promised)), ..claim() };
        Node { claim: Some(Arc::new(claim)), ..Node::new("cloud:///i-1".into(), at(0)) }
    }

    #[test]
    fn an_empty_pool_shows_zeros() {
        let count = count(&"web".into(), []);
        assert_eq!(count.nodes, 0);
        for name in ALWAYS_SHOWN {
            assert_eq!(count.resources.get(name), Some(Quantity::ZERO), "{name}");
        }
    }

    #[test]
    fn counts_promised_capacity_until_initialized_and_then_the_node() {
        let promised = machine(4);
        let mut initialized = Node { name: Some("node-1".into()), ..machine(4) };
        initialized.capacity = Resources::new().with("cpu", Quantity::from_units(3));
        for key in [label::REGISTERED, label::INITIALIZED] {
            initialized.labels.insert(key.into(), "true".into());
        }
        initialized.labels.insert(label::NODE_POOL.into(), "web".into());
        let both = count(&"web".into(), [&promised, &initialized]);
        assert_eq!((both.nodes, both.resources.amount("cpu")), (2, Quantity::from_units(7)));
    }

    #[test]
    fn leaves_out_machines_on_their_way_out_and_of_other_pools() {
        let terminating = holding(claim(), &[ConditionType::InstanceTerminating]);
        let ending = Node { claim: Some(Arc::new(terminating)), ..machine(4) };
        let marked = Node { marked_for_deletion: true, ..machine(4) };
        assert_eq!(count(&"web".into(), [&ending, &marked]).nodes, 0);
        assert_eq!(count(&"other".into(), [&machine(4)]).nodes, 0);
    }
}
