//! Nodes that exist or are coming up, as places for pods (spec scheduling 13.1).
//!
//! Nodes with the same taints and the same values of the labels that pods name are of one kind; labels and taints are
//! compared once per demand and kind. Room only shrinks during a pass, so a node without room for a demand is not
//! looked at again.

mod undo;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::taint::first_untolerated;
use karpenter_model::{
    Devices, Effect, HostPorts, LabelKey, LabelValue, Node, NodeId, Pod, PodKey, Requirement, Resources,
    Snapshot, Taint, Target,
};

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::daemons::{Coming, Daemons};
use crate::index::{Ix, IxVec, KindIx, NodeIx, PodIx, ProfileIx, SnapshotNodeIx, VolumeIx};
use crate::interning::InternedMap;
use crate::node_labels::{Fact, fact, value_of};
use crate::place::devices::Holdings;
use crate::place::learnt::Known;
use crate::place::level::Demand;
use crate::place::relax;
use crate::place::topology::{Admission, Domain, Topology};
use crate::rules::{RuleSetId, Rules};
use crate::volumes::Volumes;

/// Number of nodes from which on a kind is worth a set operation.
const COMMON: usize = 64;

/// Facts about a node that labels and taints decide.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    /// Facts about the keys that pods name, in their order.
    facts: Vec<Fact>,
    taints: Vec<Taint>,
    /// Values of the labels that rules about other pods use.
    domains: Vec<Option<LabelValue>>,
    /// There are such rules, and it is not launched yet: labels it does not have may still come.
    unlaunched: bool,
}

impl Kind {
    /// Returns whether nodes of this kind satisfy `asked`; `keys` are the keys of the facts.
    fn satisfies(&self, keys: &[LabelKey], asked: &Requirement) -> bool {
        match keys.binary_search(asked.key()) {
            Ok(place) => self.facts[place].satisfies(asked),
            Err(_) => Fact::Absent.satisfies(asked),
        }
    }
}

#[derive(Debug, Clone)]
struct Slot<'a> {
    node: &'a Node,
    host: Domain,
    kind: KindIx,
    /// Inside the window of `consolidateAfter`: it should take no pods that would have to move.
    busy: bool,
    left: Left,
    /// Room when the pass began, if anything was added since.
    before: Option<Box<Left>>,
}

/// Room left on a node.
#[derive(Debug, Clone)]
struct Left {
    room: Amounts,
    ports: HostPorts,
    /// Volumes of its pods that other pods mount too.
    attached: BTreeSet<VolumeIx>,
}

impl Left {
    /// Returns whether there is room for `demand`.
    fn holds(&self, demand: &Demand) -> bool {
        if demand.shared.is_empty() {
            return demand.amounts.fits(&self.room);
        }
        let mut amounts = demand.amounts.clone();
        demand.attach(&mut self.attached.clone(), &mut amounts);
        amounts.fits(&self.room)
    }

    /// Takes what `demand`, of `pod`, needs.
    fn take(&mut self, pod: &Pod, demand: &Demand) {
        let mut amounts = demand.amounts.clone();
        demand.attach(&mut self.attached, &mut amounts);
        self.room.subtract(&amounts);
        self.ports.add(&pod.key, &demand.host_ports);
    }
}

/// The nodes of a pass, in the order they are tried.
#[derive(Debug, Clone)]
pub(crate) struct Existing<'a> {
    keys: Vec<LabelKey>,
    /// Nodes of each kind.
    kinds: InternedMap<Kind, Bits<NodeIx>>,
    slots: IxVec<NodeIx, Slot<'a>>,
    /// Nodes by host name; built when host affinity first needs it, which is rare.
    by_host: OnceCell<BTreeMap<LabelValue, Bits<NodeIx>>>,
    /// Amounts that each node can allocate to pods; computed when the scheduler's choice is first needed.
    allocatable: OnceCell<IxVec<NodeIx, Amounts>>,
    /// Undo log: nodes that took something in this pass; `None` unless this is a simulation.
    touched: Option<Vec<NodeIx>>,
    /// Nodes that are removed, by this simulation or for good.
    gone: Bits<NodeIx>,
}

impl<'a> Existing<'a> {
    /// The nodes of `snapshot` that stay: initialized ones first, those with a `PreferNoSchedule` taint after the others,
    /// then by name. `keys` are the label keys
    /// pods name, `topology_keys` those that rules about other pods look at, the host name aside.
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        mut keys: Vec<LabelKey>,
        topology_keys: &[LabelKey],
        volumes: &Volumes<'_>,
        (daemons, coming, asked): (&Daemons<'_>, &IxVec<SnapshotNodeIx, Coming>, &Resources),
        resources: &mut ResourceIndex,
    ) -> Self {
        let registry = &snapshot.registry;
        keys.sort_unstable();
        keys.dedup();

        let mut nodes: Vec<(&Node, &Coming)> =
            snapshot.nodes.iter().map(AsRef::as_ref).zip(coming.iter()).collect();
        // A claim that registered and has lost its Node is paid for, but nothing can be bound to it
        // (core#1392).
        nodes.retain(|(node, _)| !node.is_leaving() && !node.has_lost_node());
        nodes.sort_by_cached_key(|(node, _)| {
            let is_last = relax::has_soft_taint(&node.effective_taints());
            (!node.initialized(), is_last, node.display_name().to_owned(), node.id.clone())
        });

        let mut kinds: InternedMap<Kind, Bits<NodeIx>> = InternedMap::default();
        let mut slots = IxVec::default();
        for (node, coming) in nodes {
            let facts = keys.iter().map(|key| fact(node, key, registry)).collect();
            let domains = topology_keys.iter().map(|key| value_of(node, key, registry)).collect();
            let unlaunched = !topology_keys.is_empty() && node.unlaunched().is_some();
            let mut taints = node.effective_taints();
            if node.initialized() {
                // The scheduler uses such a node before a pod waits for another one.
                taints.retain(|taint| taint.effect != Effect::PreferNoSchedule);
            }
            let entry = kinds.entry(Kind { facts, taints, domains, unlaunched });
            let kind = KindIx::new(entry.index());
            entry.or_default().insert(slots.end());
            let (room, attached) =
                volumes.room(node, &room(node, &coming.requests, (asked, &snapshot.devices)));
            let room = resources.amounts(&room.subtract(&coming.attachments));
            let mut ports = HostPorts::default();
            node.pods.iter().for_each(|pod| ports.add(&pod.key, &pod.host_ports));
            // A pod that took the port of a daemon which is still to come would keep it off the node.
            for (daemon, _) in &coming.daemons {
                let daemon = &daemons.at(*daemon).daemon.pod;
                ports.add(&daemon.key, &daemon.host_ports);
            }
            let host = Domain::Value(node.hostname());
            let left = Left { room, ports, attached };
            slots.push(Slot { node, host, kind, busy: false, left, before: None });
        }
        let gone = Bits::none(slots.len());
        let (by_host, allocatable) = (OnceCell::new(), OnceCell::new());
        Self { keys, kinds, slots, by_host, allocatable, touched: None, gone }
    }

    /// The nodes that pods were promised places on, where they are still there, by pod.
    pub(crate) fn promised<'p>(
        &self,
        pods: impl Iterator<Item = (PodIx, &'p PodKey)>,
        promises: &BTreeMap<PodKey, Target>,
    ) -> InternedMap<PodIx, NodeIx> {
        if promises.is_empty() {
            return InternedMap::default();
        }
        let (mut claims, mut nodes) = (InternedMap::default(), InternedMap::default());
        for (index, Slot { node, .. }) in self.slots.enumerate() {
            claims.extend(node.claim.as_ref().map(|claim| (&claim.name, index)));
            nodes.extend(node.name.as_ref().map(|name| (name, index)));
        }
        let place = |target: &Target| match target {
            Target::Claim(name) => claims.get(name).copied(),
            Target::Node(name) => nodes.get(name).copied(),
        };
        pods.filter_map(|(index, key)| Some((index, place(promises.get(key)?)?))).collect()
    }

    /// The first node that takes `pod` at the level `known`, or node `on` if that takes it; the room is taken at once.
    /// `others` is what the pod is to other pods, where that matters.
    pub(crate) fn place(
        &mut self,
        pod: &Pod,
        on: Option<NodeIx>,
        known: &mut Known<'_>,
        rules: &Rules<'_>,
        others: Option<(&Topology, ProfileIx)>,
        mut devices: Option<&mut Holdings<'_>>,
    ) -> Option<&'a Node> {
        if self.slots.is_empty() {
            return None;
        }
        let Known { demand, demand_memo, level_memo, .. } = known;
        demand_memo.kinds.resize(self.kinds.len(), None);
        // Host affinity names the only hosts that can do; few, so they are looked up instead of all being skipped.
        let only = match on {
            Some(node) => {
                let mut only = Bits::none(self.slots.len());
                only.insert(node);
                Some(only)
            }
            None => others.and_then(|(topology, id)| topology.hosts_to_join(id)).map(|hosts| self.at(&hosts)),
        };
        // Nodes of kinds that other pods keep the pod out of for now.
        let mut not_now = Bits::default();
        let mut domains: IxVec<KindIx, Option<bool>> = IxVec::filled(None, self.kinds.len());
        let mut from = NodeIx::new(0);
        loop {
            let refusing =
                [&demand_memo.unsuitable, &demand_memo.nodes, &level_memo.nodes, &self.gone, &not_now];
            let index = match &only {
                Some(only) => only.next_without(&Bits::default(), from)?,
                None => Bits::next_outside(&refusing, from, self.slots.len())?,
            };
            from = index.next();
            if refusing.iter().any(|nodes| nodes.contains(index)) {
                continue;
            }
            // Cheapest question first: what labels, taints and room decided once holds for every level of the demand.
            if !self.suits(index, demand, &mut demand_memo.kinds, &mut demand_memo.unsuitable, rules) {
                continue;
            }
            let Slot { node, host, kind, left, .. } = &self.slots[index];
            if !left.holds(demand) || left.ports.conflict(&pod.key, &demand.host_ports).is_some() {
                // Room comes back only when a simulation is undone, so this holds for the pass.
                demand_memo.nodes.insert(index);
                continue;
            }
            if let Some((topology, id)) = others {
                // Nodes of one kind are in the same domains, so one answer does for all of them.
                if !*domains[*kind]
                    .get_or_insert_with(|| topology.admits_domains(id, node, rules.registry(), on.is_some()))
                {
                    self.add_kind(*kind, &mut not_now);
                    continue;
                }
                match topology.admits_host(id, host, None, on.is_some()) {
                    Admission::Yes => {}
                    // Not remembered: a matching pod may come to this host later in the pass.
                    Admission::NotNow => continue,
                    Admission::Never => {
                        level_memo.nodes.insert(index);
                        continue;
                    }
                }
            }
            // Not remembered: devices are released again when in-flight nodes are narrowed.
            if !demand.claims.is_empty()
                && !devices.as_mut().is_some_and(|held| held.join(node, &demand.claims, rules.registry()))
            {
                continue;
            }
            self.take(index, pod, demand);
            return Some(self.slots[index].node);
        }
    }

    /// The nodes that are up and have room for `demand`, with what is left of each and what it has for pods.
    pub(crate) fn taking(
        &self,
        demand: &Demand,
        resources: &ResourceIndex,
    ) -> impl Iterator<Item = (NodeIx, &Amounts, &Amounts)> {
        let allocatable = self.allocatable.get_or_init(|| {
            self.slots.iter().map(|slot| resources.known(&slot.node.effective_allocatable())).collect()
        });
        let takes = |index: NodeIx, slot: &Slot<'_>| {
            let kept_off = demand.moves && slot.busy || self.gone.contains(index);
            !kept_off && slot.node.initialized() && slot.left.holds(demand)
        };
        let nodes = self.slots.enumerate().filter(move |(index, slot)| takes(*index, slot));
        nodes.map(|(index, slot)| (index, &slot.left.room, &allocatable[index]))
    }

    /// The nodes at `hosts`.
    fn at(&self, hosts: &[&LabelValue]) -> Bits<NodeIx> {
        let by_host = self.by_host.get_or_init(|| {
            let mut by_host: BTreeMap<LabelValue, Bits<NodeIx>> = BTreeMap::new();
            for (index, slot) in self.slots.enumerate() {
                by_host.entry(slot.node.hostname()).or_default().insert(index);
            }
            by_host
        });
        let mut machines = Bits::default();
        hosts.iter().filter_map(|host| by_host.get(*host)).for_each(|found| machines.unite(found));
        machines
    }

    /// Adds the nodes of `kind` to `nodes`; not those of rare kinds, which cost less to ask one by one.
    fn add_kind(&self, kind: KindIx, nodes: &mut Bits<NodeIx>) {
        let members = &self.kinds[kind.get()];
        if members.len() >= COMMON {
            nodes.unite(members);
        }
    }

    /// Returns whether labels and taints of node `index` suit `demand`, and it had room when the pass began;
    /// recorded in `unsuitable` if not.
    fn suits(
        &self,
        index: NodeIx,
        demand: &Demand,
        kinds: &mut IxVec<KindIx, Option<bool>>,
        unsuitable: &mut Bits<NodeIx>,
        rules: &Rules<'_>,
    ) -> bool {
        let slot = &self.slots[index];
        let known = kinds[slot.kind];
        let kind =
            *kinds[slot.kind].insert(known.unwrap_or_else(|| self.kind_accepts(slot.kind, demand, rules)));
        if !kind {
            self.add_kind(slot.kind, unsuitable);
        }
        // Unsuitable holds in every pass, so it is judged by the room before this pass took any.
        let room = slot.before.as_deref().unwrap_or(&slot.left);
        // A displaced pod on a node inside its `consolidateAfter` window would restart that window.
        let suits = kind && !(demand.moves && slot.busy) && room.holds(demand);
        if !suits {
            unsuitable.insert(index);
        }
        suits
    }

    /// Takes what `demand`, of `pod`, needs from node `index`.
    fn take(&mut self, index: NodeIx, pod: &Pod, demand: &Demand) {
        let slot = &mut self.slots[index];
        // Only the first change is kept, because undoing goes back to the beginning.
        if let Some(touched) = self.touched.as_mut().filter(|_| slot.before.is_none()) {
            slot.before = Some(Box::new(slot.left.clone()));
            touched.push(index);
        }
        slot.left.take(pod, demand);
    }

    /// Returns whether taints and labels of nodes of `kind` suit `demand`; labels it does not have are missing for good.
    fn kind_accepts(&self, kind: KindIx, demand: &Demand, rules: &Rules<'_>) -> bool {
        let Some(set) = demand.rules else { return false };
        let kind = &self.kinds.keys()[kind.get()];
        let satisfies = |set: RuleSetId| {
            rules.rules_of(set).iter().all(|rule| kind.satisfies(&self.keys, rules.requirement(*rule)))
        };
        first_untolerated(&kind.taints, &demand.tolerations).is_none()
            && satisfies(set)
            && demand.places.iter().any(|place| satisfies(*place))
    }
}

/// Returns the name in a plan of a node that takes pods, and its key in the index.
pub(crate) fn target(node: &Node) -> (Target, NodeId) {
    let target = match (&node.name, &node.claim) {
        (Some(name), _) if node.registered() => Target::Node(name.clone()),
        (_, Some(claim)) => Target::Claim(claim.name.clone()),
        (Some(name), None) => Target::Node(name.clone()),
        (None, None) => Target::Node(node.id.as_str().into()),
    };
    (target, node.id.clone())
}

/// Returns the room left on `node` once its pods and the daemons that are still to come have what they request. `asked` are
/// resources that devices stand for where a node has none.
fn room(node: &Node, coming: &Resources, (asked, devices): (&Resources, &Devices)) -> Resources {
    let mut taken = node.requested();
    taken.add(coming);
    let allocatable = devices.without_limit(node.effective_allocatable(), &taken);
    devices.without_limit(allocatable, asked).subtract(&taken)
}
