//! The one question the solver asks of a bin, open or new: would it take this ask, and what is it then.

use karpenter_model::settings::MinValuesPolicy;

use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::place::ask::Ask;
use crate::place::bin::{self, State};
use crate::place::existing::Admission;
use crate::place::pool::PoolSpace;
use crate::place::reservations::{Reservations, UsedUp};
use crate::place::topology::{Domain, ProfileId, Topology};
use crate::rules::{RuleSetId, Rules};

/// Whether an ask joins a bin.
pub(super) enum Joined {
    /// It does, and this is what the bin is then.
    As(State),
    /// Rules about other pods are in the way for now.
    NotNow,
    /// Every reservation the bin could use then is held.
    UsedUp,
    /// Other pods are in the way for good.
    KeptOut,
    /// Something is in the way that cannot change, whatever the pod is to others.
    Never,
}

/// One pod that looks for a bin.
pub(super) struct Joiner<'s, 'a> {
    rules: &'s mut Rules<'a>,
    topology: &'s Topology,
    reservations: &'s Reservations,
    ask: &'s Ask,
    /// What the pod is to others, where that matters.
    bound: Option<ProfileId>,
    lower: MinValuesPolicy,
    /// Domains that are fine for bins with these requirements, best first. Few bins differ in this.
    domains: Vec<(RuleSetId, Vec<RuleSetId>)>,
}

impl<'s, 'a> Joiner<'s, 'a> {
    /// A pod that asks for `ask`; `bound` is what it is to others, where that matters.
    pub(super) fn new(
        rules: &'s mut Rules<'a>,
        (topology, bound): (&'s Topology, Option<ProfileId>),
        reservations: &'s Reservations,
        ask: &'s Ask,
        lower: MinValuesPolicy,
    ) -> Self {
        Self { rules, topology, reservations, ask, bound, lower, domains: Vec::new() }
    }

    /// The shapes of `space` that could host the pod alone if there were no limits.
    pub(super) fn hosting(&mut self, space: &PoolSpace<'a>, catalogue: &mut Catalogue<'a>) -> Option<Bits> {
        bin::hosting(self.ask, space, catalogue, self.rules)
    }

    /// Joins bin `number`, at the first place of the volumes that is possible.
    pub(super) fn join(
        &mut self,
        state: &State,
        number: usize,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let host = self.bound.map(|id| self.topology.admits_host(id, &Domain::Bin(number)));
        match host {
            None | Some(Admission::Yes) => {}
            Some(Admission::NotNow) => return Joined::NotNow,
            Some(Admission::Never) => return Joined::KeptOut,
        }
        let mut outcome = Joined::Never;
        for place in &self.ask.places {
            match (self.join_at(*place, state, space, catalogue), &outcome) {
                (Joined::Never, _) | (Joined::NotNow, Joined::UsedUp) => {}
                (joined @ Joined::As(_), _) => return joined,
                (later, _) => outcome = later,
            }
        }
        outcome
    }

    /// The same with volumes at `place`, in the first domain that rules about other pods allow and that leaves
    /// an instance type.
    fn join_at(
        &mut self,
        place: RuleSetId,
        state: &State,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let Self { ask, lower, reservations, .. } = *self;
        let rules = &mut *self.rules;
        let Some(alone) = state.rules_with(ask, place, rules) else { return Joined::Never };
        let Some(bound) = self.bound else {
            let joined = state.join(ask, alone, space, catalogue, rules, lower);
            return joined.map_or(Joined::Never, |joined| reserve(joined, reservations, catalogue, rules));
        };
        for domain in domains(&mut self.domains, bound, alone, self.topology, rules) {
            let Some(set) = rules.meet(alone, *domain) else { continue };
            if let Some(joined) = state.join(ask, set, space, catalogue, rules, lower) {
                return reserve(joined, reservations, catalogue, rules);
            }
        }
        let hopeless = state.join(ask, alone, space, catalogue, rules, lower).is_none();
        if hopeless { Joined::Never } else { Joined::NotNow }
    }
}

/// Takes every reservation the bin could be launched into.
fn reserve<'a>(
    mut state: State,
    reservations: &Reservations,
    catalogue: &mut Catalogue<'a>,
    rules: &Rules<'a>,
) -> Joined {
    if !reservations.is_empty() && catalogue.has_reservations() {
        let mask = catalogue.mask(state.rules, rules);
        let compatible = catalogue.reservations_of(&state.shapes, &mask);
        match reservations.reservable(&state.reserved, compatible) {
            Ok(reserved) => state.reserved = reserved,
            Err(UsedUp) => return Joined::UsedUp,
        }
    }
    Joined::As(state)
}

/// The domains that are fine for a bin with requirements `set`, out of `known` or by asking.
fn domains<'k>(
    known: &'k mut Vec<(RuleSetId, Vec<RuleSetId>)>,
    bound: ProfileId,
    set: RuleSetId,
    topology: &Topology,
    rules: &mut Rules<'_>,
) -> &'k [RuleSetId] {
    let place = known.iter().position(|(of, _)| *of == set).unwrap_or_else(|| {
        let requirements = rules.whole(set);
        let choices = topology.choices(bound, &requirements, rules.registry());
        known.push((set, choices.iter().map(|choice| rules.set(choice)).collect()));
        known.len() - 1
    });
    &known[place].1
}
