//! Ties between volumes and nodes that exist: a Node that provisioning was begun for, the host whose disk a volume is on,
//! and disks that are still free.
//!
//! The scheduler sends a pod to no other Node than the one its claim names, so no new node is of use to it
//! (kubernetes#100485). A volume on a disk is where its host is; once the host is gone or being removed, so is the volume,
//! and as in the reference the pod may go where a new one can be made. Free disks are counted like any other resource of a
//! node; nodes that come up may bring as many as are needed.

use std::collections::BTreeMap;

use karpenter_model::names::{annotation, label};
use karpenter_model::{
    Expression, FreeVolume, LabelValue, Node, NodeName, Operator, Pod, Quantity, Requirement, ResourceName,
    Snapshot, Target, Tie, Volume, VolumeClaimName,
};

use super::{UNLIMITED, attached};
use crate::interning::Interned;
use crate::node_labels::{satisfies, value_of};

/// The nodes that stay, as far as volumes of the batch are tied to them, and the disks these may get.
#[derive(Debug, Default)]
pub(super) struct Ties<'a> {
    by_name: BTreeMap<&'a NodeName, &'a Node>,
    by_host: BTreeMap<LabelValue, &'a Node>,
    free: Interned<&'a [FreeVolume]>,
    /// Targets promised to pods that wait for a free disk, with the number of the disks.
    promised: Vec<(&'a Target, usize)>,
}

/// Nodes to which a volume is limited besides what its alternatives state.
pub(super) enum Tied {
    /// Anywhere.
    Free,
    /// Nodes on which any of these holds, for this reason.
    To(Vec<Vec<Expression>>, Option<String>),
    /// Nowhere, for this reason.
    Nowhere(String),
}

impl<'a> Ties<'a> {
    /// The ties of the volumes of `batch`.
    pub(super) fn new(snapshot: &'a Snapshot, batch: &[&'a Pod]) -> Self {
        let mut ties = Self::default();
        let mut hosts = false;
        for pod in batch {
            for volume in attached(pod, snapshot).into_values() {
                match &volume.tie {
                    Tie::None | Tie::Zone => {}
                    Tie::Node(_) | Tie::Disk => hosts = true,
                    Tie::Free(disks) => {
                        let (number, _) = ties.free.insert_full(disks);
                        ties.promised.extend(snapshot.promises.get(&pod.key).map(|target| (target, number)));
                    }
                }
            }
        }
        let staying = snapshot.nodes.iter().filter(|node| hosts && !node.is_leaving());
        for node in staying.map(AsRef::as_ref) {
            ties.by_name.extend(node.name.as_ref().map(|name| (name, node)));
            ties.by_host.insert(node.hostname(), node);
        }
        ties
    }

    /// Returns whether no volume waits for a free disk.
    pub(super) fn has_no_free(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the tie of `volume`, of claim `name`, for a pod that has a node and would have to leave it, if it `moves`.
    pub(super) fn of(
        &self,
        name: &VolumeClaimName,
        volume: &Volume,
        moves: bool,
        snapshot: &Snapshot,
    ) -> Tied {
        match &volume.tie {
            Tie::None | Tie::Zone | Tie::Free(_) => Tied::Free,
            Tie::Node(node) => {
                let why = format!(
                    "`{name}` is being provisioned for node `{node}`, as its annotation `{}` says",
                    annotation::SELECTED_NODE
                );
                match self.by_name.get(node) {
                    Some(there) => Tied::To(vec![host(there, snapshot)], Some(why)),
                    None => Tied::Nowhere(format!("{why}, and that node is not there")),
                }
            }
            Tie::Disk => {
                let mut hosts: Vec<&str> = Vec::new();
                let mut place = |alternative: &Vec<Expression>| {
                    let named = alternative.iter().filter(|one| one.key == label::HOSTNAME);
                    let there = named.flat_map(|one| &one.values).filter_map(|host| self.by_host.get(host));
                    // The host of a pod that moves is the node that is taken away, and its disk with it.
                    let there: Vec<&Node> = there.filter(|_| !moves).copied().collect();
                    let others = alternative.iter().filter(|one| one.key != label::HOSTNAME).cloned();
                    if there.is_empty() {
                        return vec![others.collect()];
                    }
                    hosts.extend(there.iter().map(|node| node.display_name()));
                    let others: Vec<Expression> = others.collect();
                    let on = |node: &&Node| others.iter().cloned().chain(host(node, snapshot)).collect();
                    there.iter().map(on).collect::<Vec<Vec<Expression>>>()
                };
                let places: Vec<Vec<Expression>> = volume.alternatives.iter().flat_map(&mut place).collect();
                let why = format!("`{name}` is on a disk of node `{}`", hosts.join("`, `"));
                Tied::To(places, (!hosts.is_empty()).then_some(why))
            }
        }
    }

    /// The resource that counts the disks `volume` may get, if it is to get one.
    pub(super) fn resource(&self, volume: &Volume) -> Option<ResourceName> {
        let Tie::Free(disks) = &volume.tie else { return None };
        self.free.get_index_of(disks.as_slice()).map(resource)
    }

    /// Returns the number of disks of each kind that `node` has for claims.
    pub(super) fn room(&self, node: &Node, snapshot: &Snapshot) -> Vec<(ResourceName, Quantity)> {
        let satisfied = |alternative: &Vec<Expression>| {
            let mut asked =
                alternative.iter().map(|expression| Requirement::new(&snapshot.registry, expression));
            asked.all(|asked| satisfies(node, &asked, &snapshot.registry))
        };
        let here =
            |disk: &&FreeVolume| disk.alternatives.is_empty() || disk.alternatives.iter().any(satisfied);
        let count = |(number, disks): (usize, &&[FreeVolume])| {
            if !node.initialized() {
                return (resource(number), UNLIMITED);
            }
            // A disk may still appear where a pod was sent for one: the promise ends when none does.
            let promised = self.promised.iter().filter(|(target, of)| *of == number && is(node, target));
            let disks = disks.iter().filter(here).count() + promised.count();
            (resource(number), Quantity::from_units(i64::try_from(disks).unwrap_or(i64::MAX)))
        };
        self.free.iter().enumerate().map(count).collect()
    }

    /// Returns the disks of each kind of a node that does not exist yet.
    pub(super) fn new_node(&self) -> impl Iterator<Item = (ResourceName, Quantity)> {
        (0..self.free.len()).map(|number| (resource(number), UNLIMITED))
    }
}

/// Returns whether `target` is `node`.
fn is(node: &Node, target: &Target) -> bool {
    match target {
        Target::Node(name) => node.name.as_ref() == Some(name),
        Target::Claim(name) => node.claim.as_ref().is_some_and(|claim| claim.name == *name),
    }
}

/// Returns expressions that only `node` satisfies, with its zone: rules about other pods look at that.
fn host(node: &Node, snapshot: &Snapshot) -> Vec<Expression> {
    let only = |key: &str, value: LabelValue| Expression {
        values: vec![value],
        ..Expression::new(key, Operator::In, &[])
    };
    let zone = value_of(node, &label::ZONE.into(), &snapshot.registry);
    let zone = zone.map(|zone| only(label::ZONE, zone));
    std::iter::once(only(label::HOSTNAME, node.hostname())).chain(zone).collect()
}

fn resource(number: usize) -> ResourceName {
    format!("free-volumes-{number}").as_str().into()
}
