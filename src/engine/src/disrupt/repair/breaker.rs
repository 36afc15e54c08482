//! The breaker: when more than a fifth of a pool looks broken, the cause is probably not the machines, and none of them is
//! repaired.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::repair::broken_max;
use karpenter_model::{PoolName, Snapshot};

use crate::disrupt::candidate::choice::is_covered;

/// Pools of which too many nodes show a condition that a policy is for, tolerated or not.
pub(crate) fn tripped(snapshot: &Snapshot) -> BTreeSet<PoolName> {
    let mut pools: BTreeMap<PoolName, (usize, usize)> = BTreeMap::new();
    // The breaker counts Nodes: a claim that has none yet shows no condition (spec disruption 4.2).
    for node in snapshot.nodes.iter().filter(|node| node.name.is_some()) {
        let Some(pool) = node.pool() else { continue };
        let (nodes, covered) = pools.entry(pool).or_default();
        *nodes += 1;
        *covered += usize::from(is_covered(node, &snapshot.repair));
    }
    let too_many = |(_, (nodes, covered)): &(PoolName, (usize, usize))| *covered > broken_max(*nodes);
    pools.into_iter().filter(too_many).map(|(pool, _)| pool).collect()
}
