//! The nodes, pools and daemon sets of a snapshot, by name.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::{
    Claim, ClaimName, Daemon, Node, NodeClassRef, NodeName, Pool, PoolName, Snapshot, Target,
};

/// A snapshot, as broken promises are judged by it.
pub struct World<'a> {
    machines: BTreeMap<&'a ClaimName, (&'a Claim, &'a Node)>,
    claims: BTreeMap<&'a NodeName, &'a ClaimName>,
    pools: BTreeMap<&'a PoolName, (&'a Pool, String)>,
    daemons: &'a [Arc<Daemon>],
    /// Requirements of the daemon sets, once computed: they are the same for every workload.
    asked_by_daemons: OnceCell<BTreeSet<String>>,
}

impl<'a> World<'a> {
    /// `generation` is that of a node class, if it is known.
    pub fn of(snapshot: &'a Snapshot, generation: impl Fn(&NodeClassRef) -> Option<i64>) -> Self {
        let claimed = snapshot.nodes.iter().filter_map(|node| Some((node.claim.as_deref()?, &**node)));
        let pools = snapshot.pools.iter().map(|pool| {
            let class = generation(&pool.template.node_class).unwrap_or_default();
            (&pool.name, (&**pool, format!("{} {} {class}", pool.uid, pool.hash)))
        });
        Self {
            machines: claimed.clone().map(|(claim, node)| (&claim.name, (claim, node))).collect(),
            claims: claimed.filter_map(|(claim, node)| Some((node.name.as_ref()?, &claim.name))).collect(),
            pools: pools.collect(),
            daemons: &snapshot.daemons,
            asked_by_daemons: OnceCell::new(),
        }
    }

    pub(super) fn machine(&self, name: &ClaimName) -> Option<(&'a Claim, &'a Node)> {
        self.machines.get(name).copied()
    }

    pub(super) fn claim(&self, name: &ClaimName) -> Option<&'a Claim> {
        Some(self.machine(name)?.0)
    }

    /// The node of a claim, as long as it is there to stay.
    pub(super) fn staying(&self, name: &ClaimName) -> Option<&'a Node> {
        Some(self.machine(name)?.1).filter(|node| !node.is_leaving())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&'a Claim, &'a Node)> {
        self.machines.values().copied()
    }

    /// The claim behind a place; `None` for unmanaged machines.
    pub fn claim_at(&self, target: &Target) -> Option<ClaimName> {
        match target {
            Target::Claim(name) => Some(name.clone()),
            Target::Node(name) => self.claims.get(name).map(|name| (*name).clone()),
        }
    }

    /// The version of everything that a pool makes nodes from: the object, its template and its node class.
    pub(super) fn template(&self, pool: &PoolName) -> Option<String> {
        self.pools.get(pool).map(|(_, template)| template.clone())
    }

    /// Requirements of each daemon set for its nodes, without the pod they are read off: that is another one with every
    /// node that joins.
    pub(super) fn daemons(&self) -> &BTreeSet<String> {
        let asks = |daemon: &Arc<Daemon>| {
            let Daemon { namespace, name, pod } = &**daemon;
            let tolerations: BTreeSet<_> = pod.tolerations.iter().collect();
            format!(
                "{namespace}/{name} {:?}{:?}{:?}{:?}{tolerations:?}",
                pod.requests, pod.node_selector, pod.required_terms, pod.host_ports
            )
        };
        self.asked_by_daemons.get_or_init(|| self.daemons.iter().map(asks).collect())
    }
}
