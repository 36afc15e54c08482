//! Pool limits, charged when an in-flight node is opened so that a plan never overruns them (spec scheduling 15).
//!
//! A new node is charged with the most it can turn out to be; narrowing it later gives nothing back. Unlike
//! the reference, `nodes` is charged too, so one pass cannot open more nodes than are left.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::resources;
use karpenter_model::{Pool, PoolName, Quantity, Reason, Requirements, ResourceName, Resources, Snapshot};

use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::VariantIx;

/// Capacity of the nodes of each pool with limits that are not being removed; those that are not launched yet count
/// as the most they may become.
pub(crate) fn usage(snapshot: &Snapshot) -> BTreeMap<PoolName, Resources> {
    let limited = snapshot.pools.iter().filter(|pool| pool.limits.is_some());
    let mut usage: BTreeMap<PoolName, Resources> =
        limited.map(|pool| (pool.name.clone(), Resources::default())).collect();
    // Claims of one launch ask for the same, and every instance type is looked at to see what such a claim may become.
    let mut most: BTreeMap<(PoolName, &Requirements), Resources> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
        let Some(pool) = node.pool() else { continue };
        let Some(used) = usage.get_mut(&pool) else { continue };
        let mut capacity = node.effective_capacity();
        if let (Some(claim), Some(types)) = (node.unlaunched(), snapshot.instance_types.get(&pool)) {
            let most = most.entry((pool, &claim.requirements)).or_insert_with(|| {
                let possible =
                    types.iter().filter(|one| claim.requirements.intersects(&one.requirements).is_ok());
                Resources::max(possible.map(|one| &one.capacity))
            });
            capacity = Resources::max([&capacity, most]);
        }
        used.add(&capacity);
    }
    usage
}

/// Resources that a pool may still add.
#[derive(Debug, Clone)]
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

    /// The instance types of `base` a new node may still become.
    pub(crate) fn admit(
        &self,
        catalogue: &Catalogue<'_>,
        base: &Bits<VariantIx>,
    ) -> Result<Bits<VariantIx>, Reason> {
        let refuse = |detail: String| Reason::new(ReasonCode::Limits, detail);
        if self.remaining.is_empty() {
            return Ok(base.clone());
        }
        // A negative rest admits no node either; the reference only stops at exactly zero (spec scheduling
        // 15).
        if self.remaining.get(resources::NODES).is_some_and(|nodes| nodes < Quantity::ONE) {
            return Err(refuse("limit `nodes` is reached".to_owned()));
        }
        let exceeds = |variant: VariantIx, name: &ResourceName, left: Quantity| {
            *name != resources::NODES && catalogue.variant(variant).capacity.amount(name.as_str()) > left
        };
        let mut allowed = base.clone();
        for variant in base.iter() {
            if self.remaining.iter().any(|(name, left)| exceeds(variant, name, *left)) {
                allowed.remove(variant);
            }
        }
        if allowed.is_empty() {
            return Err(refuse(self.reached(base, catalogue)));
        }
        Ok(allowed)
    }

    /// Returns the limits that are reached: what is left of each and the least any type of `base` would take.
    fn reached(&self, base: &Bits<VariantIx>, catalogue: &Catalogue<'_>) -> String {
        let least = |name: &ResourceName| {
            base.iter().map(|variant| catalogue.variant(variant).capacity.amount(name.as_str())).min()
        };
        let reached = self.remaining.iter().filter_map(|(name, left)| {
            let least = least(name).filter(|least| least > left)?;
            Some(format!("limit `{name}` is reached, {left} left and the smallest instance type has {least}"))
        });
        let reached: Vec<String> = reached.collect();
        if reached.is_empty() {
            return format!("every instance type exceeds what is left of {}", self.remaining);
        }
        reached.join(", ")
    }

    /// Returns whether nothing is limited.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.remaining.is_empty()
    }

    /// A node with this capacity is gone.
    pub(crate) fn give_back(&mut self, capacity: &Resources) {
        let names: Vec<ResourceName> = self.remaining.iter().map(|(name, _)| name.clone()).collect();
        for name in names {
            let left = self.remaining.amount(name.as_str()).saturating_add(capacity.amount(name.as_str()));
            self.remaining.set(name.as_str(), left);
        }
    }

    /// Returns the rest when nodes that may become any of `after` take the place of those that may become any of
    /// `before`; `None` when they exceed the limits. Those before were charged at least what they may still become.
    pub(crate) fn exchanged(
        &self,
        catalogue: &Catalogue<'_>,
        before: &[&Bits<VariantIx>],
        after: &[&Bits<VariantIx>],
    ) -> Option<Self> {
        let mut left = self.clone();
        for variants in before {
            left.give_back(&most(catalogue, variants));
        }
        for variants in after {
            left.charge(catalogue, variants);
        }
        let is_overrun = left.remaining.iter().any(|(_, left)| left.is_negative());
        (!is_overrun).then_some(left)
    }

    /// Returns those of `variants` that take no more of what is limited than `largest` does.
    pub(crate) fn no_larger(
        &self,
        catalogue: &Catalogue<'_>,
        variants: &Bits<VariantIx>,
        largest: VariantIx,
    ) -> Bits<VariantIx> {
        let mut kept = variants.clone();
        let amount = |variant, name: &str| catalogue.variant(variant).capacity.amount(name);
        for variant in variants.iter() {
            let exceeds =
                |name: &ResourceName| amount(variant, name.as_str()) > amount(largest, name.as_str());
            if self.remaining.iter().any(|(name, _)| exceeds(name)) {
                kept.remove(variant);
            }
        }
        kept
    }

    /// Charges a new node that may become any of `variants`.
    pub(crate) fn charge(&mut self, catalogue: &Catalogue<'_>, variants: &Bits<VariantIx>) {
        if self.remaining.is_empty() {
            return;
        }
        self.remaining = self.remaining.subtract(&most(catalogue, variants));
    }
}

/// The most a new node that may become any of `variants` takes.
fn most(catalogue: &Catalogue<'_>, variants: &Bits<VariantIx>) -> Resources {
    let capacities = variants.iter().map(|variant| &catalogue.variant(variant).capacity);
    Resources::max(capacities).with(resources::NODES, Quantity::ONE)
}
