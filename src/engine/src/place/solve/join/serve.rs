//! Joining with claims for devices: the types that have them, and where they are.

use std::collections::BTreeMap;

use karpenter_devices::Proposal;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{InstanceTypeName, Requirements};

use super::Joined;
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{InFlightIx, VariantIx};
use crate::place::devices::Holdings;
use crate::place::in_flight::State;
use crate::place::level::Demand;
use crate::place::pool::PoolSpace;
use crate::rules::{RuleSetId, Rules};

/// A pod with claims and the in-flight node that may take it.
pub(super) struct Server<'s, 'p, 'a> {
    /// The in-flight node.
    pub(super) number: InFlightIx,
    /// Devices that are taken.
    pub(super) devices: Option<&'s Holdings<'a>>,
    pub(super) demand: &'s Demand,
    pub(super) space: &'p PoolSpace<'a>,
    pub(super) lower: MinValuesPolicy,
    /// Output for the devices it would get.
    pub(super) proposal: &'p mut Option<Proposal>,
}

impl<'a> Server<'_, '_, 'a> {
    /// Joins an in-flight node that is `state` with the first of `sets` that leaves an instance type with the
    /// devices. A refusal is never final, because devices come free again.
    pub(super) fn join(
        &mut self,
        sets: &[RuleSetId],
        state: &State,
        catalogue: &mut Catalogue<'a>,
        rules: &mut Rules<'a>,
    ) -> Joined {
        let joined = sets.iter().find_map(|set| self.join_with(*set, state, catalogue, rules));
        joined.map_or(Joined::NotNow, Joined::As)
    }

    fn join_with(
        &mut self,
        set: RuleSetId,
        state: &State,
        catalogue: &mut Catalogue<'a>,
        rules: &mut Rules<'a>,
    ) -> Option<State> {
        let Self { number, devices, demand, space, lower, .. } = *self;
        let alone = state.join(demand, set, space, catalogue, rules, lower)?;
        let names = names(set, &alone.variants, catalogue, rules);
        let requirements = rules.whole(set);
        let mut left: BTreeMap<RuleSetId, Bits<VariantIx>> = BTreeMap::from([(set, alone.variants)]);
        let mut suits = |kind: usize, narrowed: &Requirements| {
            let narrowed = rules.set(narrowed);
            let Some(narrowed) = rules.meet(set, narrowed) else { return false };
            let variants = left.entry(narrowed).or_insert_with(|| {
                let joined = state.join(demand, narrowed, space, catalogue, rules, lower);
                joined.map_or_else(Bits::default, |joined| joined.variants)
            });
            variants.iter().any(|variant| catalogue.variant(variant).instance_type.name == *names[kind])
        };
        let types = (&space.pool.name, names.as_slice());
        let proposal =
            devices?.propose(Some(number), &demand.claims, types, &requirements, &mut suits).ok()?;
        let narrowed = rules.set(&proposal.requirements);
        let narrowed = rules.meet(set, narrowed)?;
        let mut allowed = Bits::none(catalogue.len());
        for variant in state.variants.iter() {
            let name = &catalogue.variant(variant).instance_type.name;
            if proposal.types.iter().any(|kind| names[*kind] == name) {
                allowed.insert(variant);
            }
        }
        let possible = State { variants: allowed, ..state.clone() };
        let joined = possible.join(demand, narrowed, space, catalogue, rules, lower)?;
        *self.proposal = Some(proposal);
        Some(joined)
    }
}

/// The types of `variants`, cheapest first.
fn names<'a>(
    set: RuleSetId,
    variants: &Bits<VariantIx>,
    catalogue: &mut Catalogue<'a>,
    rules: &Rules<'a>,
) -> Vec<&'a InstanceTypeName> {
    let mut names: Vec<&InstanceTypeName> = Vec::new();
    for ranked in catalogue.ranked(set, rules).iter().filter(|ranked| variants.contains(ranked.variant)) {
        let name = &catalogue.variant(ranked.variant).instance_type.name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
