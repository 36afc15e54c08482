//! The nearest miss: the smallest change of the pod, or of what is on offer, that would have let a pool host it. It tells
//! the reader of a refusal what to change.

use std::fmt;

use karpenter_model::pod::volume::ATTACHABLE_PREFIX;
use karpenter_model::resources;
use karpenter_model::{InstanceTypeName, Quantity, ResourceName, Resources};

use super::Criteria;
use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{ResourceIx, VariantIx};
use crate::place::level::Demand;
use crate::place::pool::PoolSpace;
use crate::rules::{RuleSetId, Rules};

/// Shortfall of a pool that refuses a demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NearMiss {
    /// Room on an instance type that is otherwise fine.
    Resources {
        instance_type: InstanceTypeName,
        /// Resources by which it would have to be larger.
        more: Resources,
    },
    /// A statement of the pod about its node.
    Statement {
        statement: String,
        /// A type that would do without it.
        instance_type: InstanceTypeName,
    },
    /// The place of its volumes.
    Volumes {
        /// Place where they can be attached.
        place: String,
        /// A type that would do elsewhere.
        instance_type: InstanceTypeName,
    },
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resources { instance_type, more } => {
                write!(f, "would fit on `{instance_type}` with")?;
                for (index, (name, quantity)) in more.iter().enumerate() {
                    let comma = if index == 0 { "" } else { " and" };
                    write!(f, "{comma} {} more", Amount(name, *quantity))?;
                }
                Ok(())
            }
            Self::Statement { statement, instance_type } => {
                write!(f, "would fit on `{instance_type}` without {statement}")
            }
            Self::Volumes { place, instance_type } => {
                write!(f, "would fit on `{instance_type}` if its volumes did not need {place}")
            }
        }
    }
}

/// An amount of a resource for people: memory in GiB with one digit, rounded up.
struct Amount<'a>(&'a ResourceName, Quantity);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, quantity) = self;
        if **name == resources::MEMORY || **name == resources::EPHEMERAL_STORAGE {
            let tenths = quantity.as_units_ceil().saturating_mul(10).saturating_add((1 << 30) - 1) >> 30;
            return write!(f, "{}.{} GiB {name}", tenths / 10, tenths % 10);
        }
        match name.as_str().strip_prefix(ATTACHABLE_PREFIX) {
            Some(driver) => write!(f, "{quantity} attachments of `{driver}`"),
            None => write!(f, "{quantity} {name}"),
        }
    }
}

/// A demand that a pool refused for its instance types, and what was found out about it.
pub(super) struct Refused<'s, 'a> {
    pub(super) demand: &'s Demand,
    /// Amounts of the demand, with its volumes.
    pub(super) wanted: &'s Amounts,
    /// The requirements of the demand in the pool.
    pub(super) set: RuleSetId,
    pub(super) criteria: &'s Criteria,
    pub(super) space: &'s PoolSpace<'a>,
    pub(super) catalogue: &'s mut Catalogue<'a>,
    pub(super) rules: &'s mut Rules<'a>,
    /// The names of resources.
    pub(super) resources: &'s ResourceIndex,
}

impl Refused<'_, '_> {
    /// Returns the smallest shortfall that kept the pool from hosting the demand, where that is known.
    pub(super) fn nearest(&mut self) -> Option<NearMiss> {
        let suitable = self.criteria.requirements.and(&self.criteria.offerings);
        if !suitable.is_empty() {
            return self.too_small(&suitable);
        }
        let statements = self.demand.rules?;
        // What the pod states has a host by itself, so its volumes are what rules all of them out.
        if let Some(instance_type) = self.host(statements) {
            let places = self.demand.places.iter().map(|place| self.rules.requirements(*place).to_string());
            let place = places.collect::<Vec<_>>().join(" or ");
            return Some(NearMiss::Volumes { place, instance_type });
        }
        let asked = self.rules.requirements(statements);
        let mut places = self.demand.places.iter().copied();
        let place = places.find(|place| self.rules.meet(self.set, *place) == Some(self.set));
        asked.iter().find_map(|statement| {
            let mut without = asked.clone();
            without.remove(statement.key().as_str());
            let mut without = self.rules.set(&without);
            if let Some(place) = place {
                without = self.rules.meet(without, place)?;
            }
            let instance_type = self.host(without)?;
            Some(NearMiss::Statement { statement: statement.to_string(), instance_type })
        })
    }

    /// The first instance type by name that would do if `statements` were all demands on the node.
    fn host(&mut self, statements: RuleSetId) -> Option<InstanceTypeName> {
        let Self { criteria, space, catalogue, rules, .. } = self;
        let set = rules.meet(space.rules, statements)?;
        let left = catalogue.mask(set, rules).both.and(&space.base).and(&criteria.fits);
        left.iter().map(|variant| &catalogue.variant(variant).instance_type.name).min().cloned()
    }

    /// The instance type of `suitable` that lacks the fewest resources, then the smallest share of what it has.
    fn too_small(&self, suitable: &Bits<VariantIx>) -> Option<NearMiss> {
        let Self { wanted, space, catalogue, resources, .. } = self;
        let candidates = space.daemons.iter().flat_map(|group| {
            let wanted = wanted.plus(&group.overhead);
            let variants: Vec<VariantIx> = suitable.and(&group.variants).iter().collect();
            variants
                .into_iter()
                .map(move |variant| (variant, lacking(&wanted, catalogue.allocatable(variant))))
        });
        let rank = |(variant, lacking): &(VariantIx, Vec<(ResourceIx, i128)>)| {
            let has = catalogue.allocatable(*variant);
            // In thousandths of what the instance type has, so that cores and bytes compare.
            let share = |(resource, amount): &(ResourceIx, i128)| {
                amount.saturating_mul(1000) / has.at(*resource).max(1)
            };
            let name = &catalogue.variant(*variant).instance_type.name;
            (lacking.len(), lacking.iter().map(share).max(), name.clone())
        };
        let (variant, lacking) = candidates.filter(|(_, lacking)| !lacking.is_empty()).min_by_key(rank)?;
        let more = lacking.iter().filter_map(|(resource, amount)| {
            Some((resources.name(*resource)?.clone(), Quantity::from_nanos(*amount)))
        });
        let instance_type = catalogue.variant(variant).instance_type.name.clone();
        Some(NearMiss::Resources { instance_type, more: more.collect() })
    }
}

/// Returns the amounts by which `wanted` exceeds `available`.
fn lacking(wanted: &Amounts, available: &Amounts) -> Vec<(ResourceIx, i128)> {
    let lacking = wanted.iter().map(|(resource, amount)| (resource, amount - available.at(resource)));
    // A type that has less than nothing of a resource lacks nothing for a pod that does not ask for it.
    lacking.filter(|(resource, amount)| *amount > 0 && wanted.at(*resource) > 0).collect()
}
