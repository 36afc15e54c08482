//! Decision whether an in-flight node, open or new, takes a demand, and what it may still become then.

mod serve;

use karpenter_devices::Proposal;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::{LabelKey, LabelValue};

use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{InFlightIx, ProfileIx, VariantIx};
use crate::place::devices::Holdings;
use crate::place::in_flight::{self, State};
use crate::place::learnt::Prices;
use crate::place::level::Demand;
use crate::place::pool::PoolSpace;
use crate::place::reservations::{Reservations, UsedUp};
use crate::place::topology::{Admission, Company, Domain, Prospect, Topology};
use crate::rules::{RuleSetId, Rules};
use serve::Server;

/// Result of a demand that tries to join an in-flight node.
pub(super) enum Joined {
    /// It joins, and this is the state of the in-flight node then.
    As(State),
    /// Rules about other pods are in the way for now.
    NotNow,
    /// No domain is fine, for every in-flight node with these requirements.
    NoDomain,
    /// Every reservation the in-flight node could use then is held.
    UsedUp,
    /// Other pods are in the way for good.
    KeptOut,
    /// Requirements exclude each other, and so they do for every in-flight node with these.
    Clash,
    /// Something else is in the way that cannot change, whatever the pod is to others.
    Never,
}

/// One pod at one level, on its way through the in-flight nodes.
pub(super) struct Joiner<'s, 'a> {
    rules: &'s mut Rules<'a>,
    surroundings: Surroundings<'s, 'a>,
    demand: &'s Demand,
    /// Profile of the pod, where that matters.
    bound: Option<ProfileIx>,
    lower: MinValuesPolicy,
    /// The least prices of a node for the demand alone, once known.
    prices: &'s mut Prices,
    /// Results by the requirements of in-flight nodes, which name the pool, and the number of the company.
    /// Few in-flight nodes differ in this.
    narrowed: Vec<((RuleSetId, usize), Narrowed)>,
    /// Devices the pod would get in the in-flight node it joined last.
    pub(super) proposal: Option<Proposal>,
}

/// State that placement has changed so far, as far as it decides what a pod may join.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'s, 'a> {
    pub(super) topology: &'s Topology,
    pub(super) reservations: &'s Reservations,
    /// The devices that are taken.
    pub(super) devices: Option<&'s Holdings<'a>>,
}

/// Requirements that an in-flight node may have once the pod has joined.
enum Narrowed {
    /// No requirements: they exclude each other.
    Clash,
    /// No requirements as things are: no domain is fine.
    NoDomain,
    /// Requirements, any one of which holds, best first.
    AtPlaces(Vec<NarrowedAtPlace>),
}

/// The requirements with volumes at one place.
struct NarrowedAtPlace {
    /// Rules about other pods aside.
    alone: RuleSetId,
    /// Sets of requirements, one for each domain that is fine, best first.
    sets: Vec<RuleSetId>,
}

impl<'s, 'a> Joiner<'s, 'a> {
    /// A pod with `demand`; `bound` is what it is to others, where that matters.
    pub(super) fn new(
        rules: &'s mut Rules<'a>,
        surroundings: Surroundings<'s, 'a>,
        demand: &'s Demand,
        bound: Option<ProfileIx>,
        prices: &'s mut Prices,
        lower: MinValuesPolicy,
    ) -> Self {
        let (narrowed, proposal) = Default::default();
        Self { rules, surroundings, demand, bound, lower, prices, narrowed, proposal }
    }

    /// The instance types of `space` that could host the pod alone if there were no limits.
    pub(super) fn hosting(
        &mut self,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Option<Bits<VariantIx>> {
        in_flight::hosting(self.demand, space, catalogue, self.rules)
    }

    /// Joins in-flight node `number`, at the first place of the volumes that is possible. Instance types of `space`
    /// that are not in `hosting` could not even host the pod alone. Where rules are about daemons, the pod joins in the
    /// first company that is possible.
    pub(super) fn join(
        &mut self,
        state: &State,
        number: InFlightIx,
        hosting: &Bits<VariantIx>,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let topology = self.surroundings.topology;
        let Some(companies) = self.bound.and_then(|id| topology.companies(id, space)) else {
            return self.join_with(None, state, number, hosting, space, catalogue);
        };
        // Instance types only get fewer and requirements narrower, so a company that is impossible stays so.
        let mut outcome = Joined::KeptOut;
        for (place, company) in companies.iter().enumerate() {
            let variants = state.variants.and(&company.variants);
            if variants.is_empty() {
                continue;
            }
            let state = State { variants, ..state.clone() };
            match self.join_with(Some((place, company)), &state, number, hosting, space, catalogue) {
                joined @ (Joined::As(_) | Joined::UsedUp) => return joined,
                // Only this company is in the way: others may be on other instance types.
                Joined::NotNow | Joined::NoDomain => outcome = Joined::NotNow,
                Joined::KeptOut | Joined::Clash | Joined::Never => {}
            }
        }
        outcome
    }

    /// Joins with the daemons of `company`, which has a number.
    fn join_with(
        &mut self,
        company: Option<(usize, &Company)>,
        state: &State,
        number: InFlightIx,
        hosting: &Bits<VariantIx>,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Joined {
        let of = (state.rules, company.map_or(0, |(place, _)| place));
        let company = company.map(|(_, company)| company);
        let known = self.narrowed.iter().position(|(known, _)| *known == of);
        let known = known.unwrap_or_else(|| {
            let narrowed = self.narrow(state.rules, company, hosting, space, catalogue);
            self.narrowed.push((of, narrowed));
            self.narrowed.len() - 1
        });
        let places = match &self.narrowed[known].1 {
            Narrowed::Clash => return Joined::Clash,
            Narrowed::NoDomain => return Joined::NoDomain,
            Narrowed::AtPlaces(places) => places,
        };
        // After the requirements, whose answer is shared by all nodes with the same ones.
        let topology = self.surroundings.topology;
        match self.bound.map(|id| topology.admits_host(id, &Domain::InFlight(number), company, false)) {
            None | Some(Admission::Yes) => {}
            Some(Admission::NotNow) => return Joined::NotNow,
            Some(Admission::Never) => return Joined::KeptOut,
        }
        // The zone of the node is still open: it may come up where there are pods that this one's spread
        // counts, and together they would be too many.
        if self.bound.is_some_and(|id| topology.crowds(id, number)) {
            return Joined::NotNow;
        }
        let Self { rules, demand, lower, proposal, .. } = self;
        let Surroundings { reservations, devices, .. } = self.surroundings;
        let mut outcome = Joined::Never;
        for place in places {
            let joined = if demand.claims.is_empty() {
                place.join(state, demand, space, catalogue, rules, *lower)
            } else {
                let mut server = Server { number, devices, demand, space, lower: *lower, proposal };
                server.join(&place.sets, state, catalogue, rules)
            };
            let joined = match joined {
                Joined::As(state) => reserve(state, number, reservations, catalogue, rules),
                other => other,
            };
            match (joined, &outcome) {
                // The most hopeful refusal counts: reservations, then other pods, then nothing at all.
                (Joined::Never, _) | (Joined::NotNow, Joined::UsedUp) => {}
                (joined @ Joined::As(_), _) => return joined,
                (later, _) => outcome = later,
            }
        }
        outcome
    }

    /// Returns what the requirements `of` an in-flight node may become. They name the pool, so they decide which
    /// instance types are `hosting`.
    fn narrow(
        &mut self,
        of: RuleSetId,
        company: Option<&Company>,
        hosting: &Bits<VariantIx>,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Narrowed {
        let demand = self.demand;
        let own = demand.rules.and_then(|own| self.rules.meet(of, own));
        let own = match company {
            Some(company) => own.and_then(|own| self.rules.meet(own, company.asked)),
            None => own,
        };
        let Some(own) = own else { return Narrowed::Clash };
        let mut narrowed = Vec::with_capacity(demand.places.len());
        for place in &demand.places {
            let Some(alone) = self.rules.meet(own, *place) else { continue };
            let sets = match self.bound {
                None => vec![alone],
                Some(bound) => self.domains((bound, company), alone, hosting, space, catalogue),
            };
            narrowed.push(NarrowedAtPlace { alone, sets });
        }
        match narrowed.iter().all(|at_place| at_place.sets.is_empty()) {
            _ if narrowed.is_empty() => Narrowed::Clash,
            true => Narrowed::NoDomain,
            false => Narrowed::AtPlaces(narrowed),
        }
    }

    /// Returns what the requirements `set` become in each domain that suits an in-flight node of `space`, best
    /// first. If there are too many to try, domains without an instance type of `hosting` are left out.
    fn domains(
        &mut self,
        (bound, company): (ProfileIx, Option<&Company>),
        set: RuleSetId,
        hosting: &Bits<VariantIx>,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
    ) -> Vec<RuleSetId> {
        let Self { rules, prices, .. } = self;
        let Surroundings { topology, reservations, .. } = self.surroundings;
        if !topology.asks_for_domains(bound) {
            return vec![set];
        }
        let whole = rules.whole(set);
        let registry = rules.registry();
        // The rest of reservations changes with every in-flight node, so such prices cannot be cached.
        let lasting = reservations.is_empty() || !catalogue.has_reservations();
        let mut prospects = |key: &LabelKey, value: &LabelValue| {
            let value_set = rules.exactly(key, value);
            let set = rules.meet(set, value_set)?;
            let mut least = || catalogue.least_price_now(set, hosting, |id| reservations.has_left(id), rules);
            let price = if lasting { *prices.entry(set).or_insert_with(least) } else { least() };
            Some(Prospect { price: price?, nodes: topology.nodes(&space.pool.name, key, value) })
        };
        let choices = topology.choices((bound, company), &whole, space, registry, &mut prospects).sets(rules);
        choices.into_iter().filter_map(|choice| rules.meet(set, choice)).collect()
    }
}

impl NarrowedAtPlace {
    /// Joins an in-flight node that is `state` in the first domain that leaves an instance type.
    fn join<'a>(
        &self,
        state: &State,
        demand: &Demand,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
        rules: &mut Rules<'a>,
        lower: MinValuesPolicy,
    ) -> Joined {
        let mut join = |set| state.join(demand, set, space, catalogue, rules, lower);
        if let Some(joined) = self.sets.iter().find_map(|set| join(*set)) {
            return Joined::As(joined);
        }
        // If the node would do without rules about others, it may do later, when other domains are allowed.
        let hopeless = self.sets == [self.alone] || join(self.alone).is_none();
        if hopeless { Joined::Never } else { Joined::NotNow }
    }
}

/// Takes an instance of one of the reservations in-flight node `number` could be launched into.
fn reserve<'a>(
    mut state: State,
    number: InFlightIx,
    reservations: &Reservations,
    catalogue: &mut Catalogue<'a>,
    rules: &Rules<'a>,
) -> Joined {
    if !reservations.is_empty() && catalogue.has_reservations() {
        let mask = catalogue.mask(state.rules, rules);
        let compatible = catalogue.reservations_of(&state.variants, &mask);
        match reservations.reservable(number, compatible) {
            Ok(reserved) => state.reserved = reserved,
            Err(UsedUp) => return Joined::UsedUp,
        }
    }
    Joined::As(state)
}
