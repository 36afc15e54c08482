//! Cost of the machines of a pool per hour (spec disruption 0.7, `ClusterCost`).
//!
//! Unlike in the reference the sum follows labels that change: a machine whose reservation has ended costs what it
//! costs now.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{InstanceType, InstanceTypeName, LabelRegistry, Node, NodeId, PoolName, Price};

/// Cost of the machines of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cost {
    /// Sum of the known prices, per hour.
    pub total: Price,
    /// Launched machines without a known price.
    pub unpriced: BTreeSet<NodeId>,
}

/// Adds up the launched machines of a pool, by the offering their labels name.
pub fn cost<'a>(
    pool: &PoolName,
    nodes: impl IntoIterator<Item = &'a Node>,
    types: &[impl AsRef<InstanceType>],
    registry: &LabelRegistry,
) -> Cost {
    let types: BTreeMap<&InstanceTypeName, &InstanceType> =
        types.iter().map(|known| (&known.as_ref().name, known.as_ref())).collect();
    let mut cost = Cost::default();
    for node in nodes {
        if !node.is_managed() || node.unlaunched().is_some() || node.pool().as_ref() != Some(pool) {
            continue;
        }
        match price(node, &types, registry) {
            Some(price) => cost.total = cost.total.saturating_add(price),
            None => drop(cost.unpriced.insert(node.id.clone())),
        }
    }
    cost
}

fn price(
    node: &Node,
    types: &BTreeMap<&InstanceTypeName, &InstanceType>,
    registry: &LabelRegistry,
) -> Option<Price> {
    let known = types.get(&node.instance_type()?)?;
    known.bought_through(node, registry).map(|offering| offering.price)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use karpenter_model::instance_type::Reservation;
    use karpenter_model::names::label;
    use karpenter_model::{CapacityType, Claim, Offering};

    use super::*;
    use crate::fixture::{at, claim};

    fn machine(id: &str, pool: &str, zone: &str) -> Node {
        let labels = [
            (label::NODE_POOL, pool),
            (label::ZONE, zone),
            (label::INSTANCE_TYPE, "m5.large"),
            (label::CAPACITY_TYPE, "spot"),
        ];
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let claim = Claim { labels, provider_id: Some(id.into()), ..claim() };
        Node { claim: Some(Arc::new(claim)), ..Node::new(id.into(), at(0)) }
    }

    fn catalogue() -> Vec<Arc<InstanceType>> {
        let offering = |zone: &str, nanos| Offering {
            available: false,
            ..Offering::new(zone, CapacityType::Spot, Price::from_nanos(nanos))
        };
        vec![Arc::new(InstanceType::bare("m5.large", vec![offering("a", 3), offering("b", 5)]))]
    }

    #[test]
    fn launched_machines_of_the_pool_count_with_the_price_of_their_zone_available_or_not() {
        let nodes = [
            machine("1", "web", "a"),
            machine("2", "web", "b"),
            machine("3", "other", "a"),
            machine("4", "web", "c"),
        ];
        let coming = Claim {
            provider_id: None,
            labels: machine("5", "web", "a").effective_labels().clone(),
            ..claim()
        };
        let unlaunched = Node { claim: Some(Arc::new(coming)), ..Node::new("5".into(), at(0)) };
        let nodes = nodes.iter().chain([&unlaunched]);
        let cost = cost(&"web".into(), nodes, &catalogue(), &LabelRegistry::core());
        assert_eq!(cost.total, Price::from_nanos(8));
        assert_eq!(cost.unpriced, BTreeSet::from(["4".into()]));
    }

    #[test]
    fn a_reserved_machine_costs_what_its_own_reservation_does() {
        let key = "cloud.example/reservation-id";
        let registry = LabelRegistry { reservation_id: Some(key.into()), ..LabelRegistry::core() };
        let reserved = |id: &str, nanos| Offering {
            capacity_type: CapacityType::Reserved,
            price: Price::from_nanos(nanos),
            reservation: Some(Reservation { id: id.into(), count: 1 }),
            ..catalogue()[0].offerings[0].clone()
        };
        let offerings = vec![reserved("r1", 1), reserved("r2", 7)];
        let types = [Arc::new(InstanceType { offerings, ..(*catalogue()[0]).clone() })];
        let of = |id: &str| {
            let mut node = machine(id, "web", "a");
            let claim = Arc::make_mut(node.claim.as_mut().expect("it has one"));
            claim.labels.insert(label::CAPACITY_TYPE.into(), "reserved".into());
            claim.labels.insert(key.into(), id.into());
            cost(&"web".into(), [&node], &types, &registry).total
        };
        assert_eq!((of("r1"), of("r2")), (Price::from_nanos(1), Price::from_nanos(7)));
        assert_eq!(of("ended"), Price::from_nanos(1), "the first, for lack of its own");
    }
}
