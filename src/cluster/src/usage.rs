//! Sums over the machines of each pool, kept up to date machine by machine (spec scheduling 27.5).
//!
//! Every machine contributes at most once, and what it contributed is remembered: a change takes exactly that out
//! again, so nothing is ever subtracted twice.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{Node, NodeId, PoolName, Resources};

/// Sums per pool.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    contributions: BTreeMap<NodeId, (PoolName, Resources)>,
    pools: BTreeMap<PoolName, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    resources: Resources,
    machines: usize,
}

impl Usage {
    /// Replaces the contribution of one machine; `None` when it is gone.
    pub(crate) fn set(&mut self, id: &NodeId, machine: Option<&Node>) {
        let new = machine.and_then(contribution);
        if self.contributions.get(id) == new.as_ref() {
            return;
        }
        if let Some((pool, resources)) = self.contributions.remove(id) {
            self.subtract(&pool, &resources);
        }
        if let Some((pool, resources)) = new {
            let sum = self.pools.entry(pool.clone()).or_default();
            sum.resources.add(&resources);
            sum.machines += 1;
            self.contributions.insert(id.clone(), (pool, resources));
        }
    }

    /// Returns the sum over the machines of a pool; empty when it has none.
    pub(crate) fn of(&self, pool: &PoolName) -> Resources {
        self.pools.get(pool).map(|sum| sum.resources.clone()).unwrap_or_default()
    }

    /// Returns the number of machines of a pool.
    pub(crate) fn machines(&self, pool: &PoolName) -> usize {
        self.pools.get(pool).map_or(0, |sum| sum.machines)
    }

    /// Returns the sum and the number of machines of a pool without the machines `going`.
    pub(crate) fn without(&self, pool: &PoolName, going: &BTreeSet<NodeId>) -> (Resources, usize) {
        let (mut resources, mut machines) = (self.of(pool), self.machines(pool));
        for id in going {
            let Some((_, own)) = self.contributions.get(id).filter(|(of, _)| of == pool) else { continue };
            resources = resources.subtract(own);
            machines -= 1;
        }
        (resources, machines)
    }

    fn subtract(&mut self, pool: &PoolName, resources: &Resources) {
        let Some(sum) = self.pools.get_mut(pool) else { return };
        sum.machines -= 1;
        if sum.machines == 0 {
            self.pools.remove(pool);
            return;
        }
        for (name, quantity) in resources.iter() {
            let left = sum.resources.amount(name.as_str()).saturating_sub(*quantity);
            if left.is_zero() {
                sum.resources.remove(name.as_str());
            } else {
                sum.resources.set(name.as_str(), left);
            }
        }
    }
}

/// A managed machine that stays counts with its capacity, one node included.
fn contribution(machine: &Node) -> Option<(PoolName, Resources)> {
    if !machine.is_managed() || machine.is_leaving() {
        return None;
    }
    Some((machine.pool()?, machine.effective_capacity()))
}
