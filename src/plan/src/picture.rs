//! The nodes of a pool's cluster as boxes filled by pods, before and after a forecast: what the page draws.
//!
//! Only nodes of pools are in it. Those that would come are as large as the cheapest type they may be, and hold the pods
//! they would be launched for.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::plan::command::Command;
use karpenter_model::resources::{CPU, MEMORY};
use karpenter_model::{
    ClaimName, InstanceType, Launch, Node, NodeId, NodeName, Nomination, Pod, PodKey, Price, Quantity,
    Resources, Snapshot, Target,
};

/// The nodes there are, and what would be of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) now: Vec<Drawn>,
    pub(crate) after: Vec<Drawn>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Drawn {
    pub(crate) pool: String,
    pub(crate) instance_type: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    /// Price per hour; `None` when it is not known.
    pub(crate) price: Option<Price>,
    pub(crate) fate: Fate,
    /// Name of a node that exists; `None` for a machine that would be launched.
    pub(crate) name: Option<String>,
    /// Room that pods can take of it.
    pub(crate) room: Amounts,
    pub(crate) pods: Vec<Filling>,
}

/// Fate of a node in a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It would be launched for pods that wait.
    New,
    /// It would take the place of others.
    Replacement,
    /// It would go.
    Goes,
    /// It is going already.
    Leaving,
    /// It stays and takes pods.
    Fills,
    Stays,
}

/// Thousandths of a core, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amounts {
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filling {
    /// Workload that the pod belongs to: namespace and application.
    pub(crate) workload: String,
    pub(crate) daemon: bool,
    pub(crate) takes: Amounts,
}

impl Amounts {
    fn of(resources: &Resources) -> Self {
        let amount = |name| resources.get(name).unwrap_or(Quantity::ZERO);
        Self { cpu: amount(CPU).as_millis_ceil(), memory: amount(MEMORY).as_units_ceil() }
    }

    /// The sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }
}

/// Decisions that a forecast is drawn from.
pub(crate) struct Decided<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) launches: &'a [Launch],
    pub(crate) nominations: &'a [Nomination],
    pub(crate) commands: &'a [Command],
    /// Claims that go without a command.
    pub(crate) gone: &'a BTreeSet<ClaimName>,
}

impl Picture {
    /// Draws it.
    pub(crate) fn of(decided: &Decided<'_>) -> Self {
        let snapshot = decided.snapshot;
        let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
        let pods: BTreeMap<&PodKey, &Pod> =
            snapshot.pending.iter().chain(bound).map(|pod| (&pod.key, &**pod)).collect();
        let going: BTreeSet<&NodeId> = decided
            .commands
            .iter()
            .flat_map(|command| &command.candidates)
            .map(|one| &one.target.id)
            .collect();
        let moves = decided.commands.iter().flat_map(|command| &command.nominations);
        let mut coming: BTreeMap<&Target, Vec<&Pod>> = BTreeMap::new();
        for one in decided.nominations.iter().chain(moves) {
            if let Some(pod) = pods.get(&one.pod) {
                coming.entry(&one.target).or_default().push(pod);
            }
        }
        let mut picture = Self::default();
        for node in snapshot.nodes.iter().filter(|node| node.is_managed()) {
            let claim = node.claim.as_ref().map(|claim| &claim.name);
            let goes = going.contains(&node.id) || claim.is_some_and(|claim| decided.gone.contains(claim));
            let names = [
                node.name.as_ref().map(|name: &NodeName| Target::Node(name.clone())),
                claim.map(|claim| Target::Claim(claim.clone())),
            ];
            let more: Vec<&Pod> =
                names.iter().flatten().filter_map(|name| coming.get(name)).flatten().copied().collect();
            let fate = match (goes, node.is_leaving()) {
                (true, _) => Fate::Goes,
                (false, true) => Fate::Leaving,
                (false, false) if !more.is_empty() => Fate::Fills,
                (false, false) => Fate::Stays,
            };
            let before = drawn(node, snapshot, fate);
            if !matches!(fate, Fate::Goes | Fate::Leaving) {
                let mut after = before.clone();
                after.pods.extend(more.into_iter().map(filling));
                after.pods.sort();
                picture.after.push(after);
            }
            picture.now.push(before);
        }
        let launched = |launch: &Launch, fate| coming_node(launch, &pods, snapshot, fate);
        picture.after.extend(decided.launches.iter().map(|launch| launched(launch, Fate::New)));
        let replacements = decided.commands.iter().flat_map(|command| &command.replacements);
        picture.after.extend(replacements.map(|launch| launched(launch, Fate::Replacement)));
        picture.now.sort();
        picture.after.sort();
        picture
    }
}

fn drawn(node: &Node, snapshot: &Snapshot, fate: Fate) -> Drawn {
    let mut pods: Vec<Filling> = node.pods.iter().map(|pod| filling(pod)).collect();
    pods.sort();
    Drawn {
        pool: node.pool().map(|pool| pool.to_string()).unwrap_or_default(),
        instance_type: node.instance_type().map(|one| one.to_string()).unwrap_or_default(),
        zone: node.zone().map(|zone| zone.to_string()).unwrap_or_default(),
        capacity_type: node.capacity_type().map(|kind| kind.as_str().to_owned()).unwrap_or_default(),
        price: price_of(node, snapshot),
        fate,
        name: Some(node.display_name().to_owned()),
        room: Amounts::of(&node.effective_allocatable()),
        pods,
    }
}

fn coming_node(launch: &Launch, pods: &BTreeMap<&PodKey, &Pod>, snapshot: &Snapshot, fate: Fate) -> Drawn {
    let cheapest = launch.cheapest.as_ref();
    let of_type = cheapest.and_then(|one| {
        let types = snapshot.instance_types.get(&launch.pool)?;
        types.iter().find(|known| known.name == one.instance_type)
    });
    let room = of_type.map(|one: &std::sync::Arc<InstanceType>| Amounts::of(&one.allocatable()));
    let mut filling: Vec<Filling> =
        launch.pods.iter().filter_map(|key| pods.get(key)).map(|pod| filling(pod)).collect();
    let taken = filling.iter().fold(Amounts::default(), |sum, one| sum.plus(one.takes));
    // Requests that pods do not account for are those of daemons.
    let requests = Amounts::of(&launch.requests);
    let daemons = Amounts {
        cpu: requests.cpu.saturating_sub(taken.cpu).max(0),
        memory: requests.memory.saturating_sub(taken.memory).max(0),
    };
    if daemons != Amounts::default() {
        filling.push(Filling { workload: "daemon sets".to_owned(), daemon: true, takes: daemons });
    }
    filling.sort();
    Drawn {
        pool: launch.pool.to_string(),
        instance_type: cheapest.map(|one| one.instance_type.to_string()).unwrap_or_default(),
        zone: cheapest.map(|one| one.zone.to_string()).unwrap_or_default(),
        capacity_type: cheapest.map(|one| one.capacity_type.as_str().to_owned()).unwrap_or_default(),
        price: cheapest.map(|one| one.price),
        fate,
        name: None,
        room: room.unwrap_or(requests),
        pods: filling,
    }
}

/// Returns the price of a node, by the offering it was bought through.
pub(crate) fn price_of(node: &Node, snapshot: &Snapshot) -> Option<Price> {
    let types = snapshot.instance_types.get(&node.pool()?)?;
    let name = node.instance_type()?;
    let of_type: &InstanceType = types.iter().find(|one| one.name == name)?;
    of_type.bought_through(node, &snapshot.registry).map(|offering| offering.price)
}

fn filling(pod: &Pod) -> Filling {
    Filling { workload: workload(pod), daemon: pod.is_daemon(), takes: Amounts::of(&pod.requests) }
}

/// Namespace and application of a pod: by the labels people give it, or by its name without what makes it one of many.
fn workload(pod: &Pod) -> String {
    let label = |key: &str| pod.labels.get(key).map(ToString::to_string);
    let named = label("app.kubernetes.io/name").or_else(|| label("app")).or_else(|| label("k8s-app"));
    let name = pod.key.name.to_string();
    let own = || {
        let parts: Vec<&str> = name.split('-').collect();
        let generated =
            parts.iter().rev().take_while(|part| part.bytes().any(|byte| byte.is_ascii_digit())).count();
        parts[..parts.len().saturating_sub(generated).max(1)].join("-")
    };
    format!("{}/{}", pod.key.namespace, named.unwrap_or_else(own))
}
