//! Demands of the persistent volumes of a pod on its node: a place where all of them can be attached, and
//! enough room for attachments (spec scheduling 19).
//!
//! Attachments are counted like any other resource, named after the driver, so "fits" covers them. A volume
//! that only one pod mounts is part of the pod's amounts; one that several pods mount is kept by number,
//! because it counts once per node.
//!
//! Attachment limit of a node: the one in its `CSINode`. A node that does not exist yet, or has not come up, is
//! taken to attach as much as the most restricted existing node of its instance type; failing that, the capacity
//! of the type (`attachable-volumes-csi-<driver>`). Where neither is known there is no limit, as in the reference:
//! nodes of other types are no evidence for this one. Too low a limit leaves pods pending for as long as no such
//! node exists; a first node that is overfilled costs one pass, and then its type is known. Pods that run are
//! another matter: what is overfilled by those costs their eviction, so where they are moved the most restricted
//! node there is stands for types of which nothing is known.

mod ties;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::pod::volume::ATTACHABLE_PREFIX;
use karpenter_model::{
    Access, DriverName, Expression, InstanceTypeName, LabelRegistry, LabelValue, Namespace, Node, Pod,
    PodKey, Quantity, Requirement, Requirements, ResourceName, Resources, Snapshot, Tie, Volume,
    VolumeClaimName,
};

use crate::conjunction::conjunction;
use crate::index::{Ix, NeedIx, VolumeIx};
use crate::interning::Interned;
use ties::{Tied, Ties};

/// Most combinations of alternatives that are kept for one pod.
const MAX_PLACES: usize = 64;
/// More attachments than any node has.
const UNLIMITED: Quantity = Quantity::from_units(1 << 32);

/// Namespace and name of a persistent volume claim.
type ClaimKey<'a> = (&'a Namespace, &'a VolumeClaimName);
/// A claim that more than one pod mounts.
pub(crate) type SharedClaim = (Namespace, VolumeClaimName);

/// Demands of the volumes of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Need {
    /// Reasons why the pod cannot be planned because of its volumes.
    pub(crate) problems: Vec<String>,
    /// Volumes that one pod at a time may use and another pod uses: no node can take the pod.
    pub(crate) taken: Vec<String>,
    /// Alternatives for the node, one of which must hold; none when they exclude each other.
    pub(crate) places: Arc<[Requirements]>,
    /// Reasons that tie the pod to nodes that exist.
    pub(crate) tied: Vec<String>,
    /// Attachments of volumes no other pod mounts.
    pub(crate) own: Resources,
    /// Volumes other pods mount too, with the resource each takes one of.
    pub(crate) shared: BTreeMap<VolumeIx, ResourceName>,
    /// Shared volumes that do not exist yet and will be in one zone.
    pub(crate) one_zone: Vec<SharedClaim>,
}

/// The volumes of a pass.
#[derive(Debug)]
pub(crate) struct Volumes<'a> {
    snapshot: &'a Snapshot,
    needs: Interned<Need>,
    /// Volumes that more than one pod mounts.
    shared: Interned<ClaimKey<'a>>,
    /// Pods on nodes that use a volume of the batch which one pod at a time may use, by claim.
    users: BTreeMap<ClaimKey<'a>, Vec<&'a PodKey>>,
    /// Attachment limits of nodes, per driver that waiting pods use.
    limits: BTreeMap<&'a DriverName, Limits>,
    ties: Ties<'a>,
}

/// Number of volumes of one driver that nodes can attach: the least any existing node of the instance type can, and the
/// least any node can where that counts.
#[derive(Debug, Default)]
struct Limits {
    by_type: BTreeMap<InstanceTypeName, u32>,
    least: Option<u32>,
}

impl<'a> Volumes<'a> {
    /// The volumes of `batch` and of the pods that stay where they are; `moves` is set if those of the batch run.
    pub(crate) fn new(snapshot: &'a Snapshot, batch: &[&'a Pod], moves: bool) -> Self {
        let nothing = Need {
            problems: Vec::new(),
            taken: Vec::new(),
            places: [Requirements::new()].into(),
            tied: Vec::new(),
            own: Resources::new(),
            shared: BTreeMap::new(),
            one_zone: Vec::new(),
        };
        let mut volumes = Self {
            snapshot,
            needs: [nothing].into_iter().collect(),
            shared: Interned::default(),
            users: BTreeMap::new(),
            limits: BTreeMap::new(),
            ties: Ties::default(),
        };
        if snapshot.volumes.is_empty() {
            return volumes;
        }
        let mut mounted: BTreeSet<ClaimKey<'a>> = BTreeSet::new();
        for (key, volume) in batch.iter().flat_map(|pod| attached(pod, snapshot)) {
            if volume.access == Access::OnePod {
                volumes.users.entry(key).or_default();
            }
            volumes.limits.extend(volume.driver.as_ref().map(|driver| (driver, Limits::default())));
            if !mounted.insert(key) {
                volumes.shared.insert(key);
            }
        }
        volumes.learn_users();
        volumes.ties = Ties::new(snapshot, batch);
        if volumes.limits.is_empty() {
            return volumes;
        }
        for node in snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
            let bound = node.pods.iter().flat_map(|pod| attached(pod, snapshot)).map(|(key, _)| key);
            volumes.shared.extend(bound.filter(|key| mounted.contains(key)));
            for (driver, limits) in &mut volumes.limits {
                limits.learn(node, driver, moves);
            }
        }
        volumes
    }

    /// Records the users of the volumes that one pod at a time may use: every pod is looked at once, however many have
    /// such a volume.
    fn learn_users(&mut self) {
        if self.users.is_empty() {
            return;
        }
        for pod in self.snapshot.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.is_terminal()) {
            for claim in &pod.volumes {
                if let Some(users) = self.users.get_mut(&(&pod.key.namespace, &claim.name)) {
                    users.push(&pod.key);
                }
            }
        }
    }

    /// Returns the demands of the volumes of `pod`, which has a node and would have to leave it if it `moves`.
    pub(crate) fn need(&mut self, pod: &'a Pod, moves: bool) -> NeedIx {
        if pod.volumes.is_empty() {
            // The first need is that of pods without volumes.
            return NeedIx::new(0);
        }
        let problems = pod.volumes.iter().filter_map(|claim| {
            let volume = self.snapshot.volumes.get(&(pod.key.namespace.clone(), claim.name.clone()));
            let problem = match volume {
                Some(volume) => volume.problem.as_deref()?,
                None => "it does not exist",
            };
            Some(format!("`{}`: {problem}", claim.name))
        });
        let problems = problems.collect();
        let taken = self.taken(pod);
        let mut need = Need { problems, taken, ..self.needs[0].clone() };
        let mut places = need.places.to_vec();
        for (key, volume) in attached(pod, self.snapshot) {
            let registry = &self.snapshot.registry;
            // The alternatives of a disk name its host, which may be gone.
            if volume.tie != Tie::Disk {
                places = product(&places, &volume.alternatives, registry);
            }
            match self.ties.of(key.1, volume, moves, self.snapshot) {
                Tied::Free => {}
                Tied::To(alternatives, why) => {
                    places = product(&places, &alternatives, registry);
                    need.tied.extend(why);
                }
                Tied::Nowhere(why) => {
                    places.clear();
                    need.tied.push(why);
                }
            }
            if volume.tie == Tie::Zone && self.shared.get_index_of(&key).is_some() {
                need.one_zone.push((key.0.clone(), key.1.clone()));
            }
            let attaches = volume.driver.as_ref().map(resource);
            let Some(resource) = self.ties.resource(volume).or(attaches) else { continue };
            match self.shared.get_index_of(&key) {
                Some(number) => drop(need.shared.insert(VolumeIx::new(number), resource)),
                None => need.own.add(&Resources::new().with(resource.as_str(), Quantity::ONE)),
            }
        }
        need.places = places.into();
        NeedIx::new(self.needs.insert_full(need).0)
    }

    /// The volumes that another pod keeps `pod` from using, and which pod that is.
    fn taken(&self, pod: &Pod) -> Vec<String> {
        let taken = attached(pod, self.snapshot).into_keys().filter_map(|(namespace, name)| {
            let user = self.users.get(&(namespace, name))?.iter().find(|user| ***user != pod.key)?;
            Some(used_by(name, user))
        });
        taken.collect()
    }

    /// Returns whether pods share a volume that does not exist yet and will be in one zone.
    pub(crate) fn brings_together(&self) -> bool {
        let volumes = self.shared.iter().filter_map(|(namespace, name)| {
            self.snapshot.volumes.get(&((*namespace).clone(), (*name).clone()))
        });
        volumes.into_iter().any(|volume| volume.tie == Tie::Zone)
    }

    /// The volumes of `pod` that one pod at a time may use, where other pods mount them too.
    pub(crate) fn exclusive(&self, pod: &'a Pod) -> Vec<(VolumeIx, &'a VolumeClaimName)> {
        let claims = pod.volumes.iter().filter(|_| !self.users.is_empty()).map(|claim| &claim.name);
        let exclusive = claims.filter_map(|name| {
            let key = (&pod.key.namespace, name);
            let shared = self.shared.get_index_of(&key).filter(|_| self.users.contains_key(&key))?;
            Some((VolumeIx::new(shared), name))
        });
        exclusive.collect()
    }

    /// The need behind `id`.
    pub(crate) fn get(&self, id: NeedIx) -> &Need {
        &self.needs[id.get()]
    }

    /// Attachments of the volumes of `daemon`, for the drivers that waiting pods use.
    pub(crate) fn attachments(&self, daemon: &Pod) -> Resources {
        let mut attachments = Resources::new();
        for volume in attached(daemon, self.snapshot).into_values() {
            if let Some(driver) = volume.driver.as_ref().filter(|driver| self.limits.contains_key(driver)) {
                attachments.add(&Resources::new().with(resource(driver).as_str(), Quantity::ONE));
            }
        }
        attachments
    }

    /// `allocatable` of a new node of type `name`, with what it will probably be able to attach.
    pub(crate) fn estimate(&self, name: &InstanceTypeName, allocatable: &Resources) -> Resources {
        let mut complete = allocatable.clone();
        for (driver, limits) in &self.limits {
            let resource = resource(driver);
            let said = allocatable.get(resource.as_str());
            complete.set(resource.as_str(), limits.of_new(Some(name), said));
        }
        for (resource, disks) in self.ties.new_node() {
            complete.set(resource.as_str(), disks);
        }
        complete
    }

    /// `room` of an existing node, with what it can still attach; and the shared volumes it has.
    pub(crate) fn room(&self, node: &Node, room: &Resources) -> (Resources, BTreeSet<VolumeIx>) {
        let mut complete = room.clone();
        if self.limits.is_empty() && self.ties.has_no_free() {
            return (complete, BTreeSet::new());
        }
        for (resource, disks) in self.ties.room(node, self.snapshot) {
            complete.set(resource.as_str(), disks);
        }
        let volumes: BTreeMap<ClaimKey<'_>, &Volume> =
            node.pods.iter().flat_map(|pod| attached(pod, self.snapshot)).collect();
        for (driver, limits) in &self.limits {
            let resource = resource(driver);
            let said = node.effective_allocatable().get(resource.as_str());
            let limit = match node.attach_limits.get(*driver) {
                Some(limit) => Quantity::from_units(i64::from(*limit)),
                // A node that is up names every limit that its drivers have.
                None if node.initialized() => UNLIMITED,
                None => limits.of_new(node.instance_type().as_ref(), said),
            };
            let used = volumes.values().filter(|volume| volume.driver.as_ref() == Some(driver)).count();
            let used = Quantity::from_units(i64::try_from(used).unwrap_or(i64::MAX));
            complete.set(resource.as_str(), limit.saturating_sub(used).max(Quantity::ZERO));
        }
        let shared =
            volumes.keys().filter_map(|key| self.shared.get_index_of(key)).map(VolumeIx::new).collect();
        (complete, shared)
    }
}

impl Limits {
    /// Remembers what `node` can attach, also for types of which nothing else is known if it stands `for_all`.
    fn learn(&mut self, node: &Node, driver: &DriverName, for_all: bool) {
        let Some(limit) = node.attach_limits.get(driver).copied() else { return };
        if for_all {
            self.least = Some(self.least.map_or(limit, |least| least.min(limit)));
        }
        if let Some(name) = node.instance_type() {
            let known = self.by_type.entry(name).or_insert(limit);
            *known = limit.min(*known);
        }
    }

    /// Returns the limit of a new node of type `name`, whose capacity states `said`.
    fn of_new(&self, name: Option<&InstanceTypeName>, said: Option<Quantity>) -> Quantity {
        let seen = |limit: &u32| Quantity::from_units(i64::from(*limit));
        let of_type = name.and_then(|name| self.by_type.get(name)).map(seen);
        of_type.or(said).or(self.least.as_ref().map(seen)).unwrap_or(UNLIMITED)
    }
}

/// Returns the reason why a pod cannot use the volume of claim `name`, which one pod at a time may use.
pub(crate) fn used_by(name: &VolumeClaimName, user: &PodKey) -> String {
    format!("`{name}` is ReadWriteOncePod and {user} uses it")
}

/// The resource that counts attachments of `driver`.
fn resource(driver: &DriverName) -> ResourceName {
    format!("{ATTACHABLE_PREFIX}{driver}").into()
}

/// The distinct volumes `pod` mounts, as far as they are known.
fn attached<'a>(pod: &'a Pod, snapshot: &'a Snapshot) -> BTreeMap<ClaimKey<'a>, &'a Volume> {
    let known = pod.volumes.iter().filter_map(|claim| {
        let key = (pod.key.namespace.clone(), claim.name.clone());
        Some(((&pod.key.namespace, &claim.name), snapshot.volumes.get(&key)?.as_ref()))
    });
    known.collect()
}

/// Every way to satisfy one of `places` and one of `alternatives`, if there are any; none when all exclude each other.
fn product(
    places: &[Requirements],
    alternatives: &[Vec<Expression>],
    registry: &LabelRegistry,
) -> Vec<Requirements> {
    if alternatives.is_empty() {
        return places.to_vec();
    }
    let mut combined = Vec::new();
    for place in places {
        for alternative in alternatives {
            let stated: Vec<Requirement> = place
                .iter()
                .cloned()
                .chain(alternative.iter().map(|expression| Requirement::new(registry, expression)))
                .collect();
            combined.extend(conjunction(&stated).filter(|both| !combined.contains(both)));
        }
    }
    join_alike(&mut combined);
    // What is cut off only takes choices away: each place that is left suits all volumes.
    combined.truncate(MAX_PLACES);
    combined
}

/// Joins places that differ in the listed values of one key only: "zone a, or zone b" is "zone a or b", which
/// leaves the choice open.
fn join_alike(places: &mut Vec<Requirements>) {
    let mut first = 0;
    while first < places.len() {
        let partner = (first + 1..places.len())
            .find_map(|second| Some((second, joined(&places[first], &places[second])?)));
        match partner {
            Some((second, both)) => {
                places[first] = both;
                places.remove(second);
                // What was joined may now differ in one key only from a place before it.
                first = 0;
            }
            None => first += 1,
        }
    }
}

fn joined(a: &Requirements, b: &Requirements) -> Option<Requirements> {
    if a.len() != b.len() || !a.iter().zip(b.iter()).all(|(a, b)| a.key() == b.key()) {
        return None;
    }
    let mut different = a.iter().zip(b.iter()).filter(|(a, b)| a != b);
    let (one, other) = different.next()?;
    if different.next().is_some() {
        return None;
    }
    let values: BTreeSet<LabelValue> = one.concrete()?.union(other.concrete()?).cloned().collect();
    let mut both = a.clone();
    both.replace(Requirement::one_of(one.key().clone(), values));
    Some(both)
}

#[cfg(test)]
mod tests {
    use karpenter_model::Operator;

    use super::*;

    fn volume(alternatives: &[&[(&str, &[&str])]]) -> Volume {
        let term = |pairs: &&[(&str, &[&str])]| {
            pairs.iter().map(|(key, values)| Expression::new(key, Operator::In, values)).collect()
        };
        Volume { alternatives: alternatives.iter().map(term).collect(), ..Volume::default() }
    }

    fn places(volumes: &[Volume]) -> Vec<String> {
        let registry = LabelRegistry::core();
        let all = volumes.iter().fold(vec![Requirements::new()], |places, volume| {
            product(&places, &volume.alternatives, &registry)
        });
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn alternatives_of_one_key_stay_open_and_volumes_narrow_each_other() {
        let ab = volume(&[&[("zone", &["a"])], &[("zone", &["b"])]]);
        let bc = volume(&[&[("zone", &["b", "c"])]]);
        let d = volume(&[&[("zone", &["d"])]]);
        assert_eq!(places(&[]), [""]);
        assert_eq!(places(&[volume(&[])]), [""]);
        assert_eq!(places(std::slice::from_ref(&ab)), ["zone In [a b]"]);
        assert_eq!(places(&[ab.clone(), bc.clone()]), ["zone In [b]"]);
        assert_eq!(places(&[ab, bc, d]), [""; 0]);
    }

    #[test]
    fn branches_that_exclude_each_other_are_pruned() {
        let racks = volume(&[&[("rack", &["1"]), ("zone", &["a"])], &[("rack", &["2"]), ("zone", &["b"])]]);
        let zone = volume(&[&[("zone", &["b"])]]);
        assert_eq!(
            places(std::slice::from_ref(&racks)),
            ["rack In [1], zone In [a]", "rack In [2], zone In [b]"]
        );
        assert_eq!(places(&[racks, zone]), ["rack In [2], zone In [b]"]);
    }
}
