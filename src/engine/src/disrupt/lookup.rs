//! Data about every node, found by name: its pool and its price (spec disruption 3.3).

use std::collections::BTreeMap;

use karpenter_model::{InstanceType, InstanceTypeName, Node, Offering, Pool, PoolName, Price, Snapshot};

/// Pools and instance types by name.
#[derive(Debug)]
pub(crate) struct Lookup<'a> {
    snapshot: &'a Snapshot,
    pools: BTreeMap<&'a PoolName, &'a Pool>,
    types: BTreeMap<&'a PoolName, BTreeMap<&'a InstanceTypeName, &'a InstanceType>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let types = snapshot.instance_types.iter().map(|(pool, types)| {
            let by_name = types.iter().map(|known| (&known.name, known.as_ref())).collect();
            (pool, by_name)
        });
        Self {
            snapshot,
            pools: snapshot.pools.iter().map(|pool| (&pool.name, pool.as_ref())).collect(),
            types: types.collect(),
        }
    }

    /// The snapshot all of it is from.
    pub(crate) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The pool called `name`.
    pub(crate) fn pool(&self, name: &PoolName) -> Option<&'a Pool> {
        self.pools.get(name).copied()
    }

    /// Returns whether the instance types of `pool` are known.
    pub(crate) fn sells(&self, pool: &PoolName) -> bool {
        self.types.get(pool).is_some_and(|types| !types.is_empty())
    }

    /// Returns the instance type in the label of a node of `pool`, if the pool still has it.
    pub(crate) fn instance_type(&self, node: &Node, pool: &PoolName) -> Option<&'a InstanceType> {
        self.types.get(pool)?.get(&node.instance_type()?).copied()
    }

    /// The offering a node was launched through, available or not.
    pub(crate) fn offering(&self, node: &Node, pool: &PoolName) -> Option<&'a Offering> {
        self.instance_type(node, pool)?.bought_through(node, &self.snapshot.registry)
    }

    /// Price of that offering; zero when it is not known.
    pub(crate) fn price(&self, node: &Node, pool: &PoolName) -> Price {
        self.offering(node, pool).map_or(Price::ZERO, |offering| offering.price)
    }
}

#[cfg(test)]
mod tests {
    use karpenter_testkit::snapshot;

    use super::*;

    #[test]
    fn prices_are_those_of_the_offering_a_machine_came_from() {
        let types = "
type  small cpu=2 mem=4Gi od=0.10 spot=0.04 zones=a,b gone=a/spot reserved=r1/1/a/0.01 reserved=r2/0/a/0.02
pool  web types=*
";
        let table = [
            ("type=small zone=a capacity=on-demand", "0.10", "bought on demand"),
            ("type=small zone=a capacity=spot", "0.04", "sold out, and still what it costs"),
            ("type=small zone=a capacity=reserved", "0.01", "the first reservation, for lack of a name"),
            (
                "type=small zone=a capacity=reserved label=karpenter.test.sh/reservation-id=r2",
                "0.02",
                "its own",
            ),
            (
                "type=small zone=a capacity=reserved label=karpenter.test.sh/reservation-id=r9",
                "0.01",
                "ended",
            ),
            (
                "type=small zone=a capacity=spot label=karpenter.test.sh/reservation-id=r2",
                "0.04",
                "not reserved",
            ),
            ("type=small zone=c capacity=spot", "0", "a zone that is not sold"),
            ("type=small capacity=spot", "0", "no zone"),
            ("type=small zone=a", "0", "no capacity type"),
            ("cpu=2 zone=a capacity=spot", "0", "no type"),
        ];
        for (node, price, why) in table {
            let snapshot = snapshot(&format!("{types}node n pool=web {node}\n"));
            let found = Lookup::new(&snapshot).price(&snapshot.nodes[0], &"web".into());
            assert_eq!(found, price.parse().unwrap(), "{why}: {node}");
        }
    }
}
