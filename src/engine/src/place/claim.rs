//! Turns a filled in-flight node into the claim that will be created (spec scheduling 21).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::{annotation, label};
use karpenter_model::plan::MAX_INSTANCE_TYPES;
use karpenter_model::report::ReasonCode;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{
    Annotations, BinId, CapacityType, Expression, InstanceType, InstanceTypeName, LabelRegistry, LabelValue,
    Labels, Launch, Offering, OfferingRef, Operator, Overlaid, Pod, Price, Reason, Requirement, Requirements,
    ReservationId, Resources, Settings, Template,
};

use crate::bits::Bits;
use crate::catalogue::{Catalogue, Mask, Ranked};
use crate::index::{PoolIx, VariantIx};
use crate::place::constraint::min_values;
use crate::place::in_flight::{InFlightNode, State};
use crate::place::pool::PoolSpace;
use crate::rules::{RuleSetId, Rules};

/// Most claims that are kept to be made again.
const MOST_MADE: usize = 1_000;

/// An instance type of an in-flight node with its cheapest offering.
struct Candidate<'a> {
    name: &'a InstanceTypeName,
    cheapest: &'a Offering,
    variant: VariantIx,
    /// Other variants of the instance type; most have none.
    others: Vec<VariantIx>,
}

impl Candidate<'_> {
    fn variants(&self) -> impl Iterator<Item = VariantIx> {
        std::iter::once(self.variant).chain(self.others.iter().copied())
    }
}

/// Terms under which claims are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'s> {
    pub(crate) settings: &'s Settings,
    /// True if the price range of each instance type is needed: consolidation compares them, a plan does not.
    pub(crate) quotes: bool,
}

/// A claim, and what each of its instance types may cost, in the same order, if asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quoted {
    pub(crate) launch: Launch,
    pub(crate) quotes: Vec<Quote>,
}

impl Quoted {
    /// The claim for in-flight node `id` with `pods`, which request `requests` together.
    pub(crate) fn with_pods<'p>(
        mut self,
        id: BinId,
        requests: &Resources,
        pods: impl Iterator<Item = &'p Pod>,
    ) -> Self {
        self.launch.bin = id;
        self.launch.requests.add(requests);
        self.launch.pods = pods.map(|pod| pod.key.clone()).collect();
        self
    }
}

/// Prices of the available offerings of one type that a claim could be launched through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Quote {
    /// Least and greatest price by capacity type, in launch preference.
    pub(crate) by_capacity_type: BTreeMap<CapacityType, (Price, Price)>,
    /// Capacity types with an estimate among their prices.
    pub(crate) estimated: BTreeSet<CapacityType>,
}

/// Claims already made, by what decides about everything but their pods: in-flight nodes of one pass are often alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    claims: BTreeMap<Likeness, Result<Quoted, Reason>>,
}

/// Properties that decide about a claim, its pods aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    pool: PoolIx,
    rules: RuleSetId,
    variants: Bits<VariantIx>,
    reserved: BTreeSet<ReservationId>,
}

impl Made {
    /// The claim for `node`, to be given its pods; an error when `minValues` no longer hold once the list
    /// of types is cut.
    pub(crate) fn claim<'a>(
        &mut self,
        node: &InFlightNode,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
        rules: &mut Rules<'a>,
        terms: Terms<'_>,
    ) -> Result<Quoted, Reason> {
        let State { rules: set, variants, reserved, .. } = &node.state;
        let likeness =
            Likeness { pool: node.pool, rules: *set, variants: variants.clone(), reserved: reserved.clone() };
        if self.claims.len() >= MOST_MADE && !self.claims.contains_key(&likeness) {
            self.claims.clear();
        }
        let made = self.claims.entry(likeness).or_insert_with(|| claim(node, space, catalogue, rules, terms));
        made.clone()
    }
}

/// The claim for `node` without its pods.
fn claim<'a>(
    node: &InFlightNode,
    space: &PoolSpace<'a>,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
    Terms { settings, quotes }: Terms<'_>,
) -> Result<Quoted, Reason> {
    let policy = settings.min_values_policy;
    let reserved = with_reservations(node, rules);
    // Strict whatever the policy: the node is rather bought without its reservations than with lowered
    // `minValues`.
    let reserved = reserved.and_then(|set| cut(set, node, MinValuesPolicy::Strict, catalogue, rules).ok());
    let Cut { set, mask, candidates } = match reserved.filter(|cut| !cut.candidates.is_empty()) {
        Some(cut) => cut,
        // It holds none, or with those it holds alone `minValues` would not be met: what it does not name it must not
        // use.
        None if settings.gates.reserved_capacity && catalogue.has_reservations() => {
            let unreserved = unreserved(rules);
            let set = rules.meet(node.state.rules, unreserved);
            let cut = set.map(|set| cut(set, node, policy, catalogue, rules)).transpose()?;
            let cut = cut.filter(|cut| !cut.candidates.is_empty());
            // Nothing but reservations would do, and others hold them.
            cut.ok_or_else(|| Reason::bare(ReasonCode::Reservation))?
        }
        None => cut(node.state.rules, node, policy, catalogue, rules)?,
    };
    let variants = || candidates.iter().flat_map(Candidate::variants);
    let offerings = |variant| catalogue.offerings_of(variant, &mask);
    let mut capacity_types = BTreeSet::new();
    for offering in variants().flat_map(offerings) {
        capacity_types.insert(offering.capacity_type);
    }
    let names: Arc<[InstanceTypeName]> = candidates.iter().map(|candidate| candidate.name.clone()).collect();
    let relaxed = min_values::is_relaxed(set, space.rules, rules);
    let requirements = self::narrowed(rules.requirements(set), &names, &capacity_types);
    let template = &space.pool.template;
    let asked_for = candidates.iter().filter(|_| quotes);
    let quotes = asked_for.map(|candidate| quote(candidate, catalogue, &mask)).collect();
    let launch = Launch {
        bin: BinId(0),
        pool: space.pool.name.clone(),
        pool_hash: space.pool.hash.clone(),
        labels: labels(space, &requirements, &candidates, catalogue, rules.registry()),
        annotations: annotations(space, relaxed, &candidates, catalogue),
        requirements,
        taints: template.taints.clone(),
        startup_taints: template.startup_taints.clone(),
        node_class: template.node_class.clone(),
        expire_after: template.expire_after,
        termination_grace_period: template
            .termination_grace_period
            .or(settings.default_termination_grace_period),
        requests: daemon_requests(node, space),
        cheapest: candidates.first().map(|first| OfferingRef {
            instance_type: first.name.clone(),
            zone: first.cheapest.zone.clone(),
            capacity_type: first.cheapest.capacity_type,
            price: first.cheapest.price,
        }),
        instance_types: names,
        pods: Vec::new(),
    };
    Ok(Quoted { launch, quotes })
}

/// The final list of a claim's types.
struct Cut<'a> {
    set: RuleSetId,
    mask: Arc<Mask>,
    candidates: Vec<Candidate<'a>>,
}

/// The types that `set` leaves of `node`, cut to the allowed number. When `minValues` do not hold then,
/// they are lowered or it is an error, by `policy`.
fn cut<'a>(
    mut set: RuleSetId,
    node: &InFlightNode,
    policy: MinValuesPolicy,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
) -> Result<Cut<'a>, Reason> {
    let mask = catalogue.mask(set, rules);
    let mut candidates = candidates(&catalogue.ranked(set, rules), &node.state.variants, catalogue);
    // Cut before `minValues` are checked, because the types that are dropped may have the values that count
    // (spec scheduling 11.7).
    candidates.truncate(MAX_INSTANCE_TYPES);
    let variants = candidates.iter().flat_map(Candidate::variants);
    let short = min_values::shortfalls(set, variants, catalogue, rules);
    if !short.is_empty() {
        if policy == MinValuesPolicy::Strict {
            return Err(min_values::reason(&short));
        }
        set = min_values::lowered(set, &short, rules);
    }
    Ok(Cut { set, mask, candidates })
}

/// The requirements of `node` once it may only be launched into the reservations it names, if it names any.
/// Where too few types are left for `minValues`, the caller goes without.
fn with_reservations(node: &InFlightNode, rules: &mut Rules<'_>) -> Option<RuleSetId> {
    if node.state.reserved.is_empty() {
        return None;
    }
    let registry = rules.registry();
    let mut only: Requirements = [capacity_type(Operator::In, registry)].into_iter().collect();
    if let Some(key) = &registry.reservation_id {
        let ids = node.state.reserved.iter().map(|id| id.as_str().into());
        only.add(Requirement::one_of(key.clone(), ids));
    }
    let only = rules.set(&only);
    rules.meet(node.state.rules, only)
}

/// The requirement to be no reserved capacity.
pub(crate) fn unreserved(rules: &mut Rules<'_>) -> RuleSetId {
    let without = capacity_type(Operator::NotIn, rules.registry());
    rules.set(&[without].into_iter().collect())
}

fn capacity_type(operator: Operator, registry: &LabelRegistry) -> Requirement {
    let expression = Expression::new(label::CAPACITY_TYPE, operator, &[CapacityType::Reserved.as_str()]);
    Requirement::new(registry, &expression)
}

/// The types of those of `ranked` that are in `variants`, in the same order.
fn candidates<'a>(
    ranked: &[Ranked<'a>],
    variants: &Bits<VariantIx>,
    catalogue: &Catalogue<'a>,
) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'a>> = Vec::with_capacity(variants.len());
    for Ranked { variant, cheapest } in ranked.iter().filter(|one| variants.contains(one.variant)) {
        let name = &catalogue.variant(*variant).instance_type.name;
        let known =
            // Most types have one variant, and their names need no comparison.
            candidates.iter_mut().find(|known| !catalogue.is_only_variant(*variant) && known.name == name);
        match known {
            Some(known) => known.others.push(*variant),
            None => candidates.push(Candidate { name, cheapest, variant: *variant, others: Vec::new() }),
        }
    }
    candidates
}

/// Returns the price range of `candidate`.
fn quote(candidate: &Candidate<'_>, catalogue: &Catalogue<'_>, mask: &Mask) -> Quote {
    let mut quote = Quote::default();
    for offering in candidate.variants().flat_map(|variant| catalogue.offerings_of(variant, mask)) {
        let (least, most) =
            quote.by_capacity_type.entry(offering.capacity_type).or_insert((offering.price, offering.price));
        *least = offering.price.min(*least);
        *most = offering.price.max(*most);
        // Beside a published price an estimate proves nothing, so comparisons need to know of which kind a
        // price is.
        if offering.estimated {
            quote.estimated.insert(offering.capacity_type);
        }
    }
    quote
}

/// Requirements of the claim: no host name, and exactly the types and capacity types that are left.
fn narrowed(
    mut requirements: Requirements,
    names: &[InstanceTypeName],
    capacity_types: &BTreeSet<CapacityType>,
) -> Requirements {
    // Only the cloud names the host (spec scheduling 21).
    requirements.remove(label::HOSTNAME);
    let mut only = |key: &str, values: &mut dyn Iterator<Item = LabelValue>| {
        let min_values = requirements.get(key).and_then(Requirement::min_values);
        requirements.replace(Requirement::one_of(key.into(), values).with_min_values(min_values));
    };
    only(label::INSTANCE_TYPE, &mut names.iter().cloned().map(LabelValue::from));
    only(label::CAPACITY_TYPE, &mut capacity_types.iter().map(|one| one.as_str().into()));
    requirements
}

/// Labels of the claim: the pool's, and one value for every custom key that is asked for, or that the pool names. Keys
/// that depend on what is launched, well known or defined by the types themselves, are left to the provider. A key of
/// which only values are excluded, as by the anti-affinity of others, needs no label: a value drawn for it would be a
/// domain that is none.
fn labels(
    space: &PoolSpace<'_>,
    requirements: &Requirements,
    types: &[Candidate<'_>],
    catalogue: &Catalogue<'_>,
    registry: &LabelRegistry,
) -> Labels {
    let resolved = |key: &str| {
        let mut variants = types.iter().flat_map(Candidate::variants);
        registry.is_well_known(key)
            || variants.any(|variant| catalogue.variant(variant).instance_type.requirements.contains(key))
    };
    let mut labels = space.labels.clone();
    for requirement in requirements.iter() {
        let key = requirement.key();
        let asked = !requirement.accepts_absence() || space.pool.template.requirements.contains(key.as_str());
        if asked && !labels.contains_key(key) && !resolved(key.as_str()) {
            labels.extend(requirement.any().map(|value| (key.clone(), value)));
        }
    }
    labels
}

fn annotations(
    space: &PoolSpace<'_>,
    relaxed: bool,
    types: &[Candidate<'_>],
    catalogue: &Catalogue<'_>,
) -> Annotations {
    let mut annotations = space.pool.template.annotations.clone();
    annotations.insert(annotation::POOL_HASH.into(), space.pool.hash.clone());
    annotations.insert(annotation::POOL_HASH_VERSION.into(), karpenter_model::pool::HASH_VERSION.into());
    annotations.insert(annotation::MIN_VALUES_RELAXED.into(), relaxed.to_string());
    let variants = types.iter().flat_map(Candidate::variants);
    let types = variants.map(|variant| catalogue.variant(variant).instance_type);
    note_overlays(&mut annotations, &space.pool.template, types);
    annotations
}

/// Says on a claim whether a type it may become has an overlaid price or amount (spec scheduling 2); the
/// template has the last word where none has.
pub(crate) fn note_overlays<'t>(
    annotations: &mut Annotations,
    template: &Template,
    types: impl Iterator<Item = &'t InstanceType>,
) {
    let overlaid = types.fold(Overlaid::default(), |all, one| Overlaid {
        price: all.price || one.overlaid.price,
        capacity: all.capacity || one.overlaid.capacity,
    });
    for (key, applied) in [
        (annotation::PRICE_OVERLAY_APPLIED, overlaid.price),
        (annotation::CAPACITY_OVERLAY_APPLIED, overlaid.capacity),
    ] {
        let written = template.annotations.get(key).cloned();
        match if applied { Some(true.to_string()) } else { written } {
            Some(value) => annotations.insert(key.to_owned(), value),
            None => annotations.remove(key),
        };
    }
}

/// The least the daemons of any remaining type will take.
fn daemon_requests(node: &InFlightNode, space: &PoolSpace<'_>) -> Resources {
    let left = space.daemons.iter().filter(|group| group.variants.meets(&node.state.variants));
    Resources::min(left.map(|group| &group.requests))
}
