//! The instance types of one pool as bit sets.
//!
//! A *variant* is an instance type together with one group of offerings that share capacity and overhead
//! overrides; most types have exactly one. "Fits" and "has a matching offering" must hold for the same group
//! (spec scheduling 10), so variants, not types, are what an in-flight node keeps.

mod fit;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use karpenter_model::{
    CapacityType, Devices, InstanceType, LabelValue, Offering, Price, Requirement, Requirements, Reservation,
    ReservationId, Resources,
};

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::index::{self, Ix, IxVec, OfferingIx, VariantIx};
use crate::interning::InternedMap;
use crate::rules::{KeyId, RuleId, RuleSetId, Rules};
use crate::volumes::Volumes;
use fit::FitTables;

/// An instance type with one group of offerings.
#[derive(Debug, Clone)]
pub(crate) struct Variant<'a> {
    pub(crate) instance_type: &'a InstanceType,
    /// Capacity through these offerings.
    pub(crate) capacity: Resources,
    /// Its available offerings, by index.
    offerings: Range<OfferingIx>,
}

/// Requirements on one key, with the things that have them.
#[derive(Debug, Clone)]
struct KeyTable<I> {
    undefined: Bits<I>,
    alternatives: Vec<(RuleId, Bits<I>)>,
}

/// Variants a requirement set leaves, by criterion.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    /// The type's requirements intersect.
    pub(crate) requirements: Bits<VariantIx>,
    /// Some available offering is compatible.
    pub(crate) offerings: Bits<VariantIx>,
    /// Variants that meet both.
    pub(crate) both: Bits<VariantIx>,
    /// Compatible available offerings, by offering index.
    matching: Bits<OfferingIx>,
}

/// A variant that a requirement set leaves.
#[derive(Debug, Clone)]
pub(crate) struct Ranked<'a> {
    /// Variant of the type.
    pub(crate) variant: VariantIx,
    /// The cheapest offering that is left of it.
    pub(crate) cheapest: &'a Offering,
}

/// The instance types of one pool.
#[derive(Debug, Clone)]
pub(crate) struct Catalogue<'a> {
    variants: IxVec<VariantIx, Variant<'a>>,
    offerings: IxVec<OfferingIx, &'a Offering>,
    fit: FitTables,
    allocatable: IxVec<VariantIx, Amounts>,
    /// Offerings out of a reservation, with the variant they belong to.
    reserved: Vec<(OfferingIx, VariantIx, &'a Reservation)>,
    variant_keys: BTreeMap<KeyId, KeyTable<VariantIx>>,
    offering_keys: BTreeMap<KeyId, KeyTable<OfferingIx>>,
    variant_rules: BTreeMap<RuleId, Bits<VariantIx>>,
    offering_rules: BTreeMap<RuleId, Bits<OfferingIx>>,
    masks: InternedMap<RuleSetId, Arc<Mask>>,
    /// Variants that each set leaves, cheapest first.
    ranked: InternedMap<RuleSetId, Arc<[Ranked<'a>]>>,
    /// Offerings with the variant they belong to, cheapest first; built when a least price is first needed.
    by_price: Option<Vec<(OfferingIx, VariantIx)>>,
}

impl<'a> Catalogue<'a> {
    /// Indexes `types`. `asked` are resources that `devices` stand for where a type has none.
    pub(crate) fn new(
        types: &'a [Arc<InstanceType>],
        (volumes, asked, devices): (&Volumes<'_>, &Resources, &Devices),
        rules: &mut Rules<'a>,
        resources: &mut ResourceIndex,
    ) -> Self {
        let mut variants = IxVec::default();
        let mut offerings: IxVec<OfferingIx, &Offering> = IxVec::default();
        let mut allocatable = IxVec::default();
        for instance_type in types {
            for group in groups(instance_type) {
                let start = offerings.end();
                for offering in group.offerings {
                    offerings.push(offering);
                }
                let complete = volumes.estimate(&instance_type.name, &group.allocatable);
                let complete = devices.without_limit(complete, asked);
                allocatable.push(resources.amounts(&complete));
                let capacity = group.capacity;
                variants.push(Variant { instance_type, capacity, offerings: start..offerings.end() });
            }
        }
        let variant_keys = tables(variants.iter().map(|variant| &variant.instance_type.requirements), rules);
        let offering_keys = tables(offerings.iter().map(|offering| &offering.requirements), rules);
        let fit = FitTables::new(&allocatable, resources.len());
        let of_variant = |(number, variant): (VariantIx, &Variant<'a>)| {
            let reserved = index::each(&variant.offerings).filter_map(|offering| {
                let reservation = offerings[offering].reservation.as_ref()?;
                (offerings[offering].capacity_type == CapacityType::Reserved).then_some((
                    offering,
                    number,
                    reservation,
                ))
            });
            reserved.collect::<Vec<_>>()
        };
        let reserved = variants.enumerate().flat_map(of_variant).collect();
        let (variant_rules, offering_rules, masks, ranked, by_price) = Default::default();
        Self {
            variants,
            offerings,
            fit,
            allocatable,
            reserved,
            variant_keys,
            offering_keys,
            variant_rules,
            offering_rules,
            masks,
            ranked,
            by_price,
        }
    }

    /// The variant at `index`.
    pub(crate) fn variant(&self, index: VariantIx) -> &Variant<'a> {
        &self.variants[index]
    }

    /// Number of variants.
    pub(crate) fn len(&self) -> usize {
        self.variants.len()
    }

    /// Returns the amounts of variant `index` that pods and daemons may use.
    pub(crate) fn allocatable(&self, index: VariantIx) -> &Amounts {
        &self.allocatable[index]
    }

    /// Every reservation behind an available offering.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = &'a Reservation> {
        self.reserved.iter().map(|(_, _, reservation)| *reservation)
    }

    /// Reservations behind available offerings of `variants` that `mask` leaves.
    pub(crate) fn reservations_of(&self, variants: &Bits<VariantIx>, mask: &Mask) -> BTreeSet<ReservationId> {
        let left = self.reserved.iter().filter(|(offering, variant, _)| {
            variants.contains(*variant) && mask.matching.contains(*offering)
        });
        left.map(|(_, _, reservation)| reservation.id.clone()).collect()
    }

    /// Returns whether there are reservations at all.
    pub(crate) fn has_reservations(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// Variants that can hold `request`.
    pub(crate) fn fitting(&self, request: &Amounts) -> Bits<VariantIx> {
        self.fit.fitting(request)
    }

    /// Keeps those variants in `among` that can hold `request` and `overhead` together.
    pub(crate) fn keep_fitting(&self, request: &Amounts, overhead: &Amounts, among: &mut Bits<VariantIx>) {
        self.fit.keep_fitting(request, overhead, among);
    }

    /// Returns what `set` leaves; computed once per set.
    pub(crate) fn mask(&mut self, set: RuleSetId, rules: &Rules<'_>) -> Arc<Mask> {
        if let Some(known) = self.masks.get(&set) {
            return Arc::clone(known);
        }
        let requirements = self.requirement_mask(set, rules);
        let matching = self.matching_offerings(set, rules);
        let mut offerings = Bits::none(self.variants.len());
        for (index, variant) in self.variants.enumerate() {
            if matching.any_in(variant.offerings.clone()) {
                offerings.insert(index);
            }
        }
        let both = requirements.and(&offerings);
        let mask = Arc::new(Mask { requirements, offerings, both, matching });
        self.masks.insert(set, Arc::clone(&mask));
        mask
    }

    /// Variants whose own requirements intersect `set`, offerings aside.
    pub(crate) fn requirement_mask(&mut self, set: RuleSetId, rules: &Rules<'_>) -> Bits<VariantIx> {
        let mut mask = Bits::all(self.variants.len());
        for rule in rules.rules_of(set) {
            // A key that no type defines excludes none: only keys that both sides have must intersect (spec
            // scheduling 8.2).
            if let Some(table) = self.variant_keys.get(&rules.key_of(*rule)) {
                mask.intersect(remembered(&mut self.variant_rules, *rule, table, rules));
            }
        }
        mask
    }

    fn matching_offerings(&mut self, set: RuleSetId, rules: &Rules<'_>) -> Bits<OfferingIx> {
        let mut matching = Bits::all(self.offerings.len());
        for (key, table) in &self.offering_keys {
            let asked = rules.rules_of(set).iter().find(|rule| rules.key_of(**rule) == *key);
            if let Some(rule) = asked {
                matching.intersect(remembered(&mut self.offering_rules, *rule, table, rules));
            } else if !rules.registry().is_well_known(rules.key_name(*key).as_str()) {
                // The set leaves the key open, and what it leaves open an offering may define only where the
                // key is well known (spec scheduling 8.2).
                matching.intersect(&table.select(|rule| rules.requirement(rule).accepts_absence()));
            }
        }
        matching
    }

    /// The least price of any of `variants` through an offering that `set` leaves.
    pub(crate) fn least_price(
        &mut self,
        set: RuleSetId,
        variants: &Bits<VariantIx>,
        rules: &Rules<'_>,
    ) -> Option<Price> {
        let ranked = self.ranked(set, rules);
        ranked.iter().find(|one| variants.contains(one.variant)).map(|one| one.cheapest.price)
    }

    /// Returns the least price for a set that is asked about once: nothing is sorted for it. Offerings out of reservations that
    /// are not `usable` do not count.
    pub(crate) fn least_price_now(
        &mut self,
        set: RuleSetId,
        variants: &Bits<VariantIx>,
        usable: impl Fn(&ReservationId) -> bool,
        rules: &Rules<'_>,
    ) -> Option<Price> {
        let mask = self.mask(set, rules);
        let Self { variants: all, offerings, by_price, .. } = self;
        let by_price = by_price.get_or_insert_with(|| {
            let numbered = all.enumerate();
            let of_variant = |(number, variant): (VariantIx, &Variant<'a>)| {
                index::each(&variant.offerings).map(move |offering| (offering, number))
            };
            let mut by_price: Vec<(OfferingIx, VariantIx)> = numbered.flat_map(of_variant).collect();
            by_price.sort_by_key(|(offering, _)| (offerings[*offering].price, *offering));
            by_price
        });
        let left = |(offering, variant): &&(OfferingIx, VariantIx)| {
            let reservation = offerings[*offering].reservation.as_ref();
            mask.matching.contains(*offering)
                && mask.requirements.contains(*variant)
                && variants.contains(*variant)
                && reservation.is_none_or(|reservation| usable(&reservation.id))
        };
        by_price.iter().find(left).map(|(offering, _)| offerings[*offering].price)
    }

    /// The variants `set` leaves, cheapest first, equal prices by name; computed once per set.
    pub(crate) fn ranked(&mut self, set: RuleSetId, rules: &Rules<'_>) -> Arc<[Ranked<'a>]> {
        if let Some(known) = self.ranked.get(&set) {
            return Arc::clone(known);
        }
        let mask = self.mask(set, rules);
        // Cheaper first, then the preferred capacity type, then by zone.
        let rank = |offering: &&'a Offering| (offering.price, offering.capacity_type, &offering.zone);
        let cheapest = |variant| self.offerings_of(variant, &mask).min_by_key(rank);
        let mut ranked: Vec<Ranked<'a>> = mask
            .both
            .iter()
            .filter_map(|variant| Some(Ranked { variant, cheapest: cheapest(variant)? }))
            .collect();
        let name = |one: &Ranked<'a>| &self.variants[one.variant].instance_type.name;
        ranked.sort_by(|a, b| {
            let by_type = (a.cheapest.price, name(a)).cmp(&(b.cheapest.price, name(b)));
            by_type.then_with(|| rank(&a.cheapest).cmp(&rank(&b.cheapest)))
        });
        let ranked: Arc<[Ranked<'a>]> = ranked.into();
        self.ranked.insert(set, Arc::clone(&ranked));
        ranked
    }

    /// Returns whether its type has no other variant than this one.
    pub(crate) fn is_only_variant(&self, index: VariantIx) -> bool {
        // Variants of one type follow each other.
        let before = index.get().checked_sub(1).map(VariantIx::new);
        let neighbours = [before, Some(index.next())].into_iter().flatten();
        let mut neighbours = neighbours.filter_map(|place| self.variants.get(place));
        let instance_type = self.variants[index].instance_type;
        neighbours.all(|other| !std::ptr::eq(other.instance_type, instance_type))
    }

    /// The available offerings of variant `index`, each with a bit for each of `masks` that leaves it.
    pub(crate) fn left_by<'s>(
        &'s self,
        index: VariantIx,
        masks: &'s [Arc<Mask>],
    ) -> impl Iterator<Item = (&'a Offering, u64)> + 's {
        index::each(&self.variants[index].offerings).map(move |offering| {
            let leaves = |mask: &Mask| mask.requirements.contains(index) && mask.matching.contains(offering);
            let bits = masks.iter().rev().fold(0, |bits, mask| bits << 1 | u64::from(leaves(mask)));
            (self.offerings[offering], bits)
        })
    }

    /// The available offerings of variant `index` that `mask` leaves.
    pub(crate) fn offerings_of<'s>(
        &'s self,
        index: VariantIx,
        mask: &'s Mask,
    ) -> impl Iterator<Item = &'a Offering> + 's {
        let offerings = index::each(&self.variants[index].offerings);
        offerings
            .filter(|offering| mask.matching.contains(*offering))
            .map(|offering| self.offerings[offering])
    }
}

impl<I: Ix> KeyTable<I> {
    /// Things that do not have the key, or have it with a requirement `accept` accepts.
    fn select(&self, accept: impl Fn(RuleId) -> bool) -> Bits<I> {
        let mut selected = self.undefined.clone();
        for (rule, things) in &self.alternatives {
            if accept(*rule) {
                selected.unite(things);
            }
        }
        selected
    }
}

fn remembered<'m, I: Ix>(
    memory: &'m mut BTreeMap<RuleId, Bits<I>>,
    rule: RuleId,
    table: &KeyTable<I>,
    rules: &Rules<'_>,
) -> &'m Bits<I> {
    memory.entry(rule).or_insert_with(|| table.select(|alternative| rules.agree(rule, alternative)))
}

/// Numbers of the rules that things have, counted from 0 as they are met.
///
/// Found by address, because an address is hashed in no time and fifty labels of a thousand types are not: equal sets,
/// and equal values of sets that differ, are one object each (`SharedTypes` of `cloud`). All things are borrowed while
/// they are counted, so no address is used twice.
#[derive(Default)]
struct Counted {
    rules: Vec<RuleId>,
    /// Sets by the address of the first requirement.
    sets: InternedMap<*const Requirement, Vec<usize>>,
    by_values: InternedMap<*const BTreeSet<LabelValue>, usize>,
    by_rule: BTreeMap<RuleId, usize>,
}

impl Counted {
    fn of(&mut self, set: &Requirements, rules: &mut Rules<'_>) -> &[usize] {
        let Some(first) = set.iter().next() else { return &[] };
        let address = std::ptr::from_ref(first);
        let place = if let Some(place) = self.sets.get_index_of(&address) {
            place
        } else {
            let numbers = set.iter().map(|requirement| self.rule(requirement, rules)).collect();
            self.sets.insert_full(address, numbers).0
        };
        &self.sets[place]
    }

    fn rule(&mut self, requirement: &Requirement, rules: &mut Rules<'_>) -> usize {
        let address = std::ptr::from_ref(requirement.values());
        let known = self.by_values.get(&address).copied();
        // Equal values are a hint, not a proof: the key or the operator may differ.
        if let Some(number) = known.filter(|number| rules.requirement(self.rules[*number]) == requirement) {
            return number;
        }
        let rule = rules.rule(requirement);
        let number = *self.by_rule.entry(rule).or_insert(self.rules.len());
        if number == self.rules.len() {
            self.rules.push(rule);
        }
        if known.is_none() {
            self.by_values.insert(address, number);
        }
        number
    }
}

/// One table per key that any of `things` defines.
fn tables<'r, I: Ix>(
    things: impl ExactSizeIterator<Item = &'r Requirements>,
    rules: &mut Rules<'_>,
) -> BTreeMap<KeyId, KeyTable<I>> {
    let len = things.len();
    let mut counted = Counted::default();
    let mut having: Vec<Bits<I>> = Vec::new();
    for (index, set) in things.enumerate() {
        for number in counted.of(set, rules) {
            if *number >= having.len() {
                having.resize_with(number + 1, || Bits::none(len));
            }
            having[*number].insert(I::new(index));
        }
    }
    let mut defined: BTreeMap<KeyId, BTreeMap<RuleId, Bits<I>>> = BTreeMap::new();
    for (rule, things) in counted.rules.into_iter().zip(having) {
        defined.entry(rules.key_of(rule)).or_default().insert(rule, things);
    }
    let table = |alternatives: BTreeMap<RuleId, Bits<I>>| {
        let mut undefined = Bits::all(len);
        for things in alternatives.values() {
            undefined.subtract(things);
        }
        KeyTable { undefined, alternatives: alternatives.into_iter().collect() }
    };
    defined.into_iter().map(|(key, alternatives)| (key, table(alternatives))).collect()
}

/// Launchable offerings of one type that share their overrides.
struct Group<'a> {
    capacity: Resources,
    allocatable: Resources,
    offerings: Vec<&'a Offering>,
}

/// The offering groups of a type; the one without overrides comes first and exists even when it is empty.
fn groups(instance_type: &InstanceType) -> Vec<Group<'_>> {
    let mut by_override: BTreeMap<(Resources, Resources), Vec<&Offering>> = BTreeMap::new();
    by_override.insert(Default::default(), Vec::new());
    for offering in instance_type.offerings.iter().filter(|offering| offering.is_launchable()) {
        let overrides = (offering.capacity_override.clone(), offering.overhead_override.clone());
        by_override.entry(overrides).or_default().push(offering);
    }
    let mut groups = Vec::with_capacity(by_override.len());
    for ((capacity, _), offerings) in by_override {
        // All of a group have the same overrides, so any of them stands for it.
        let allocatable = match offerings.first() {
            Some(offering) => instance_type.allocatable_through(offering),
            None => instance_type.allocatable(),
        };
        groups.push(Group {
            capacity: instance_type.capacity.replaced_by(&capacity),
            allocatable,
            offerings,
        });
    }
    groups
}
