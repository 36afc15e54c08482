//! Choice of the types that a launch asks for among those a claim allows (spec aws-provider 5.2, 5.3).
//!
//! The planner names suitable types; these rules keep EC2 from a wasteful choice among them: hardware no pod asks for, or
//! spot capacity more expensive than on-demand. Pure; the input is never changed in place.

pub mod reserved;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::names::label::{self, aws};
use karpenter_model::{
    CapacityType, InstanceType, LabelRegistry, Offering, Price, Requirements, Resources, Undefined,
};

use crate::catalogue::instance_type::capacity;

/// Most types one launch names.
pub(crate) const TYPES_MAX: usize = 60;

/// Fewest types an on-demand launch should choose from when it may be spot too.
pub(crate) const FLEXIBLE_TYPES: usize = 5;

/// A type with the offerings a launch may use: available and compatible.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub instance_type: Arc<InstanceType>,
    /// Its offerings, never empty.
    pub offerings: Vec<Offering>,
}

/// Request of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Label constraints.
    pub requirements: &'a Requirements,
    pub requests: &'a Resources,
    /// The labels the constraints are about.
    pub registry: &'a LabelRegistry,
    /// True if `minValues` may be missed.
    pub min_values_relaxed: bool,
}

/// Reason why no type is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Empty {
    /// No type fits with an offering that can be had.
    #[error(
        "no instance type has the requested resources and an available offering that satisfies the requirements"
    )]
    NoneCompatible,
    /// The cheapest types do not reach `minValues`.
    #[error("the {TYPES_MAX} cheapest instance types do not have enough distinct values for `minValues`")]
    MinValues,
}

/// The types to ask for, cheapest first.
///
/// # Errors
/// [`Empty`] when nothing is left; to the caller that is lack of capacity.
pub fn narrow(types: &[Arc<InstanceType>], wanted: Wanted<'_>) -> Result<Vec<Candidate>, Empty> {
    let candidates: Vec<Candidate> = types.iter().filter_map(|one| available(one, wanted)).collect();
    // The order is that of the reference (spec aws-provider 5.2), and each rule sees what those before it
    // left: reserved capacity is chosen first, because it is paid for.
    let mut candidates = reserved::narrow(candidates);
    let min_values = wanted.requirements.has_min_values();
    // With `minValues` each type may bring a value that the claim counts on.
    if !min_values {
        candidates = without_exotic(candidates);
        candidates = without_expensive_spot(candidates, wanted.requirements);
    }
    if candidates.is_empty() {
        return Err(Empty::NoneCompatible);
    }
    candidates.sort_by(|a, b| {
        cheapest(&a.offerings)
            .cmp(&cheapest(&b.offerings))
            .then_with(|| a.instance_type.name.cmp(&b.instance_type.name))
    });
    // After sorting, and before `minValues` is looked at: only types that are named to EC2 can bring a value.
    candidates.truncate(TYPES_MAX);
    if min_values && !wanted.min_values_relaxed && !enough_values(&candidates, wanted.requirements) {
        return Err(Empty::MinValues);
    }
    Ok(candidates)
}

/// Capacity type of the launch: reserved before spot before on-demand, whichever has something to offer.
pub fn capacity_type(candidates: &[Candidate]) -> CapacityType {
    candidates
        .iter()
        .flat_map(|candidate| &candidate.offerings)
        .map(|offering| offering.capacity_type)
        .min()
        .unwrap_or(CapacityType::OnDemand)
}

/// Returns whether the claim could be bought in another way than this one.
pub(crate) fn has_other_capacity_types(candidates: &[Candidate], capacity_type: CapacityType) -> bool {
    let mut offerings = candidates.iter().flat_map(|candidate| &candidate.offerings);
    offerings.any(|offering| offering.capacity_type != capacity_type)
}

/// Leaves the offerings of one capacity type: a launch buys one way, and what it decides next is about those only.
pub(crate) fn of_capacity_type(candidates: Vec<Candidate>, capacity_type: CapacityType) -> Vec<Candidate> {
    let fewer = |mut candidate: Candidate| {
        candidate.offerings.retain(|offering| offering.capacity_type == capacity_type);
        (!candidate.offerings.is_empty()).then_some(candidate)
    };
    candidates.into_iter().filter_map(fewer).collect()
}

/// Number of types an on-demand launch is left with, when it may be spot too and they are few: should one of them be
/// out of capacity, there is little to fall back to.
pub(crate) fn few_to_fall_back_to(
    candidates: &[Candidate],
    capacity_type: CapacityType,
    requirements: &Requirements,
) -> Option<usize> {
    let spot = CapacityType::Spot.as_str();
    let flexible = requirements.get(label::CAPACITY_TYPE).is_none_or(|wanted| wanted.allows(spot));
    let few = capacity_type == CapacityType::OnDemand && flexible && candidates.len() < FLEXIBLE_TYPES;
    few.then_some(candidates.len())
}

fn available(instance_type: &Arc<InstanceType>, wanted: Wanted<'_>) -> Option<Candidate> {
    let undefined = Undefined::WellKnown(wanted.registry);
    wanted.requirements.compatible(&instance_type.requirements, undefined).ok()?;
    let offerings: Vec<Offering> = instance_type
        .compatible_offerings(wanted.requirements, wanted.registry)
        // By offering: an overlay may give one of them more or less than its type has.
        .filter(|offering| wanted.requests.fits(&instance_type.allocatable_through(offering)))
        .cloned()
        .collect();
    (!offerings.is_empty()).then(|| Candidate { instance_type: Arc::clone(instance_type), offerings })
}

/// Drops bare metal and accelerated types, unless nothing else is left.
fn without_exotic(candidates: Vec<Candidate>) -> Vec<Candidate> {
    let plain: Vec<Candidate> =
        candidates.iter().filter(|candidate| !exotic(&candidate.instance_type)).cloned().collect();
    if plain.is_empty() { candidates } else { plain }
}

fn exotic(instance_type: &InstanceType) -> bool {
    let metal = instance_type.name.as_str().split_once('.').is_some_and(|(_, size)| size.contains("metal"));
    let accelerated =
        [capacity::NVIDIA_GPU, capacity::AMD_GPU, capacity::NEURON, capacity::NEURON_CORE, capacity::GAUDI];
    metal || accelerated.iter().any(|name| !instance_type.capacity.amount(name).is_zero())
}

/// Drops spot offerings more expensive than the cheapest on-demand one, estimates compared with estimates alone, when the
/// claim takes either.
fn without_expensive_spot(candidates: Vec<Candidate>, requirements: &Requirements) -> Vec<Candidate> {
    let allowed = |capacity_type: CapacityType| {
        requirements.get(label::CAPACITY_TYPE).is_none_or(|wanted| wanted.allows(capacity_type.as_str()))
    };
    if !allowed(CapacityType::Spot) || !allowed(CapacityType::OnDemand) {
        return candidates;
    }
    let on_demand = |estimated: bool| {
        let all = candidates.iter().flat_map(|candidate| &candidate.offerings);
        let comparable =
            all.filter(|one| one.capacity_type == CapacityType::OnDemand && one.estimated == estimated);
        comparable.map(|one| one.price).min().unwrap_or(Price::MAX)
    };
    // Estimates are off by a factor of three for accelerators, so they prove nothing about published prices.
    let (published, estimated) = (on_demand(false), on_demand(true));
    let expensive = |one: &Offering| {
        one.capacity_type == CapacityType::Spot
            && one.price > if one.estimated { estimated } else { published }
    };
    candidates
        .into_iter()
        .filter_map(|mut candidate| {
            candidate.offerings.retain(|one| !expensive(one));
            (!candidate.offerings.is_empty()).then_some(candidate)
        })
        .collect()
}

fn cheapest(offerings: &[Offering]) -> Option<Price> {
    offerings.iter().map(|offering| offering.price).min()
}

/// Returns whether the types have, per key with `minValues`, as many distinct allowed values.
fn enough_values(candidates: &[Candidate], requirements: &Requirements) -> bool {
    requirements.iter().all(|wanted| {
        let Some(least) = wanted.min_values() else { return true };
        let values: BTreeSet<_> = candidates
            .iter()
            .filter_map(|candidate| candidate.instance_type.requirements.get(wanted.key().as_str()))
            .flat_map(karpenter_model::Requirement::values)
            .filter(|value| wanted.allows(value.as_str()))
            .collect();
        u32::try_from(values.len()).is_ok_and(|count| count >= least)
    })
}

/// Returns whether dedicated hardware is asked for. A missing label does not ask for it.
pub fn names_dedicated(requirements: &Requirements) -> bool {
    requirements.get(aws::INSTANCE_TENANCY).is_some_and(|tenancy| tenancy.allows("dedicated"))
}

/// Shared hardware when the claim accepts it, else dedicated (spec aws-provider 5.3).
pub fn dedicated(requirements: &Requirements) -> bool {
    requirements
        .get(aws::INSTANCE_TENANCY)
        .is_some_and(|tenancy| !tenancy.allows("default") && tenancy.allows("dedicated"))
}

#[cfg(test)]
mod tests;
