//! What machines cost, as far as the catalogue knows (spec core-disruption 3.3).

use std::collections::BTreeMap;

use karpenter_model::{
    CapacityType, InstanceType, InstanceTypeName, Node, Offering, PoolName, Price, Snapshot,
};

/// The instance types of each pool by name.
#[derive(Debug)]
pub(crate) struct PriceList<'a> {
    types: BTreeMap<&'a PoolName, BTreeMap<&'a InstanceTypeName, &'a InstanceType>>,
    snapshot: &'a Snapshot,
}

impl<'a> PriceList<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let types = snapshot.instance_types.iter().map(|(pool, types)| {
            let by_name = types.iter().map(|known| (&known.name, known.as_ref())).collect();
            (pool, by_name)
        });
        Self { types: types.collect(), snapshot }
    }

    /// Whether anything is known about what `pool` can buy.
    pub(crate) fn knows(&self, pool: &PoolName) -> bool {
        self.types.get(pool).is_some_and(|types| !types.is_empty())
    }

    /// The type a machine of `pool` says it is, if the pool still has it.
    pub(crate) fn instance_type(&self, node: &Node, pool: &PoolName) -> Option<&'a InstanceType> {
        self.types.get(pool)?.get(&node.instance_type()?).copied()
    }

    /// Price of the offering a machine was bought through, available or not; zero when it is not known. Of several
    /// reservations in one zone it is the one the machine names.
    pub(crate) fn price(&self, node: &Node, pool: &PoolName) -> Price {
        let known = || {
            let (zone, capacity_type) = (node.zone()?, node.capacity_type()?);
            let instance_type = self.instance_type(node, pool)?;
            let sold =
                |offering: &&Offering| offering.zone == zone && offering.capacity_type == capacity_type;
            let mut offerings = instance_type.offerings.iter().filter(sold);
            let named = self.reservation(node, capacity_type);
            let first = offerings.clone().next()?;
            let reserved = |offering: &&Offering| {
                offering.reservation.as_ref().is_some_and(|r| Some(r.id.as_str()) == named)
            };
            Some(offerings.find(reserved).unwrap_or(first).price)
        };
        known().unwrap_or(Price::ZERO)
    }

    fn reservation<'n>(&self, node: &'n Node, capacity_type: CapacityType) -> Option<&'n str> {
        let key = self.snapshot.registry.reservation_id.as_ref()?;
        let id = node.effective_labels().get(key)?;
        (capacity_type == CapacityType::Reserved).then(|| id.as_str())
    }
}
