//! Why a workload is held: the nodes that came up for it and were not used, and what must change before another one
//! could fare better.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use karpenter_model::{Claim, ClaimName, ConditionType, Node, Pool, PoolName, PoolUid, Snapshot, Taint};

/// The nodes and pools of a snapshot, by name.
pub(super) struct World<'a> {
    nodes: BTreeMap<&'a ClaimName, &'a Node>,
    pools: BTreeMap<&'a PoolName, &'a Pool>,
}

/// What was true when the scheduler did not use the nodes of a workload.
#[derive(Debug)]
pub(super) struct Ground {
    unused: BTreeMap<ClaimName, Unused>,
    /// The pools of these nodes, each with the object and the template it had.
    pools: BTreeMap<PoolName, (PoolUid, String)>,
}

/// One node that was not used.
#[derive(Debug)]
struct Unused {
    /// How people know it.
    name: String,
    /// Taints its claim did not announce.
    taints: Vec<Taint>,
    /// Resources it has less of than its claim announced, as texts.
    less: Vec<String>,
    /// We have decided to remove it, because it is empty for instance.
    removed_by_us: bool,
}

impl<'a> World<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let claimed = snapshot.nodes.iter().filter_map(|node| Some((&node.claim.as_deref()?.name, &**node)));
        Self {
            nodes: claimed.collect(),
            pools: snapshot.pools.iter().map(|pool| (&pool.name, &**pool)).collect(),
        }
    }

    pub(super) fn claim(&self, name: &ClaimName) -> Option<&'a Claim> {
        self.nodes.get(name)?.claim.as_deref()
    }

    /// The node of a claim, as long as it is there to stay.
    fn staying(&self, name: &ClaimName) -> Option<&'a Node> {
        self.nodes.get(name).copied().filter(|node| !node.is_leaving())
    }
}

impl Ground {
    /// What is true of these claims now; nothing when none of their nodes is left.
    pub(super) fn of(claims: &BTreeSet<ClaimName>, world: &World<'_>) -> Option<Self> {
        let nodes = claims.iter().filter_map(|name| Some((name, world.staying(name)?)));
        let unused: BTreeMap<ClaimName, Unused> =
            nodes.map(|(name, node)| (name.clone(), Unused::of(name, node))).collect();
        let pools = unused.keys().filter_map(|name| world.claim(name)?.pool.as_ref());
        let pools = pools.filter_map(|name| world.pools.get(name));
        let pools = pools.map(|pool| (pool.name.clone(), (pool.uid.clone(), pool.hash.clone()))).collect();
        (!unused.is_empty()).then_some(Self { unused, pools })
    }

    /// Whether another node would be another argument: its pool is gone or has another template, its node class or
    /// image has changed since (the node has drifted), or an unannounced taint has been taken away.
    pub(super) fn has_changed(&self, world: &World<'_>) -> bool {
        let other = |(name, (uid, template)): (&PoolName, &(PoolUid, String))| {
            world.pools.get(name).is_none_or(|pool| pool.uid != *uid || pool.hash != *template)
        };
        self.pools.iter().any(other)
            || self.unused.iter().any(|(name, unused)| {
                let drifted = |claim: &Claim| claim.is_true(ConditionType::Drifted);
                world.claim(name).is_some_and(drifted)
                    || world.staying(name).is_some_and(|node| {
                        let taints = node.effective_taints();
                        unused.taints.iter().any(|taint| !taints.contains(taint))
                    })
            })
    }

    /// Notes which nodes go because we want it so.
    pub(super) fn look(&mut self, world: &World<'_>) {
        for (name, unused) in &mut self.unused {
            let ours = |claim: &Claim| claim.is_true(ConditionType::DisruptionReason);
            unused.removed_by_us |= world.claim(name).is_some_and(ours);
        }
    }

    /// Whether none of the nodes is left, and one of them was taken away by another client. That we removed
    /// what was not used says nothing about the next node.
    pub(super) fn was_taken_away(&self, world: &World<'_>) -> bool {
        self.unused.keys().all(|name| world.staying(name).is_none())
            && self.unused.values().any(|unused| !unused.removed_by_us)
    }

    /// The pool of the nodes, when it is one.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        let mut pools = self.pools.keys();
        pools.next().filter(|_| pools.next().is_none())
    }

    /// Which node was not used, and what it has that was not announced.
    pub(super) fn text(&self) -> String {
        let Some(unused) = self.unused.values().next() else { return String::new() };
        let mut text = format!("{} came up and was not used; ", unused.name);
        let taints = unused.taints.iter().map(|taint| format!("taint `{taint}`"));
        let found: Vec<String> = taints.chain(unused.less.iter().cloned()).collect();
        // Writing to a String cannot fail.
        let _ = match found.as_slice() {
            [] => write!(text, "although it is what was announced: the events of the scheduler say why"),
            found => write!(text, "it has {}, which was not announced", found.join(", ")),
        };
        if self.unused.len() > 1 {
            let _ = write!(text, " (and {} more nodes)", self.unused.len() - 1);
        }
        text
    }
}

impl Unused {
    fn of(claim: &ClaimName, node: &Node) -> Self {
        let name = match &node.name {
            Some(name) => format!("node `{name}`"),
            None => format!("the node of nodeclaim `{claim}`"),
        };
        let Some(announced) = node.claim.as_deref() else {
            return Self { name, taints: Vec::new(), less: Vec::new(), removed_by_us: false };
        };
        let less = announced.allocatable.iter().filter_map(|(resource, wanted)| {
            let found = node.effective_allocatable().amount(resource.as_str());
            (found < *wanted).then(|| format!("{resource} {found} instead of {wanted}"))
        });
        Self { name, taints: unannounced(announced, node), less: less.collect(), removed_by_us: false }
    }
}

/// Taints of a node that its claim does not speak of.
pub(super) fn unannounced(claim: &Claim, node: &Node) -> Vec<Taint> {
    let mut taints = node.effective_taints();
    taints.retain(|taint| !claim.taints.contains(taint));
    taints
}
