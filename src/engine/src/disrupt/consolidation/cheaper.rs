//! Replacements that are cheaper whatever offering the launch ends up with (spec disruption 3.9 and 3.10).
//!
//! A claim lists many instance types and lets the cloud choose. A type stays on the list only if even its worst
//! offering the launch may end up with costs less than the nodes that go: equal is not cheaper. `minValues` must
//! still hold for what is left, whatever the policy for new nodes is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    CapacityType, InstanceType, InstanceTypeName, LabelKey, LabelRegistry, LabelValue, Launch, OfferingRef,
    Pool, Price, Requirement, Requirements, Snapshot,
};

use super::refusal::Refusal;
use crate::disrupt::candidate::{Basis, Candidate};
use crate::place::what_if::{Quote, Quoted, min_values, note_overlays};

/// Fewest cheaper types a spot node needs to be replaced by a spot node, and how many are kept: fewer would
/// be taken back by the cloud soon, more would be replaced again and again, each time one step down.
pub(crate) const SPOT_TO_SPOT_TYPES: usize = 15;

/// Nodes to remove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    /// Price of all of it.
    pub(crate) price: Price,
    /// True if all nodes are spot.
    pub(crate) all_spot: bool,
    /// True if it is a single node.
    pub(crate) alone: bool,
}

/// A claim being narrowed to what is cheaper.
#[derive(Debug, Clone)]
pub(crate) struct Narrowing<'a> {
    launch: Launch,
    /// Remaining instance types, cheapest first.
    options: Vec<(InstanceTypeName, Quote)>,
    pool: Option<&'a Pool>,
    types: &'a [Arc<InstanceType>],
    registry: &'a LabelRegistry,
}

impl<'a> Narrowing<'a> {
    /// Everything `quoted` offers.
    pub(crate) fn new(quoted: Quoted, snapshot: &'a Snapshot) -> Self {
        let Quoted { launch, quotes } = quoted;
        let types = snapshot.instance_types.get(&launch.pool).map_or(&[][..], |types| types);
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).map(AsRef::as_ref);
        let options = launch.instance_types.iter().cloned().zip(quotes).collect();
        Self { launch, options, pool, types, registry: &snapshot.registry }
    }

    /// Leaves what may be bought at prices that rest on the same as those of `candidates`: next to a real price an
    /// estimate proves nothing.
    pub(crate) fn comparable(&mut self, candidates: &[Candidate<'_>]) -> Result<(), Refusal> {
        let mut bases = candidates.iter().filter_map(|candidate| candidate.basis);
        // Reserved nodes are paid for and nodes of unknown type have no price: either compares with anything.
        let Some(basis) = bases.next() else { return Ok(()) };
        let mixed = bases.any(|other| other != basis);
        for (_, quote) in &mut self.options {
            quote.retain(|sold, estimated| {
                let own = if estimated { Basis::Estimated } else { Basis::Published };
                // A reservation is paid for, so it may stand beside prices of either kind.
                sold == CapacityType::Reserved || (own == basis && !mixed)
            });
        }
        self.options.retain(|(_, quote)| !quote.by_capacity_type.is_empty());
        if self.options.is_empty() {
            let detail = "some of the prices are estimates, which are not compared with real ones";
            return Err(not_cheaper(detail));
        }
        // The offering by which a type was cheapest may just have been left out.
        self.sort();
        self.check_min_values()
    }

    /// Keeps the options that are cheaper than the nodes to remove, by the rules for spot.
    pub(crate) fn narrow(&mut self, leaving: Leaving, spot_to_spot: bool) -> Result<(), Refusal> {
        self.spot_for_spot(leaving, spot_to_spot)?;
        if leaving.all_spot && self.sells_spot() {
            return self.narrow_spot(leaving);
        }
        self.below_without_fallback(leaving.price)
    }

    /// Refuses spot for spot unless it is switched on.
    pub(crate) fn spot_for_spot(&self, leaving: Leaving, switched_on: bool) -> Result<(), Refusal> {
        if switched_on || !leaving.all_spot || !self.sells_spot() {
            return Ok(());
        }
        let event = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node";
        Err(Refusal::with_event(ReasonCode::SpotToSpotDisabled, "", event))
    }

    fn sells_spot(&self) -> bool {
        self.options.iter().any(|(_, quote)| quote.sells(CapacityType::Spot))
    }

    /// Leaves what costs less than `price`, and of that spot alone where there is on-demand too: prices are compared
    /// as if spot were launched, and falling back to on-demand might be more expensive.
    pub(crate) fn below_without_fallback(&mut self, price: Price) -> Result<(), Refusal> {
        self.below(price)?;
        let sold = |kind| self.options.iter().any(|(_, quote)| quote.sells(kind));
        if sold(CapacityType::Spot) && sold(CapacityType::OnDemand) {
            self.pin(CapacityType::Spot)?;
            // A price that was low because of a reservation need not be low as spot.
            self.below(price)?;
        }
        Ok(())
    }

    /// The least it may be known to cost at worst.
    pub(crate) fn least_worst(&self) -> Price {
        self.options.iter().map(|(_, quote)| quote.worst()).min().unwrap_or(Price::MAX)
    }

    /// Spot for spot: for one node only with enough choice.
    fn narrow_spot(&mut self, leaving: Leaving) -> Result<(), Refusal> {
        self.pin(CapacityType::Spot)?;
        self.below(leaving.price)?;
        // Several nodes for one need no choice of types: such a step down cannot be repeated for ever (spec
        // disruption 3.10).
        if !leaving.alone {
            return Ok(());
        }
        let left = self.options.len();
        if left < SPOT_TO_SPOT_TYPES {
            let event = format!(
                "SpotToSpotConsolidation requires {SPOT_TO_SPOT_TYPES} cheaper instance type options than the \
                 current candidate to consolidate, got {left}"
            );
            let detail = format!("{left} of {SPOT_TO_SPOT_TYPES}");
            return Err(Refusal::with_event(ReasonCode::SpotToSpotFlexibility, detail, event));
        }
        // More than fifteen types stay only as far as `minValues` needs them.
        let enough = (SPOT_TO_SPOT_TYPES..left).find(|count| self.shortfall(*count).is_none());
        self.options.truncate(enough.unwrap_or(left));
        Ok(())
    }

    /// Keeps the options that cost less than `price` by at least `percent`.
    pub(crate) fn worth_moving(&mut self, price: Price, percent: u8) -> Result<(), Refusal> {
        let least = self.least_worst();
        let most = less(price, percent);
        // A saving of exactly `percent` is enough, and `below` is strict: hence one billionth more.
        self.below(Price::from_nanos(most.nanos().saturating_add(1))).map_err(|refusal| {
            // It would be cheaper, but by too little: the percentage is what the user can change.
            if least < price && least > most {
                let detail = format!("cheapest replacement {least} saves less than {percent} % of {price}");
                return not_cheaper(detail);
            }
            refusal
        })
    }

    /// Leaves the types even whose worst offering costs less than `price`.
    pub(crate) fn below(&mut self, price: Price) -> Result<(), Refusal> {
        let least = self.least_worst();
        self.options.retain(|(_, quote)| quote.worst() < price);
        if self.options.is_empty() {
            let detail = format!("cheapest replacement {least} is not below {price}");
            return Err(not_cheaper(detail));
        }
        self.check_min_values()
    }

    /// Leaves offerings of one capacity type.
    fn pin(&mut self, capacity_type: CapacityType) -> Result<(), Refusal> {
        for (_, quote) in &mut self.options {
            quote.pin(capacity_type);
        }
        self.options.retain(|(_, quote)| quote.sells(capacity_type));
        self.sort();
        self.check_min_values()
    }

    /// Puts the cheapest first, by the offerings that are left.
    fn sort(&mut self) {
        self.options.sort_by(|(a, first), (b, second)| (first.least(), a).cmp(&(second.least(), b)));
    }

    /// Names of the types that are left.
    pub(crate) fn names(&self) -> impl Iterator<Item = &InstanceTypeName> {
        self.options.iter().map(|(name, _)| name)
    }

    fn check_min_values(&self) -> Result<(), Refusal> {
        let Some((key, wanted, left)) = self.shortfall(self.options.len()) else { return Ok(()) };
        let detail = format!("`{key}` has {left} of {wanted}");
        let event =
            format!("Filtering by price: minValues requirement is not met for label(s) (label(s)=[{key}])");
        Err(Refusal::with_event(ReasonCode::MinValues, detail, event))
    }

    /// The first key of which the cheapest `count` types have too few distinct values: wanted and there.
    fn shortfall(&self, count: usize) -> Option<(LabelKey, u32, usize)> {
        if !self.launch.requirements.has_min_values() {
            return None;
        }
        let left: BTreeMap<_, _> =
            self.options.iter().take(count).map(|(name, quote)| (name, quote)).collect();
        let left = self.types.iter().filter_map(|known| Some((known.as_ref(), *left.get(&known.name)?)));
        let left: Vec<(&InstanceType, &Quote)> = left.collect();
        self.launch.requirements.iter().find_map(|requirement| {
            let wanted = requirement.min_values()?;
            let key = requirement.key();
            let sold = left.iter().map(|(known, quote)| {
                let offerings = known.compatible_offerings(&self.launch.requirements, self.registry);
                let offerings = offerings.filter(|sold| quote.sells(sold.capacity_type));
                min_values::values(requirement, known, offerings)
            });
            let distinct: BTreeSet<&LabelValue> = sold.flatten().collect();
            let short = distinct.len() < usize::try_from(wanted).unwrap_or(usize::MAX);
            short.then(|| (key.clone(), wanted, distinct.len()))
        })
    }

    /// The claim for what is left.
    pub(crate) fn finish(self) -> Launch {
        let Self { mut launch, options, pool, types, registry } = self;
        let capacity_types: BTreeSet<CapacityType> =
            options.iter().flat_map(|(_, quote)| quote.by_capacity_type.keys().copied()).collect();
        launch.instance_types = options.into_iter().map(|(name, _)| name).collect();
        let names = launch.instance_types.iter().map(|name| name.as_str().into()).collect();
        only(&mut launch.requirements, label::INSTANCE_TYPE, names);
        let sold = capacity_types.iter().map(|sold| sold.as_str().into()).collect();
        only(&mut launch.requirements, label::CAPACITY_TYPE, sold);
        let first = launch.instance_types.first();
        let known = first.and_then(|name| types.iter().find(|known| known.name == *name));
        launch.cheapest = known.and_then(|known| cheapest(known, &launch.requirements, registry));
        if let Some(pool) = pool {
            let left: BTreeSet<_> = launch.instance_types.iter().collect();
            let left = types.iter().map(AsRef::as_ref).filter(|known| left.contains(&known.name));
            // Stated again for the types that are left, because those with an overlay may be gone.
            note_overlays(&mut launch.annotations, &pool.template, left);
        }
        launch
    }
}

/// Returns `price` less `percent` of it.
pub(crate) fn less(price: Price, percent: u8) -> Price {
    price.saturating_sub(Price::from_nanos(price.nanos() / 100 * i64::from(percent.min(100))))
}

fn not_cheaper(detail: impl std::fmt::Display) -> Refusal {
    Refusal::with_event(ReasonCode::NotCheaper, detail, "Can't replace with a cheaper node")
}

/// Narrows `key` to `values`, and keeps its `minValues`.
fn only(requirements: &mut Requirements, key: &str, values: Vec<LabelValue>) {
    let min_values = requirements.get(key).and_then(Requirement::min_values);
    requirements.replace(Requirement::one_of(key.into(), values).with_min_values(min_values));
}

/// The cheapest way to buy `known`.
fn cheapest(
    known: &InstanceType,
    requirements: &Requirements,
    registry: &LabelRegistry,
) -> Option<OfferingRef> {
    let offerings = known.compatible_offerings(requirements, registry);
    let least = offerings.min_by_key(|sold| (sold.price, sold.capacity_type, sold.zone.clone()))?;
    Some(OfferingRef {
        instance_type: known.name.clone(),
        zone: least.zone.clone(),
        capacity_type: least.capacity_type,
        price: least.price,
    })
}

impl Quote {
    /// Returns whether it is sold as `capacity_type`.
    fn sells(&self, capacity_type: CapacityType) -> bool {
        self.by_capacity_type.contains_key(&capacity_type)
    }

    /// The least it may cost.
    fn least(&self) -> Price {
        self.by_capacity_type.values().map(|(least, _)| *least).min().unwrap_or(Price::MAX)
    }

    /// The most it may cost: the most expensive offering of the capacity type a launch prefers.
    fn worst(&self) -> Price {
        // Capacity types are in the order in which a launch prefers them: reserved, spot, on-demand (spec
        // scheduling 10).
        self.by_capacity_type.values().next().map_or(Price::MAX, |(_, most)| *most)
    }

    /// Leaves only `capacity_type`.
    fn pin(&mut self, capacity_type: CapacityType) {
        self.retain(|sold, _| sold == capacity_type);
    }

    /// Keeps the capacity types that `keep` accepts, given whether their prices are estimates.
    fn retain(&mut self, keep: impl Fn(CapacityType, bool) -> bool) {
        let estimated = &self.estimated;
        self.by_capacity_type.retain(|sold, _| keep(*sold, estimated.contains(sold)));
    }
}
