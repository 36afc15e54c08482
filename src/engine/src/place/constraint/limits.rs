//! Pool limits, charged when a bin is opened so that a plan never overruns them (spec core-scheduling 15).
//!
//! A new bin is charged with the most it can turn out to be; narrowing it later gives nothing back. Unlike
//! the reference, `nodes` is charged too, so one pass cannot open more nodes than are left.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::{Pool, PoolName, Quantity, Reason, Resources, Snapshot, resources};

use crate::bits::Bits;
use crate::catalogue::Catalogue;

/// Capacity of the machines of each pool that are not on their way out; those that are not launched yet count
/// as the most they may become.
pub(crate) fn usage(snapshot: &Snapshot) -> BTreeMap<PoolName, Resources> {
    let mut usage: BTreeMap<PoolName, Resources> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
        let Some(pool) = node.pool() else { continue };
        let mut capacity = node.effective_capacity();
        if let (Some(claim), Some(types)) = (node.unlaunched(), snapshot.instance_types.get(&pool)) {
            let possible =
                types.iter().filter(|one| claim.requirements.intersects(&one.requirements).is_ok());
            let most = Resources::max(possible.map(|one| &one.capacity));
            capacity = Resources::max([&capacity, &most]);
        }
        usage.entry(pool).or_default().add(&capacity);
    }
    usage
}

/// What a pool may still add.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Left per limited resource; empty when nothing is limited.
    remaining: Resources,
}

impl Limits {
    /// The limits of `pool`, less what it uses.
    pub(crate) fn new(pool: &Pool, used: Option<&Resources>) -> Self {
        let limits = pool.limits.clone().unwrap_or_default();
        Self { remaining: used.map_or(limits.clone(), |used| limits.subtract(used)) }
    }

    /// The shapes of `base` a new bin may still become.
    pub(crate) fn admit(&self, catalogue: &Catalogue<'_>, base: &Bits) -> Result<Bits, Reason> {
        let refuse = |detail: String| Reason::new(ReasonCode::Limits, detail);
        if self.remaining.is_empty() {
            return Ok(base.clone());
        }
        if self.remaining.get(resources::NODES).is_some_and(|nodes| nodes < Quantity::ONE) {
            return Err(refuse("no node is left".to_owned()));
        }
        let mut allowed = base.clone();
        for shape in base.iter() {
            let capacity = &catalogue.shape(shape).capacity;
            let exceeds = |(name, left): (&_, &Quantity)| {
                let name: &karpenter_model::ResourceName = name;
                name != resources::NODES && capacity.amount(name.as_str()) > *left
            };
            if self.remaining.iter().any(exceeds) {
                allowed.remove(shape);
            }
        }
        if allowed.is_empty() {
            return Err(refuse(format!("every instance type exceeds what is left of {}", self.remaining)));
        }
        Ok(allowed)
    }

    /// Charges a new bin that may become any of `shapes`.
    pub(crate) fn charge(&mut self, catalogue: &Catalogue<'_>, shapes: &Bits) {
        if self.remaining.is_empty() {
            return;
        }
        let capacities = shapes.iter().map(|shape| &catalogue.shape(shape).capacity);
        let most = Resources::max(capacities).with(resources::NODES, Quantity::ONE);
        self.remaining = self.remaining.subtract(&most);
    }
}
