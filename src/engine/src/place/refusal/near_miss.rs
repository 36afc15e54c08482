//! The nearest miss: the smallest change of the pod, or of what is on offer, that would have let a pool host
//! it. What people need to know after "no".

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

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NearMiss {
    /// Room on an instance type that is otherwise fine.
    Resources {
        /// The type.
        instance_type: InstanceTypeName,
        /// What it would have to have more.
        more: Resources,
    },
    /// A statement of the pod about its node.
    Statement {
        /// The statement.
        statement: String,
        /// A type that would do without it.
        instance_type: InstanceTypeName,
    },
    /// The place of its volumes.
    Volumes {
        /// Where they can be attached.
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

/// What kept `space` from hosting `demand` by the least, where that is known. `wanted` is what it takes with
/// its volumes, `set` its requirements in the pool.
#[expect(clippy::too_many_arguments, reason = "the refusal passes everything it has found out")]
pub(super) fn nearest<'a>(
    demand: &Demand,
    wanted: &Amounts,
    set: RuleSetId,
    criteria: &Criteria,
    space: &PoolSpace<'a>,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
    index: &ResourceIndex,
) -> Option<NearMiss> {
    let suitable = criteria.requirements.and(&criteria.offerings);
    if !suitable.is_empty() {
        return too_small(wanted, &suitable, space, catalogue, index);
    }
    let mut host = |statements: Option<RuleSetId>| {
        let set = rules.meet(space.rules, statements?)?;
        let left = catalogue.mask(set, rules).both.and(&space.base).and(&criteria.fits);
        let first = left.iter().map(|variant| &catalogue.variant(variant).instance_type.name).min();
        first.cloned()
    };
    if let Some(instance_type) = host(demand.rules) {
        let places: Vec<String> =
            demand.places.iter().map(|place| rules.requirements(*place).to_string()).collect();
        return Some(NearMiss::Volumes { place: places.join(" or "), instance_type });
    }
    let asked = rules.requirements(demand.rules?);
    let place = demand.places.iter().find(|place| rules.meet(set, **place) == Some(set)).copied();
    asked.iter().find_map(|statement| {
        let mut without = asked.clone();
        without.remove(statement.key().as_str());
        let mut without = rules.set(&without);
        if let Some(place) = place {
            without = rules.meet(without, place)?;
        }
        let set = rules.meet(space.rules, without)?;
        let left = catalogue.mask(set, rules).both.and(&space.base).and(&criteria.fits);
        let first = left.iter().map(|variant| &catalogue.variant(variant).instance_type.name).min()?;
        Some(NearMiss::Statement { statement: statement.to_string(), instance_type: first.clone() })
    })
}

/// The instance type of `suitable` that lacks the fewest resources, then the smallest share of what it has.
fn too_small(
    wanted: &Amounts,
    suitable: &Bits<VariantIx>,
    space: &PoolSpace<'_>,
    catalogue: &Catalogue<'_>,
    index: &ResourceIndex,
) -> Option<NearMiss> {
    let candidates = space.daemons.iter().flat_map(|group| {
        let wanted = wanted.plus(&group.overhead);
        let variants: Vec<VariantIx> = suitable.and(&group.variants).iter().collect();
        variants.into_iter().map(move |variant| (variant, lacking(&wanted, catalogue.allocatable(variant))))
    });
    let rank = |(variant, lacking): &(VariantIx, Vec<(ResourceIx, i128)>)| {
        let has = catalogue.allocatable(*variant);
        // In thousandths of what the instance type has, so that cores and bytes compare.
        let share =
            |(resource, amount): &(ResourceIx, i128)| amount.saturating_mul(1000) / has.at(*resource).max(1);
        let name = &catalogue.variant(*variant).instance_type.name;
        (lacking.len(), lacking.iter().map(share).max(), name.clone())
    };
    let (variant, lacking) = candidates.filter(|(_, lacking)| !lacking.is_empty()).min_by_key(rank)?;
    let more = lacking.iter().filter_map(|(resource, amount)| {
        Some((index.name(*resource)?.clone(), Quantity::from_nanos(*amount)))
    });
    let instance_type = catalogue.variant(variant).instance_type.name.clone();
    Some(NearMiss::Resources { instance_type, more: more.collect() })
}

/// What `wanted` has more than `available`.
fn lacking(wanted: &Amounts, available: &Amounts) -> Vec<(ResourceIx, i128)> {
    let lacking = wanted.iter().map(|(resource, amount)| (resource, amount - available.at(resource)));
    lacking.filter(|(resource, amount)| *amount > 0 && wanted.at(*resource) > 0).collect()
}
