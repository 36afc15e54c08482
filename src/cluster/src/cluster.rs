//! The index itself: stores of objects, what is derived from them, and what we have decided ourselves.
//!
//! Base facts are in [`Store`]s and change only through [`Cluster::apply`] and lists. Everything else is a function
//! of them and is brought up to date for the machines that were touched, when a caller reads it. Decisions of
//! our own (marks, nominations, promises) are kept beside the facts and die with the objects they are about.

mod apply;
mod buffer;
mod nominate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::{
    Claim, ClaimName, Daemon, DaemonSetName, DriverName, InstanceType, LabelRegistry, Namespace, Node,
    NodeId, NodeName, NodeObject, Pod, PodDisruptionBudget, PodKey, Pool, PoolName, Resources, Settings,
    Snapshot, Target, VolumeClaimName,
};

use crate::event::{Event, NamespaceObject, VolumeObject};
use crate::machine::{self, Members, Parts};
use crate::promise::{self, Promises};
use crate::store::{Epoch, Store, Version};
use crate::usage::Usage;

type Types = Arc<[Arc<InstanceType>]>;

/// The state of one cluster as far as its events tell.
#[derive(Debug)]
pub struct Cluster {
    settings: Arc<Settings>,
    registry: Arc<LabelRegistry>,
    facts: Facts,
    derived: Derived,
    own: Own,
    instance_types: BTreeMap<PoolName, Types>,
    revision: u64,
    epoch: Epoch,
    listed: BTreeSet<&'static str>,
}

/// What the API server said.
#[derive(Debug, Default)]
struct Facts {
    pods: Store<PodKey, Pod>,
    nodes: Store<NodeName, NodeObject>,
    claims: Store<ClaimName, Claim>,
    pools: Store<PoolName, Pool>,
    daemons: Store<(Namespace, DaemonSetName), Daemon>,
    budgets: Store<(Namespace, String), PodDisruptionBudget>,
    namespaces: Store<Namespace, NamespaceObject>,
    volumes: Store<(Namespace, VolumeClaimName), VolumeObject>,
    attach_limits: BTreeMap<NodeName, BTreeMap<DriverName, u32>>,
}

/// What follows from it; machines lag behind by those in `dirty`.
#[derive(Debug, Default)]
struct Derived {
    members: BTreeMap<NodeId, Members>,
    bound: BTreeMap<NodeName, BTreeSet<PodKey>>,
    pending: BTreeSet<PodKey>,
    unlaunched: BTreeSet<ClaimName>,
    machines: BTreeMap<NodeId, Arc<Node>>,
    usage: Usage,
    dirty: BTreeSet<NodeId>,
    disturbances: u64,
}

/// What we decided.
#[derive(Debug, Default)]
struct Own {
    marked: BTreeSet<ClaimName>,
    nominated: BTreeMap<NodeId, Timestamp>,
    /// Since when a waiting pod has been expected on a machine that could have taken it.
    expected: BTreeMap<PodKey, nominate::Expected>,
    promises: Promises,
    /// What capacity buffers hold.
    room: buffer::Room,
}

impl Cluster {
    /// An index that has been told nothing.
    pub fn new(settings: Arc<Settings>, registry: Arc<LabelRegistry>) -> Self {
        Self {
            settings,
            registry,
            facts: Facts::default(),
            derived: Derived::default(),
            own: Own::default(),
            instance_types: BTreeMap::new(),
            revision: 0,
            epoch: Epoch::default(),
            listed: BTreeSet::new(),
        }
    }

    /// Takes in a claim we have just created, before any watch tells of it, together with the pods it is for.
    pub fn created(&mut self, version: Version, claim: Claim, pods: impl IntoIterator<Item = PodKey>) {
        let name = claim.name.clone();
        let pods: Vec<PodKey> = pods.into_iter().collect();
        self.apply(Event::claim(version, claim));
        self.count_buffer_pods(&Target::Claim(name.clone()), &pods);
        if !self.derived.unlaunched.contains(&name) {
            return;
        }
        for loser in self.own.promises.make(&name, pods) {
            self.touch_claim(&loser);
        }
        self.touch_claim(&name);
        self.revision += 1;
    }

    /// Sets the instance types of a pool; `None` when they could not be had, so that the pool takes no new nodes. They
    /// go with the pool, and an answer that comes after it has gone is not kept.
    pub fn set_instance_types(&mut self, pool: &PoolName, types: Option<Types>) {
        let types = types.filter(|_| self.facts.pools.get(pool).is_some());
        let same = match (self.instance_types.get(pool), &types) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
            (old, new) => old.is_none() && new.is_none(),
        };
        if same {
            return;
        }
        match types {
            Some(types) => self.instance_types.insert(pool.clone(), types),
            None => self.instance_types.remove(pool),
        };
        for claim in self.derived.unlaunched.clone() {
            self.touch_claim(&claim);
        }
        self.revision += 1;
    }

    /// Sets how many volumes of each CSI driver a Node can attach, as its `CSINode` says; none once that is gone.
    pub fn set_attach_limits(&mut self, node: &NodeName, limits: BTreeMap<DriverName, u32>) {
        let same = match self.facts.attach_limits.get(node) {
            Some(known) => *known == limits,
            None => limits.is_empty(),
        };
        if same {
            return;
        }
        if limits.is_empty() {
            self.facts.attach_limits.remove(node);
        } else {
            self.facts.attach_limits.insert(node.clone(), limits);
        }
        self.touch_node(node);
        self.revision += 1;
    }

    /// Marks claims as chosen for deletion, before any object says so; unknown ones are left out.
    pub fn mark_for_deletion<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimName>) {
        for claim in claims {
            if self.facts.claims.get(claim).is_some() && self.own.marked.insert(claim.clone()) {
                self.touch_claim(claim);
                self.revision += 1;
            }
        }
    }

    /// Takes marks back, because the decision was.
    pub fn unmark<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimName>) {
        for claim in claims {
            if self.own.marked.remove(claim) {
                self.touch_claim(claim);
                self.revision += 1;
            }
        }
    }

    /// Everything, frozen. Costs a pointer per object, and a rebuild of the machines touched since the last call.
    pub fn snapshot(&mut self, now: Timestamp) -> Snapshot {
        self.expire_nominations(now);
        self.refresh();
        let pending = self.derived.pending.iter().filter(|key| !self.has_promise(key));
        let pending = pending.filter_map(|key| self.facts.pods.get(key)).chain(self.waiting_virtual_pods());
        let volumes = self.facts.volumes.iter();
        Snapshot {
            revision: self.revision,
            now,
            settings: Arc::clone(&self.settings),
            registry: Arc::clone(&self.registry),
            pools: self.facts.pools.iter().map(|(_, pool)| Arc::clone(pool)).collect(),
            instance_types: self.instance_types.clone(),
            nodes: self.derived.machines.values().cloned().collect(),
            pending: pending.cloned().collect(),
            daemons: self.facts.daemons.iter().map(|(_, daemon)| Arc::clone(daemon)).collect(),
            volumes: volumes.map(|(key, object)| (key.clone(), Arc::clone(&object.volume))).collect(),
            namespaces: self
                .facts
                .namespaces
                .iter()
                .map(|(name, object)| (name.clone(), object.labels.clone()))
                .collect(),
            budgets: self.facts.budgets.iter().map(|(_, budget)| Arc::clone(budget)).collect(),
            // The index knows nothing of devices and of what the cloud advises; the caller adds them.
            devices: Arc::default(),
            zones_away: BTreeSet::new(),
        }
    }

    /// What the machines of a pool that stay add up to, `nodes` included, and how many they are, without those of the
    /// claims `going`; empty when there are none.
    pub fn usage<'c>(
        &mut self,
        pool: &PoolName,
        going: impl IntoIterator<Item = &'c ClaimName>,
    ) -> (Resources, usize) {
        self.refresh();
        let claims = going.into_iter().filter_map(|name| self.facts.claims.get(name));
        let going = claims.map(|claim| machine::id_of_claim(claim)).collect();
        self.derived.usage.without(pool, &going)
    }

    /// Grows whenever something happened that may make another consolidation possible: a machine came or went, was
    /// initialized or marked, a pod came or went, a pool changed (spec disruption 0.7).
    pub fn disturbances(&mut self) -> u64 {
        self.refresh();
        self.derived.disturbances
    }

    /// Grows with every visible change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The newest version of a claim.
    pub fn claim(&self, name: &ClaimName) -> Option<&Arc<Claim>> {
        self.facts.claims.get(name)
    }

    /// The newest version of a Node object.
    pub fn node(&self, name: &NodeName) -> Option<&Arc<NodeObject>> {
        self.facts.nodes.get(name)
    }

    /// The newest version of a pod.
    pub fn pod(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        self.facts.pods.get(key)
    }

    /// The newest version of a pool.
    pub fn pool(&self, name: &PoolName) -> Option<&Arc<Pool>> {
        self.facts.pools.get(name)
    }

    /// All claims, in name order.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.facts.claims.iter().map(|(_, claim)| claim)
    }

    /// All Node objects, in name order.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeObject>> {
        self.facts.nodes.iter().map(|(_, node)| node)
    }

    /// The claims and Nodes with a machine id, each in name order; usually one of each.
    pub fn members(&self, id: &NodeId) -> (Vec<&Arc<Claim>>, Vec<&Arc<NodeObject>>) {
        let Some(members) = self.derived.members.get(id) else { return (Vec::new(), Vec::new()) };
        let claims = members.claims.iter().filter_map(|name| self.facts.claims.get(name));
        let nodes = members.nodes.iter().filter_map(|name| self.facts.nodes.get(name));
        (claims.collect(), nodes.collect())
    }

    /// Every pod, in key order.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.facts.pods.iter().map(|(_, pod)| pod)
    }

    /// The pods bound to a Node that have not ended, in key order.
    pub fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &Arc<Pod>> {
        let keys = self.derived.bound.get(node).into_iter().flatten();
        keys.filter_map(|key| self.facts.pods.get(key))
    }

    fn has_promise(&self, pod: &PodKey) -> bool {
        self.own.promises.claim_of(pod).is_some_and(|claim| self.derived.unlaunched.contains(claim))
    }

    /// The pod with this key, if it waits for a place.
    fn waiting(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        if self.derived.pending.contains(key) { self.facts.pods.get(key) } else { self.virtual_pod(key) }
    }

    fn touch_claim(&mut self, name: &ClaimName) {
        if let Some(claim) = self.facts.claims.get(name) {
            self.derived.dirty.insert(machine::id_of_claim(claim));
        }
    }

    /// Builds the touched machines again.
    fn refresh(&mut self) {
        for id in std::mem::take(&mut self.derived.dirty) {
            let new = self.build(&id);
            let old = self.derived.machines.get(&id);
            if old.map(Arc::as_ref) == new.as_ref() {
                continue;
            }
            if disturbs(old.map(Arc::as_ref), new.as_ref()) {
                self.derived.disturbances += 1;
            }
            self.derived.usage.set(&id, new.as_ref());
            if let Some(machine) = new {
                self.derived.machines.insert(id, Arc::new(machine));
            } else {
                self.own.nominated.remove(&id);
                self.derived.machines.remove(&id);
            }
        }
    }

    fn build(&self, id: &NodeId) -> Option<Node> {
        let members = self.derived.members.get(id)?;
        let claim = members.claims.first().and_then(|name| self.facts.claims.get(name));
        let node = members.nodes.first().and_then(|name| self.facts.nodes.get(name));
        let mut pods: Vec<Arc<Pod>> =
            members.nodes.iter().flat_map(|name| self.pods_on(name)).cloned().collect();
        let mut claim = claim.cloned();
        if let Some(unlaunched) = claim.as_ref().filter(|claim| claim.provider_id.is_none()) {
            let promised = self.own.promises.pods_of(&unlaunched.name);
            pods.extend(promised.filter_map(|key| self.waiting(key)).cloned());
            let types = unlaunched.pool.as_ref().and_then(|pool| self.instance_types.get(pool));
            let types = types.map_or(&[][..], |types| types);
            claim = Some(Arc::new(promise::as_promised(unlaunched, types, &self.registry)));
        }
        pods.sort_by(|left, right| left.key.cmp(&right.key));
        let marked = claim.as_ref().is_some_and(|claim| self.own.marked.contains(&claim.name));
        let nominated_until = self.own.nominated.get(id).copied();
        let attach_limits = node.and_then(|node| self.facts.attach_limits.get(&node.name).cloned());
        let parts = Parts {
            buffer_pods: self.buffer_pods_on(members),
            claim,
            node: node.map(Arc::as_ref),
            pods,
            attach_limits: attach_limits.unwrap_or_default(),
            marked,
            nominated_until,
        };
        machine::assemble(id, parts)
    }
}

/// True when the change of a machine may make another consolidation possible.
fn disturbs(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    old.initialized() != new.initialized()
        || old.is_leaving() != new.is_leaving()
        || !old.pods.iter().map(|pod| &pod.uid).eq(new.pods.iter().map(|pod| &pod.uid))
}
