//! The index itself: stores of objects, what is derived from them, and what we have decided ourselves.
//!
//! Base facts are in [`Store`]s and change only through [`Cluster::put`], [`Cluster::remove`] and lists. Everything else
//! is a function of them and is brought up to date for the machines that were touched, when a caller reads it. Decisions
//! of our own (marks, nominations, promises) are kept beside the facts and die with the objects they are about.

mod apply;
mod buffer;
mod device;
mod kind;
mod nominate;
mod selection;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::device::{DeviceClass, DeviceTaintRule};
use karpenter_model::pod::volume::resolve::{ClaimFacts, ClassFacts, VolumeFacts};
use karpenter_model::snapshot::Selections;
use karpenter_model::{
    Claim, ClaimName, ConditionType, Daemon, DaemonSetName, DeviceClassName, LabelRegistry, Labels,
    Namespace, Node, NodeClassRef, NodeId, NodeName, NodeObject, Pod, PodDisruptionBudget, PodKey, Pool,
    PoolName, ProviderId, ResourceClaimKey, ResourceSlice, Resources, Settings, Snapshot, Target,
};

pub use self::kind::{AttachLimits, Kind, Shown, UsedClaim, VolumeClaimKey};
use crate::brought::Brought;
use crate::machine::{self, Members, Parts};
use crate::promise::{Promises, Types, Unlaunched};
use crate::room::Room;
use crate::store::{Epoch, Known, Store};
use crate::usage::Usage;

/// The state of one cluster as far as its objects tell. `O` says what is kept of them beside what decisions read.
#[derive(Debug)]
pub struct Cluster<O: Shown = ()> {
    settings: Arc<Settings>,
    registry: Arc<LabelRegistry>,
    facts: Facts<O>,
    derived: Derived,
    own: Own,
    /// The types of each pool as its provider describes them.
    offered: BTreeMap<PoolName, Types>,
    /// The types of each pool as its nodes turned out to be.
    instance_types: BTreeMap<PoolName, Types>,
    /// Selections of Services and of owners of pods.
    selections: Arc<Selections>,
    /// Instance types of a pool whose types are not known: none.
    no_types: Types,
    /// The last snapshot: the next one has its revision if it shows the same.
    frozen: Option<Snapshot>,
    epoch: Epoch,
}

/// Objects from the API server.
#[derive(Debug)]
pub struct Facts<O: Shown> {
    pub(crate) claims: Store<ClaimName, Claim, O::Claim>,
    pub(crate) nodes: Store<NodeName, NodeObject, O::Node>,
    pub(crate) pools: Store<PoolName, Pool, O::Pool>,
    pub(crate) pods: Store<PodKey, Pod>,
    pub(crate) budgets: Store<(Namespace, String), PodDisruptionBudget>,
    pub(crate) namespaces: Store<Namespace, Labels>,
    pub(crate) volume_claims: Store<VolumeClaimKey, ClaimFacts>,
    pub(crate) volumes: Store<String, VolumeFacts>,
    pub(crate) storage_classes: Store<String, ClassFacts>,
    pub(crate) attach_limits: Store<NodeName, AttachLimits>,
    pub(crate) slices: Store<String, ResourceSlice>,
    pub(crate) device_classes: Store<DeviceClassName, DeviceClass>,
    pub(crate) device_taint_rules: Store<String, DeviceTaintRule>,
    pub(crate) device_claims: Store<ResourceClaimKey, UsedClaim>,
}

impl<O: Shown> Default for Facts<O> {
    fn default() -> Self {
        Self {
            claims: Store::default(),
            nodes: Store::default(),
            pools: Store::default(),
            pods: Store::default(),
            budgets: Store::default(),
            namespaces: Store::default(),
            volume_claims: Store::default(),
            volumes: Store::default(),
            storage_classes: Store::default(),
            attach_limits: Store::default(),
            slices: Store::default(),
            device_classes: Store::default(),
            device_taint_rules: Store::default(),
            device_claims: Store::default(),
        }
    }
}

/// State derived from the facts; machines lag behind by those in `dirty`.
#[derive(Debug, Default)]
struct Derived {
    members: BTreeMap<NodeId, Members>,
    /// Every Node that names a machine of the cloud, whether it says enough about itself to be one or not.
    nodes_of: BTreeMap<ProviderId, BTreeSet<NodeName>>,
    bound: BTreeMap<NodeName, BTreeSet<PodKey>>,
    pending: BTreeSet<PodKey>,
    unlaunched: BTreeSet<ClaimName>,
    promised: Unlaunched,
    daemons: BTreeMap<(Namespace, DaemonSetName), Arc<Daemon>>,
    volumes: volume::Volumes,
    /// Resource slices by the Nodes they belong to.
    slices_of: BTreeMap<NodeName, BTreeSet<String>>,
    machines: BTreeMap<NodeId, Arc<Node>>,
    usage: Usage,
    dirty: BTreeSet<NodeId>,
}

/// Our own decisions.
#[derive(Debug, Default)]
struct Own {
    marked: BTreeSet<ClaimName>,
    nominated: BTreeMap<NodeId, Timestamp>,
    /// Waiting pods that are expected on a machine that could have taken them, and since when.
    expected: BTreeMap<PodKey, nominate::Expected>,
    promises: Promises,
    /// Machines that have gone although pods were promised a place there, as they were last.
    departed: Vec<Arc<Node>>,
    /// Room that nodes turned out to have.
    seen: Room,
    /// Devices that nodes turned out to have.
    brought: Brought,
    /// Room that capacity buffers hold.
    room: buffer::Room,
}

impl<O: Shown> Cluster<O> {
    /// Returns an empty index.
    pub fn new(settings: Arc<Settings>, registry: Arc<LabelRegistry>) -> Self {
        Self {
            settings,
            registry,
            facts: Facts::default(),
            derived: Derived::default(),
            own: Own::default(),
            offered: BTreeMap::new(),
            instance_types: BTreeMap::new(),
            selections: Arc::default(),
            no_types: Arc::default(),
            frozen: None,
            epoch: Epoch::default(),
        }
    }

    /// Notes the pods that a claim which we have just created, and put in, is for.
    pub fn promise(&mut self, name: &ClaimName, pods: impl IntoIterator<Item = PodKey>) {
        let pods: Vec<PodKey> = pods.into_iter().collect();
        self.count_buffer_pods(&Target::Claim(name.clone()), &pods);
        if !self.derived.unlaunched.contains(name) {
            return;
        }
        self.promise_on(&Target::Claim(name.clone()), pods);
        self.touch_claim(name);
    }

    /// The pods that were promised a place on the same claim as `pod`, this one among them, and the Node of the claim, which has
    /// registered and stays.
    pub fn expected_with(&self, pod: &PodKey) -> Option<(Vec<Arc<Pod>>, Arc<NodeObject>)> {
        let claim = self.facts.claims.model(self.own.promises.claim_of(pod)?)?;
        let takes_pods = claim.deletion.is_none() && claim.is_true(ConditionType::Registered);
        let node = claim.node_name.as_ref().filter(|_| takes_pods)?;
        Some((self.promised(&claim.name), Arc::clone(self.facts.nodes.model(node)?)))
    }

    /// The pods that were promised a place on the machine of this Node, as they are now.
    pub fn promised_on(&self, node: &NodeName) -> Vec<Arc<Pod>> {
        let id = self.facts.nodes.model(node).and_then(|node| machine::id_of_node(node));
        let claims =
            id.and_then(|id| self.derived.members.get(&id)).into_iter().flat_map(|known| &known.claims);
        claims.flat_map(|claim| self.promised(claim)).collect()
    }

    /// Returns whether a pod still waits although the node it was promised a place on has been ready since some time between
    /// `from` and `to`.
    pub fn has_left_over(&self, from: Timestamp, to: Timestamp) -> bool {
        self.own.promises.claims().any(|(name, pods)| {
            let claim = self.facts.claims.model(name).filter(|claim| claim.deletion.is_none());
            let up = claim.and_then(|claim| claim.true_since(ConditionType::Initialized));
            up.is_some_and(|up| (from..to).contains(&up))
                && pods.iter().any(|key| self.waiting(key).is_some())
        })
    }

    /// The pods that were promised a place on this claim, as they are now.
    pub fn promised(&self, claim: &ClaimName) -> Vec<Arc<Pod>> {
        let pods = self.own.promises.pods_of(claim);
        pods.filter_map(|key| self.facts.pods.model(key)).cloned().collect()
    }

    /// The machines that have gone since the last call although pods were promised a place there, as they were last.
    pub fn take_departed(&mut self) -> Vec<Arc<Node>> {
        std::mem::take(&mut self.own.departed)
    }

    /// Promises pods a place on a machine that is known by this name, in later passes too.
    fn promise_on(&mut self, place: &Target, pods: impl IntoIterator<Item = PodKey>) {
        for loser in self.own.promises.make(place, pods) {
            if let Target::Claim(loser) = loser {
                self.touch_claim(&loser);
            }
        }
    }

    /// Sets the instance types of a pool; `None` when they could not be had, so that the pool takes no new nodes. They
    /// go with the pool, and an answer that comes after it has gone is not kept.
    pub fn set_instance_types(&mut self, pool: &PoolName, types: Option<Types>) {
        let types = types.filter(|_| self.facts.pools.model(pool).is_some());
        let same = match (self.offered.get(pool), &types) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old == new,
            (old, new) => old.is_none() && new.is_none(),
        };
        if same {
            return;
        }
        match types {
            Some(types) => self.offered.insert(pool.clone(), types),
            None => self.offered.remove(pool),
        };
        self.count_on_seen_room(pool);
    }

    /// Forgets what nodes of a class turned out to have, because the class has changed.
    pub fn class_changed(&mut self, kind: &str, name: &str) {
        let is_of_class = |class: &NodeClassRef| class.kind == kind && class.name == name;
        let claims = self.facts.claims.models().filter(|claim| is_of_class(&claim.node_class));
        self.own.seen.forget(is_of_class, claims);
        let pools = self.facts.pools.models().filter(|pool| is_of_class(&pool.template.node_class));
        pools.for_each(|pool| self.own.brought.forget(&pool.name));
    }

    /// Plans with the types of a pool as nodes of its class turned out to be.
    fn count_on_seen_room(&mut self, pool: &PoolName) {
        let class = self.facts.pools.model(pool).map(|pool| &pool.template.node_class);
        match self.offered.get(pool).zip(class) {
            Some((types, class)) => {
                self.instance_types.insert(pool.clone(), self.own.seen.seen(class, types));
            }
            None => drop(self.instance_types.remove(pool)),
        }
        let claims = self.derived.unlaunched.iter().filter_map(|name| self.facts.claims.model(name));
        let of_pool = claims.filter(|claim| claim.pool.as_ref() == Some(pool));
        self.derived.dirty.extend(of_pool.map(|claim| machine::id_of_claim(claim)));
    }

    /// Sets what a daemon set puts on a new node; `None` once it is gone.
    pub fn set_daemon(&mut self, key: &(Namespace, DaemonSetName), daemon: Option<Daemon>) {
        let daemons = &mut self.derived.daemons;
        if daemons.get(key).map(Arc::as_ref) == daemon.as_ref() {
            return;
        }
        match daemon {
            Some(daemon) => daemons.insert(key.clone(), Arc::new(daemon)),
            None => daemons.remove(key),
        };
    }

    /// Marks claims as chosen for deletion, before any object says so; unknown ones are left out.
    pub fn mark_for_deletion<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimName>) {
        for claim in claims {
            if self.facts.claims.model(claim).is_some() && self.own.marked.insert(claim.clone()) {
                self.touch_claim(claim);
            }
        }
    }

    /// Takes marks back, because the decision was.
    pub fn unmark<'a>(&mut self, claims: impl IntoIterator<Item = &'a ClaimName>) {
        for claim in claims {
            if self.own.marked.remove(claim) {
                self.touch_claim(claim);
            }
        }
    }

    /// Everything, frozen. Costs a pointer per object, and a rebuild of the machines touched since the last call. Its
    /// revision is another one than that of the last call exactly if it shows something else.
    pub fn freeze(&mut self, now: Timestamp) -> Snapshot {
        self.expire_nominations(now);
        self.refresh();
        let pending = self.derived.pending.iter().filter(|key| !self.has_promise(key));
        let pending = pending.filter_map(|key| self.facts.pods.model(key)).chain(self.waiting_virtual_pods());
        let namespaces = self.facts.namespaces.iter();
        let mut snapshot = Snapshot {
            revision: self.frozen.as_ref().map_or(0, |last| last.revision),
            now,
            settings: Arc::clone(&self.settings),
            registry: Arc::clone(&self.registry),
            pools: self.facts.pools.models().cloned().collect(),
            instance_types: self.instance_types.clone(),
            nodes: self.derived.machines.values().cloned().collect(),
            pending: pending.cloned().collect(),
            promises: self.own.promises.places(),
            daemons: self.derived.daemons.values().cloned().collect(),
            volumes: self.derived.volumes.resolved().clone(),
            namespaces: namespaces.map(|(name, known)| (name.clone(), (*known.model).clone())).collect(),
            selections: Arc::clone(&self.selections),
            budgets: self.facts.budgets.models().cloned().collect(),
            devices: self.devices(),
            // The caller adds the advice of the cloud.
            zones_away: BTreeSet::new(),
            repair: Arc::default(),
        };
        if !self.frozen.as_ref().is_some_and(|last| last.shows_the_same(&snapshot)) {
            snapshot.revision += 1;
            self.frozen = Some(snapshot.clone());
        }
        snapshot
    }

    /// Returns the sum of the resources of a pool's machines that stay, `nodes` included, and their number, without those of the
    /// claims `going`; empty when there are none.
    pub fn usage<'c>(
        &mut self,
        pool: &PoolName,
        going: impl IntoIterator<Item = &'c ClaimName>,
    ) -> (Resources, usize) {
        self.refresh();
        let claims = going.into_iter().filter_map(|name| self.facts.claims.model(name));
        let going = claims.map(|claim| machine::id_of_claim(claim)).collect();
        self.derived.usage.without(pool, &going)
    }

    /// Returns the settings for decisions.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the epoch of the index, for stores kept beside it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the stored object with this key.
    pub fn get<T: Kind>(&self, key: &T::Key) -> Option<&Known<T, T::Object<O>>> {
        T::store(&self.facts).get(key)
    }

    /// Every object of a kind, in the order of their keys.
    pub fn all<T: Kind>(&self) -> impl Iterator<Item = &Known<T, T::Object<O>>> {
        T::store(&self.facts).iter().map(|(_, known)| known)
    }

    /// The claims of a machine of the cloud, in name order; more than one means something is wrong.
    pub fn claims_of(&self, id: &ProviderId) -> impl Iterator<Item = &Known<Claim, O::Claim>> {
        let members = self.derived.members.get(id.as_str()).into_iter();
        members.flat_map(|members| &members.claims).filter_map(|name| self.facts.claims.get(name))
    }

    /// The Nodes of a machine of the cloud, in name order; more than one means something is wrong. A Node is among them
    /// from the beginning, before it says enough about itself to count as a machine.
    pub fn nodes_of(&self, id: &ProviderId) -> impl Iterator<Item = &Known<NodeObject, O::Node>> {
        let names = self.derived.nodes_of.get(id).into_iter().flatten();
        names.filter_map(|name| self.facts.nodes.get(name))
    }

    /// The pods bound to a Node that have not ended, in key order.
    pub fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &Arc<Pod>> {
        let keys = self.derived.bound.get(node).into_iter().flatten();
        keys.filter_map(|key| self.facts.pods.model(key))
    }

    fn has_promise(&self, pod: &PodKey) -> bool {
        self.own.promises.claim_of(pod).is_some_and(|claim| self.derived.unlaunched.contains(claim))
    }

    /// The pod with this key, if it waits for a place.
    fn waiting(&self, key: &PodKey) -> Option<&Arc<Pod>> {
        if self.derived.pending.contains(key) { self.facts.pods.model(key) } else { self.virtual_pod(key) }
    }

    fn touch_claim(&mut self, name: &ClaimName) {
        if let Some(claim) = self.facts.claims.model(name) {
            self.derived.dirty.insert(machine::id_of_claim(claim));
        }
    }

    /// Builds the touched machines again, and those for which another node has shown what they will have.
    fn refresh(&mut self) {
        self.rebuild();
        for class in self.own.seen.take_news() {
            let of_class = self.facts.pools.models().filter(|pool| pool.template.node_class == class);
            let pools: Vec<PoolName> = of_class.map(|pool| pool.name.clone()).collect();
            for pool in &pools {
                self.count_on_seen_room(pool);
            }
            let coming = self
                .facts
                .claims
                .models()
                .filter(|claim| claim.node_class == class && !claim.is_true(ConditionType::Registered));
            self.derived.dirty.extend(coming.map(|claim| machine::id_of_claim(claim)));
        }
        self.rebuild();
    }

    fn rebuild(&mut self) {
        for id in std::mem::take(&mut self.derived.dirty) {
            let new = self.build(&id);
            let old = self.derived.machines.get(&id);
            if old.map(Arc::as_ref) == new.as_ref() {
                continue;
            }
            if let Some(claim) = old.and_then(|old| old.claim.as_ref()).filter(|_| new.is_none()) {
                self.derived.promised.forget(&claim.name);
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

    fn build(&mut self, id: &NodeId) -> Option<Node> {
        let members = self.derived.members.get(id)?;
        let claim = members.claims.first().and_then(|name| self.facts.claims.model(name));
        let node = members.nodes.first().and_then(|name| self.facts.nodes.model(name));
        let mut pods: Vec<Arc<Pod>> =
            members.nodes.iter().flat_map(|name| self.pods_on(name)).cloned().collect();
        // They are gone before it takes pods again, and whatever comes in their place may need what they have.
        if claim.is_some_and(|claim| claim.is_true(ConditionType::Rebooting)) {
            pods.retain(|pod| !pod.is_terminating());
        }
        if let Some((claim, node)) = claim.zip(node) {
            self.own.seen.look(claim, node);
            let slices = self.derived.slices_of.get(&node.name).into_iter().flatten();
            let slices = slices.filter_map(|name| self.facts.slices.model(name));
            self.own.brought.look(claim, &node.name, slices);
        }
        let mut claim = claim.map(|claim| self.own.seen.expected(claim));
        if let Some(unlaunched) = claim.as_ref().filter(|claim| claim.provider_id.is_none()) {
            let promised = self.own.promises.pods_of(&unlaunched.name);
            pods.extend(promised.filter_map(|key| self.waiting(key)).cloned());
            let types = unlaunched.pool.as_ref().and_then(|pool| self.instance_types.get(pool));
            let types = types.unwrap_or(&self.no_types);
            claim = Some(self.derived.promised.promised(unlaunched, types, &self.registry));
        }
        pods.sort_by(|left, right| left.key.cmp(&right.key));
        let marked = claim.as_ref().is_some_and(|claim| self.own.marked.contains(&claim.name));
        let nominated_until = self.own.nominated.get(id).copied();
        let limits = node.and_then(|node| self.facts.attach_limits.model(&node.name));
        let parts = Parts {
            buffer_pods: self.buffer_pods_on(members),
            claim,
            node: node.map(Arc::as_ref),
            pods,
            attach_limits: limits.map(|limits| limits.0.clone()).unwrap_or_default(),
            marked,
            nominated_until,
        };
        machine::assemble(id, parts)
    }
}
