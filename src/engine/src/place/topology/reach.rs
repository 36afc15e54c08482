//! Domains that new nodes could be in, by the pods that such nodes would be for (spec scheduling 18.2).
//!
//! A domain no pod of a group will ever use must not hold the others back: the scheduler counts nodes, and there will be
//! none that it counts. So a domain counts for a topology spread when some instance type that is available there has room
//! for a pod of the group beside the daemons of the node, the volumes of that pod can be attached there, and the constraint
//! counts nodes of the pool and the type: whatever the pods select where it ignores node affinity, whatever they tolerate
//! where it ignores taints. A domain with a node that counts is known through that node.
//!
//! Of limits only those matter that no node would be within, such as the limits of a pool that is switched off. How much of
//! a limit is used does not matter: in a simulation that takes a node away, another one could come in its place.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::{LabelKey, LabelValue, Snapshot};

use super::group::{GroupKey, Kind};
use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{CatalogueIx, IxVec, PoolIx, ProfileIx, VariantIx};
use crate::interning::Interned;
use crate::place::constraint::limits::Limits;
use crate::place::in_flight;
use crate::place::pool::{PoolSpace, Pools};
use crate::rules::{RuleSetId, Rules};

/// Pools that reach each domain of each key.
type Universe = BTreeMap<LabelKey, BTreeMap<LabelValue, Vec<PoolIx>>>;

/// Demands of a pod on a new node besides what it selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) amounts: Amounts,
    /// Places where its volumes can be attached: any one of these.
    pub(crate) places: Vec<RuleSetId>,
}

/// Facts that decide where new nodes could be.
pub(crate) struct Reach<'r, 'a> {
    pub(super) pools: &'r Pools<'a>,
    pub(super) catalogues: &'r mut IxVec<CatalogueIx, Catalogue<'a>>,
    pub(super) rules: &'r mut Rules<'a>,
    /// Requests of the pods of each profile.
    requests: Interned<(ProfileIx, Request)>,
    /// Instance types that each pool could launch if it had no nodes.
    within_limits: IxVec<PoolIx, Bits<VariantIx>>,
    universe: Universe,
}

impl<'r, 'a> Reach<'r, 'a> {
    /// Nodes of `pools` for pods with these `requests`.
    pub(crate) fn new(
        (pools, catalogues): (&'r Pools<'a>, &'r mut IxVec<CatalogueIx, Catalogue<'a>>),
        rules: &'r mut Rules<'a>,
        requests: Interned<(ProfileIx, Request)>,
    ) -> Self {
        let within_limits = |space: &PoolSpace<'_>| {
            let limits = Limits::new(space.pool, None);
            limits.admit(&catalogues[space.catalogue], &space.base).unwrap_or_default()
        };
        let within_limits = pools.spaces.iter().map(within_limits).collect();
        Self { pools, catalogues, rules, requests, within_limits, universe: Universe::new() }
    }

    /// Looks up the domains of `keys`.
    pub(super) fn survey(&mut self, keys: &BTreeSet<LabelKey>, snapshot: &Snapshot) {
        for (number, space) in self.pools.spaces.enumerate() {
            let types =
                snapshot.instance_types.get(&space.pool.name).into_iter().flat_map(|types| types.iter());
            let types: Vec<_> = types.collect();
            // Every new node is a host of its own: hosts are no domains that could be known beforehand.
            for key in keys.iter().filter(|key| **key != label::HOSTNAME) {
                let own = space.template.value_of(key);
                let mut values: BTreeSet<&LabelValue> = own.concrete().into_iter().flatten().collect();
                let offered =
                    types.iter().filter_map(|candidate| candidate.requirements.get(key.as_str())?.concrete());
                values.extend(offered.flatten().filter(|value| own.allows(value.as_str())));
                let domains = self.universe.entry(key.clone()).or_default();
                for value in values {
                    domains.entry(value.clone()).or_default().push(number);
                }
            }
        }
    }

    /// Returns the requests of the pods of each profile, by the number of the profile.
    pub(super) fn requests(&self, profiles: usize) -> IxVec<ProfileIx, Vec<Request>> {
        let mut requests = IxVec::filled(Vec::new(), profiles);
        for (profile, request) in &self.requests {
            requests[*profile].push(request.clone());
        }
        requests
    }

    /// Number of domains of `key` that new nodes could be in, for whichever pods.
    pub(super) fn known(&self, key: &LabelKey) -> usize {
        self.universe.get(key).map_or(0, BTreeMap::len)
    }

    /// The domains that new nodes could be in, for whichever pods.
    pub(super) fn all(&self) -> BTreeMap<LabelKey, BTreeSet<LabelValue>> {
        self.universe.iter().map(|(key, domains)| (key.clone(), domains.keys().cloned().collect())).collect()
    }

    /// The domains that count for the group of `key`, some of whose pods ask for `requests`.
    pub(super) fn domains(&mut self, key: &GroupKey, requests: &[&Request]) -> Vec<LabelValue> {
        let Some(domains) = self.universe.get(&key.topology_key) else { return Vec::new() };
        let Kind::Spread { filter, .. } = &key.kind else { return domains.keys().cloned().collect() };
        let Self { pools, catalogues, rules, within_limits, .. } = self;
        let asked = filter.alternatives(rules);
        let mut counts = |value: &LabelValue, spaces: &[PoolIx]| {
            spaces.iter().any(|number| {
                let domain = (&key.topology_key, value);
                let space = &pools.spaces[*number];
                let catalogue = &mut catalogues[space.catalogue];
                filter.tolerates(&space.pool.template.taints)
                    && asked.iter().any(|asked| {
                        let allowed = &within_limits[*number];
                        hosts((space, catalogue), allowed, rules, *asked, domain, requests)
                    })
            })
        };
        let counting = domains.iter().filter(|(value, spaces)| counts(value, spaces));
        counting.map(|(value, _)| value.clone()).collect()
    }
}

/// Returns whether an instance type of `allowed` that can be had in the domain `value` of `key` from the pool of `space`,
/// narrowed to what is `asked` for, holds one of `requests` and the daemons that run there.
fn hosts<'a>(
    (space, catalogue): (&PoolSpace<'a>, &mut Catalogue<'a>),
    allowed: &Bits<VariantIx>,
    rules: &mut Rules<'a>,
    asked: RuleSetId,
    (key, value): (&LabelKey, &LabelValue),
    requests: &[&Request],
) -> bool {
    let domain = rules.exactly(key, value);
    let Some(set) = rules.meet(space.rules, asked).and_then(|set| rules.meet(set, domain)) else {
        return false;
    };
    let mut holds = |amounts: &Amounts, place: RuleSetId| {
        let Some(set) = rules.meet(set, place) else { return false };
        let offered = allowed.and(&catalogue.mask(set, rules).both);
        !offered.is_empty() && !in_flight::fitting(amounts, &offered, &[], space, catalogue).is_empty()
    };
    requests.iter().any(|request| request.places.iter().any(|place| holds(&request.amounts, *place)))
}
