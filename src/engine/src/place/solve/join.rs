//! The one question the solver asks of a bin, open or new: would it take this ask, and what is it then.

use karpenter_model::settings::MinValuesPolicy;

use crate::catalogue::Catalogue;
use crate::place::bin::State;
use crate::place::class::Ask;
use crate::place::pool::PoolSpace;
use crate::place::reservations::{Reservations, UsedUp};
use crate::place::topology::Topology;
use crate::rules::{RuleSetId, Rules};

/// Whether an ask joins a bin.
pub(super) enum Joined {
    /// It does, and this is what the bin is then.
    As(State),
    /// Rules about other pods are in the way for now.
    NotNow,
    /// Every reservation the bin could use then is held.
    UsedUp,
    /// Something that cannot change is in the way.
    Never,
}

/// What joining a bin needs to know.
pub(super) struct Joiner<'s, 'a> {
    pub(super) rules: &'s mut Rules<'a>,
    pub(super) topology: &'s Topology,
    pub(super) reservations: &'s Reservations,
    pub(super) lower: MinValuesPolicy,
}

impl<'a> Joiner<'_, 'a> {
    /// Joins `ask` to bin `number`, at the first place of its volumes that is possible.
    pub(super) fn join(
        &mut self,
        state: &State,
        number: usize,
        ask: &Ask,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let mut outcome = Joined::Never;
        for place in &ask.places {
            match (self.join_at(*place, state, number, ask, space, catalogue), &outcome) {
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
        number: usize,
        ask: &Ask,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let alone = state.join(ask, &[place], space, catalogue, self.rules, self.lower);
        let bound = ask.profile.filter(|id| self.topology.is_bound_to_others(*id));
        let (alone, bound) = match (alone, bound) {
            (None, _) => return Joined::Never,
            (Some(alone), None) => return self.reserve(alone, catalogue),
            (Some(alone), Some(bound)) => (alone, bound),
        };
        let requirements = self.rules.requirements(alone.rules);
        let registry = self.rules.registry();
        let choices = self.topology.choices(bound, number, &requirements, registry);
        let Some(choices) = choices else { return Joined::Never };
        for choice in choices {
            let domain = self.rules.set(&choice);
            let joined = state.join(ask, &[place, domain], space, catalogue, self.rules, self.lower);
            if let Some(joined) = joined {
                return self.reserve(joined, catalogue);
            }
        }
        Joined::NotNow
    }

    /// Takes every reservation the bin could be launched into.
    fn reserve(&mut self, mut state: State, catalogue: &mut Catalogue<'a>) -> Joined {
        if !self.reservations.is_empty() && catalogue.has_reservations() {
            let mask = catalogue.mask(state.rules, self.rules);
            let compatible = catalogue.reservations_of(&state.shapes, &mask);
            match self.reservations.reservable(&state.reserved, compatible) {
                Ok(reserved) => state.reserved = reserved,
                Err(UsedUp) => return Joined::UsedUp,
            }
        }
        Joined::As(state)
    }
}
