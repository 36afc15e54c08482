//! Number of nodes that each pool has in each domain, those of the plan included.
//!
//! Rules about other pods look at one application at a time. A hundred applications of one pod each would all be
//! fine with the first zone; how many nodes are there already is what spreads them.

use karpenter_model::{
    LabelKey, LabelRegistry, LabelValue, Node, PoolName, Requirement, Requirements, Snapshot,
};

use crate::index::{InFlightIx, Ix, IxVec, TopologyKeyIx};
use crate::interning::InternedMap;
use crate::node_labels::value_of;

/// Pool, place of the topology key, domain.
type InDomain = (PoolName, TopologyKeyIx, LabelValue);

/// Nodes by domain.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    keys: IxVec<TopologyKeyIx, LabelKey>,
    existing: InternedMap<InDomain, u32>,
    planned: InternedMap<InDomain, u32>,
    /// Domains new nodes are certain to be in, by in-flight node and in the order of the keys.
    in_flight: InternedMap<InFlightIx, IxVec<TopologyKeyIx, Option<LabelValue>>>,
    /// Nodes that were taken away and may be put back.
    away: Vec<InDomain>,
}

impl Census {
    /// The nodes of `snapshot` that stay, by their domains of `keys`.
    pub(super) fn new(keys: Vec<LabelKey>, snapshot: &Snapshot) -> Self {
        let mut census = Self { keys: keys.into(), ..Self::default() };
        if census.keys.is_empty() {
            return census;
        }
        for node in snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
            for domain in census.domains(node, &snapshot.registry) {
                *census.existing.entry(domain).or_default() += 1;
            }
        }
        census
    }

    /// Nodes of `pool` in the domain `value` of `key`.
    pub(super) fn nodes(&self, pool: &PoolName, key: &LabelKey, value: &LabelValue) -> u32 {
        let Some(place) = self.keys.iter().position(|known| known == key) else { return 0 };
        let domain = (pool.clone(), TopologyKeyIx::new(place), value.clone());
        [&self.existing, &self.planned].iter().filter_map(|nodes| nodes.get(&domain)).sum()
    }

    /// In-flight node `number`, of `pool`, has these `requirements` now; returns the keys whose domain is certain since.
    pub(super) fn narrowed(
        &mut self,
        number: InFlightIx,
        pool: &PoolName,
        requirements: &Requirements,
    ) -> Vec<TopologyKeyIx> {
        let mut decided = Vec::new();
        let Self { keys, planned, in_flight, .. } = self;
        let known = in_flight.entry(number).or_insert_with(|| IxVec::filled(None, keys.len()));
        for (place, key) in keys.enumerate() {
            // In-flight nodes only get narrower: one that is in a domain stays there.
            if known[place].is_none() {
                known[place] = only(requirements, key).cloned();
                if let Some(value) = &known[place] {
                    decided.push(place);
                    *planned.entry((pool.clone(), place, value.clone())).or_default() += 1;
                }
            }
        }
        decided
    }

    /// `node` is taken away.
    pub(super) fn leave(&mut self, node: &Node, registry: &LabelRegistry) {
        for domain in self.domains(node, registry) {
            if let Some(nodes) = self.existing.get_mut(&domain) {
                *nodes = nodes.saturating_sub(1);
                self.away.push(domain);
            }
        }
    }

    /// Nodes that were taken away are there again, and nothing is planned.
    pub(super) fn revert(&mut self) {
        for domain in self.away.drain(..) {
            *self.existing.entry(domain).or_default() += 1;
        }
        self.settle();
    }

    /// Nodes that were taken away stay away. What was planned is no part of later plans.
    pub(super) fn settle(&mut self) {
        self.away.clear();
        self.planned.clear();
        self.in_flight.clear();
    }

    fn domains(&self, node: &Node, registry: &LabelRegistry) -> Vec<InDomain> {
        let Some(pool) = node.pool() else { return Vec::new() };
        let domain = |(place, key)| Some((pool.clone(), place, value_of(node, key, registry)?));
        self.keys.enumerate().filter_map(domain).collect()
    }
}

/// The only value of `key` that `requirements` leaves.
pub(super) fn only<'b>(requirements: &'b Requirements, key: &LabelKey) -> Option<&'b LabelValue> {
    let values = requirements.get(key.as_str()).and_then(Requirement::concrete)?;
    values.first().filter(|_| values.len() == 1)
}
