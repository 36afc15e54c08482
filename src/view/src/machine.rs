//! Machines: a claim and its node as one row, with its state and price.

mod state;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::names::label::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use karpenter_model::{Price, Quantity};

use crate::facts::{ClaimFacts, NodeFacts};
use crate::prices::Prices;
use crate::world::World;

pub(crate) use state::{Phase, State};

/// Label of the capacity type that EKS sets on nodes of its node groups, and its values with ours.
const EKS_CAPACITY_TYPE: &str = "eks.amazonaws.com/capacityType";
const EKS_CAPACITY_TYPES: [(&str, &str); 2] = [("ON_DEMAND", "on-demand"), ("SPOT", "spot")];

/// One machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine<'a> {
    /// Name of its node, or of its claim as long as it has none. Unique.
    pub(crate) name: Arc<str>,
    pub(crate) node: Option<&'a NodeFacts>,
    pub(crate) claim: Option<(&'a str, &'a ClaimFacts)>,
    /// Empty for machines of other owners than pools; the same for what follows.
    pub(crate) pool: &'a str,
    pub(crate) instance_type: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) capacity: &'a str,
    pub(crate) price: Option<Price>,
    /// Requests of its pods; those it was made for as long as it has no node.
    pub(crate) requested: &'a [Quantity],
    pub(crate) allocatable: &'a [Quantity],
    pub(crate) pods: usize,
    pub(crate) created: Timestamp,
    pub(crate) state: State<'a>,
}

impl Machine<'_> {
    /// The label `key`, of the node if it has one.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let node = self.node.and_then(|node| value(&node.labels, key));
        node.or_else(|| self.claim.and_then(|(_, claim)| value(&claim.labels, key)))
    }

    /// Returns whether there is an instance that costs money.
    pub(crate) fn is_launched(&self) -> bool {
        self.state.phase != Phase::Pending
    }
}

/// All machines, in no particular order.
pub(crate) fn machines<'a>(world: &'a World, prices: &Prices) -> Vec<Machine<'a>> {
    let mut claims_of_nodes: HashMap<&str, (&str, &ClaimFacts)> = HashMap::new();
    for (name, claim) in world.claims() {
        // A claim has its instance before its node; the id also distinguishes nodes of the same name one after the other.
        for key in [&claim.provider_id, &claim.node].into_iter().flatten() {
            claims_of_nodes.insert(key, (name.as_str(), claim));
        }
    }
    let mut prices = PricesOnce { prices, known: BTreeMap::new() };
    let mut all = Vec::with_capacity(world.nodes().len());
    let mut joined: HashSet<&str> = HashSet::new();
    for (name, node) in world.nodes() {
        let claim = node
            .provider_id
            .as_deref()
            .and_then(|id| claims_of_nodes.get(id))
            .or_else(|| claims_of_nodes.get(name.as_str()))
            .copied();
        joined.extend(claim.map(|(name, _)| name));
        let load = world.load(name);
        all.push(prices.priced(Machine {
            node: Some(node),
            claim,
            requested: load.map(|load| &*load.requests).unwrap_or_default(),
            allocatable: &node.allocatable,
            pods: load.map_or(0, |load| load.pods),
            created: node.created,
            state: state::state(Some(node), claim.map(|(_, claim)| claim)),
            ..Machine::named(name.clone().into(), &[&node.labels, claim.map_or(&[], |(_, it)| &*it.labels)])
        }));
    }
    for (name, claim) in world.claims() {
        if joined.contains(name.as_str()) {
            continue;
        }
        all.push(prices.priced(Machine {
            claim: Some((name.as_str(), claim)),
            requested: &claim.requests,
            allocatable: &claim.allocatable,
            created: claim.created,
            state: state::state(None, Some(claim)),
            ..Machine::named(name.clone().into(), &[&claim.labels])
        }));
    }
    all
}

/// The machine `name`; one that was known by its claim goes on under the name of its node.
pub(crate) fn find<'a, 'b>(machines: &'a [Machine<'b>], name: &str) -> Option<&'a Machine<'b>> {
    let by_claim = |machine: &&Machine<'_>| machine.claim.is_some_and(|(claim, _)| claim == name);
    machines.iter().find(|machine| &*machine.name == name).or_else(|| machines.iter().find(by_claim))
}

impl<'a> Machine<'a> {
    /// A machine of which the name is known, and labels; the first that has one counts.
    fn named(name: Arc<str>, labels: &[&'a [(Arc<str>, Arc<str>)]]) -> Self {
        let first = |key: &str| labels.iter().find_map(|labels| value(labels, key));
        let of_eks = || {
            let word = first(EKS_CAPACITY_TYPE)?;
            EKS_CAPACITY_TYPES.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
        };
        Self {
            name,
            node: None,
            claim: None,
            pool: first(NODE_POOL).unwrap_or_default(),
            instance_type: first(INSTANCE_TYPE).unwrap_or_default(),
            zone: first(ZONE).unwrap_or_default(),
            capacity: first(CAPACITY_TYPE).or_else(of_eks).unwrap_or_default(),
            price: None,
            requested: &[],
            allocatable: &[],
            pods: 0,
            created: Timestamp::UNIX_EPOCH,
            state: State { phase: Phase::Pending, why: "" },
        }
    }
}

fn value<'a>(labels: &'a [(Arc<str>, Arc<str>)], key: &str) -> Option<&'a str> {
    let place = labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
    Some(&labels[place].1)
}

/// Prices by offering, each asked for once: thousands of machines are of a few offerings.
struct PricesOnce<'a> {
    prices: &'a Prices,
    known: BTreeMap<(&'a str, &'a str, &'a str), Option<Price>>,
}

impl<'a> PricesOnce<'a> {
    fn priced<'b: 'a>(&mut self, machine: Machine<'b>) -> Machine<'b> {
        let offering = (machine.instance_type, machine.zone, machine.capacity);
        let ask = || self.prices.of(offering.0, offering.1, offering.2);
        Machine { price: *self.known.entry(offering).or_insert_with(ask), ..machine }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::Shown;

    fn world() -> World {
        World::new(Shown::new(&[]))
    }

    #[test]
    fn claim_and_node_of_one_instance_are_one_machine() {
        let mut world = world();
        world.put_claim(
            &serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
                "metadata": {"name": "web-1", "labels": {NODE_POOL: "web", CAPACITY_TYPE: "spot"}},
                "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": [],
                         "resources": {"requests": {"cpu": "2"}}},
                "status": {"providerID": "aws:///a/i-1", "allocatable": {"cpu": 4}},
            }))
            .unwrap(),
        );
        let alone = machines(&world, &Prices::Off);
        assert_eq!((&*alone[0].name, alone[0].requested[0].to_string()), ("web-1", "2".to_owned()));
        assert_eq!(alone[0].allocatable[0].to_string(), "4");

        world.put_node(
            &serde_json::from_value(json!({
                "metadata": {"name": "ip-1", "labels": {INSTANCE_TYPE: "m5.large"}},
                "spec": {"providerID": "aws:///a/i-1"},
            }))
            .unwrap(),
        );
        let joined = machines(&world, &Prices::Off);
        assert_eq!(joined.len(), 1);
        let machine = &joined[0];
        assert_eq!((&*machine.name, machine.claim.unwrap().0), ("ip-1", "web-1"));
        let labels = (machine.pool, machine.instance_type, machine.capacity);
        assert_eq!(labels, ("web", "m5.large", "spot"), "what the node lacks, the claim says");
    }

    #[test]
    fn nodes_of_node_groups_have_prices_too() {
        let mut world = world();
        for (name, capacity) in [("a", "ON_DEMAND"), ("b", "SPOT"), ("c", "else")] {
            let labels = json!({INSTANCE_TYPE: "m5.large", ZONE: "z", EKS_CAPACITY_TYPE: capacity});
            let node = json!({"metadata": {"name": name, "labels": labels}});
            world.put_node(&serde_json::from_value(node).unwrap());
        }
        let book: crate::PriceBook = Arc::new(|kind, zone, capacity| match (kind, zone, capacity) {
            ("m5.large", "z", "on-demand") => Some(Price::from_nanos(96_000_000)),
            ("m5.large", "z", "spot") => Some(Price::from_nanos(30_000_000)),
            _ => None,
        });
        let all = machines(&world, &Prices::Known(book));
        let prices: Vec<Option<i64>> = all.iter().map(|it| it.price.map(Price::nanos)).collect();
        assert_eq!(prices, [Some(96_000_000), Some(30_000_000), None]);
    }
}
