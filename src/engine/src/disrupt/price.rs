//! What a machine costs, as far as the catalogue knows (spec core-disruption 3.3).

use karpenter_model::{Node, Pool, Price, Snapshot};

/// Price of the offering a machine was bought through, available or not; zero when it is not known.
pub(crate) fn price(node: &Node, pool: &Pool, snapshot: &Snapshot) -> Price {
    let known = || {
        let types = snapshot.instance_types.get(&pool.name)?;
        let (name, zone, capacity_type) = (node.instance_type()?, node.zone()?, node.capacity_type()?);
        let instance_type = types.iter().find(|candidate| candidate.name == name)?;
        let sold = |offering: &&karpenter_model::Offering| {
            offering.zone == zone && offering.capacity_type == capacity_type
        };
        instance_type.offerings.iter().find(sold).map(|offering| offering.price)
    };
    known().unwrap_or(Price::ZERO)
}
