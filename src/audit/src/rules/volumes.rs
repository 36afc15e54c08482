//! Volumes of placed pods can be attached where the pods go, all of them (spec scheduling 19).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;
use karpenter_model::{
    DriverName, Expression, FreeVolume, LabelKey, LabelValue, Launch, Node, Plan, Pod, Requirement,
    Requirements, Target, Tie, Volume, VolumeClaimName,
};

use crate::finding::{Finding, Rule};
use crate::places::{Place, Places};
use crate::world::{World, satisfies, value_of};

/// Most kinds of machine a claim is taken apart into.
const MAX_KINDS: usize = 4096;

pub(crate) fn check(world: &World<'_>, plan: &Plan, places: &Places<'_>, findings: &mut Vec<Finding>) {
    let mut sent: BTreeMap<_, (&Target, &Node, Vec<&Pod>)> = BTreeMap::new();
    for launch in &plan.launches {
        for pod in world.pods_of(launch) {
            // A new machine is never the one that a volume is being provisioned for.
            let reaches =
                |volume: &Volume| !matches!(volume.tie, Tie::Node(_)) && everywhere(world, launch, volume);
            findings.extend(out_of_reach(world, pod, &reaches));
        }
        findings.extend(too_many_on_new(world, launch));
    }
    for nomination in &plan.nominations {
        if let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) {
            let reaches = |volume: &Volume| {
                let is_meant = match &volume.tie {
                    Tie::Node(name) => node.name.as_ref() == Some(name),
                    Tie::None | Tie::Zone | Tie::Disk | Tie::Free(_) => true,
                };
                let holds = |wanted: &Vec<Requirement>| satisfies(node, wanted, world.registry());
                is_meant && (volume.alternatives.is_empty() || stated(world, volume).iter().any(holds))
            };
            findings.extend(out_of_reach(world, pod, &reaches));
            let (_, _, pods) = sent.entry(&node.id).or_insert((&nomination.target, node, Vec::new()));
            pods.push(pod);
        }
    }
    findings.extend(in_several_zones(world, places));
    for (target, node, pods) in sent.into_values() {
        findings.extend(too_many(world, (target, node), &pods));
        findings.extend(without_disk(world, node, &pods));
    }
}

/// Claims whose volume is not there yet, and whose pods may come up in different zones: it will be in that of the first.
fn in_several_zones(world: &World<'_>, places: &Places<'_>) -> Vec<Finding> {
    let key = LabelKey::from(label::ZONE);
    let zones = |place: Place<'_>| -> Option<BTreeSet<LabelValue>> {
        match place {
            Place::Launch(launch) => launch.requirements.value_of(&key).concrete().cloned(),
            Place::Node(node) => value_of(node, &key, world.registry()).map(|zone| [zone].into()),
        }
    };
    // By claim and machine.
    let mut used: BTreeMap<_, BTreeMap<usize, _>> = BTreeMap::new();
    for placed in places.new_ones() {
        for (name, volume) in volumes(world, placed.pod) {
            if volume.is_some_and(|volume| volume.tie == Tie::Zone) {
                let used = used.entry((&placed.pod.key.namespace, name)).or_default();
                used.insert(placed.machine, (placed.pod, zones(placed.place)));
            }
        }
    }
    let apart = used.into_iter().filter_map(|((_, name), used)| {
        let (first, zones) = used.values().next()?;
        let is_one = zones.as_ref().is_some_and(|zones| zones.len() == 1);
        let together = used.len() == 1 || is_one && used.values().all(|(_, other)| other == zones);
        let detail = || format!("volume `{name}` will be in one zone, and pods with it may be in several");
        (!together).then(|| Finding::new(Rule::Volume, &first.key, detail()))
    });
    apart.collect()
}

/// The volumes of `pod` with their claims; one that is not known is `None`.
fn volumes<'a>(world: &'a World<'_>, pod: &'a Pod) -> Vec<(&'a VolumeClaimName, Option<&'a Volume>)> {
    let known = |name: &VolumeClaimName| {
        world.snapshot.volumes.get(&(pod.key.namespace.clone(), name.clone())).map(AsRef::as_ref)
    };
    pod.volumes.iter().map(|claim| (&claim.name, known(&claim.name))).collect()
}

fn out_of_reach(world: &World<'_>, pod: &Pod, reaches: &impl Fn(&Volume) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, volume) in volumes(world, pod) {
        let objection = match volume {
            None => "does not exist",
            Some(volume) if volume.problem.is_some() => "cannot be used",
            Some(volume) if !reaches(volume) => "cannot be attached there",
            Some(_) => continue,
        };
        findings.push(Finding::new(Rule::Volume, &pod.key, format!("volume `{name}` {objection}")));
    }
    findings
}

/// The alternatives of `volume`. That it is on a disk of a host counts while that is there and stays.
fn stated(world: &World<'_>, volume: &Volume) -> Vec<Vec<Requirement>> {
    let stays = |asked: &Requirement| {
        let mut nodes = world.snapshot.nodes.iter().filter(|node| !node.is_leaving());
        nodes.any(|node| asked.allows(node.hostname().as_str()))
    };
    let counts =
        |asked: &Requirement| volume.tie != Tie::Disk || *asked.key() != label::HOSTNAME || stays(asked);
    let alternative = |terms: &Vec<Expression>| {
        let asked = terms.iter().map(|one| Requirement::new(world.registry(), one));
        asked.filter(counts).collect()
    };
    volume.alternatives.iter().map(alternative).collect()
}

/// A pod of `pods` that waits for a disk of `node`, which has too few that are free. A machine that comes up may bring more,
/// and so may one that the pod was promised.
fn without_disk(world: &World<'_>, node: &Node, pods: &[&Pod]) -> Option<Finding> {
    let mut claims: BTreeMap<&[FreeVolume], BTreeSet<_>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| node.initialized() && !world.is_promised(pod, node)) {
        for (name, volume) in volumes(world, pod) {
            if let Some(Volume { tie: Tie::Free(disks), .. }) = volume {
                claims.entry(disks).or_default().insert((&pod.key, name));
            }
        }
    }
    claims.into_iter().find_map(|(disks, claims)| {
        let reaches = |disk: &&FreeVolume| {
            let mut terms = disk.alternatives.iter();
            disk.alternatives.is_empty()
                || terms.any(|terms| {
                    let terms: Vec<_> =
                        terms.iter().map(|one| Requirement::new(world.registry(), one)).collect();
                    satisfies(node, &terms, world.registry())
                })
        };
        let free = disks.iter().filter(reaches).count();
        let (pod, name) = claims.iter().nth(free)?;
        let detail = format!("volume `{name}` has no free disk on {}", node.display_name());
        Some(Finding::new(Rule::Volume, *pod, detail))
    })
}

/// Returns whether every machine `launch` may become is in reach of `volume`: for every combination of values
/// of the labels its alternatives name, one alternative holds.
fn everywhere(world: &World<'_>, launch: &Launch, volume: &Volume) -> bool {
    if volume.alternatives.is_empty() {
        return true;
    }
    let alternatives = stated(world, volume);
    if alternatives.iter().any(Vec::is_empty) {
        return true;
    }
    let keys: BTreeSet<&LabelKey> = alternatives.iter().flatten().map(Requirement::key).collect();
    let mut kinds = vec![Requirements::new()];
    for key in keys {
        let own = launch.requirements.value_of(key);
        let values: Vec<Requirement> = match own.concrete() {
            Some(values) => values.iter().map(|value| only(key, value)).collect(),
            None => vec![own],
        };
        kinds = kinds.iter().flat_map(|kind| values.iter().map(|value| with(kind, value))).collect();
        if kinds.len() > MAX_KINDS {
            return false;
        }
    }
    kinds.iter().all(|kind| {
        alternatives.iter().any(|wanted| {
            wanted.iter().all(|asked| {
                let own = kind.value_of(asked.key());
                own.intersection(asked).with_min_values(own.min_values()) == own && !own.is_empty()
            })
        })
    })
}

fn only(key: &LabelKey, value: &LabelValue) -> Requirement {
    Requirement::one_of(key.clone(), [value.clone()])
}

fn with(kind: &Requirements, value: &Requirement) -> Requirements {
    let mut kind = kind.clone();
    kind.replace(value.clone());
    kind
}

/// A driver that would have to attach more volumes to `node` than it can, because of `pods`.
fn too_many(world: &World<'_>, (target, node): (&Target, &Node), pods: &[&Pod]) -> Option<Finding> {
    let mut attached: BTreeMap<&DriverName, BTreeSet<_>> = BTreeMap::new();
    let mut added = BTreeSet::new();
    for pod in node.pods.iter().map(AsRef::as_ref).chain(pods.iter().copied()) {
        for (name, volume) in volumes(world, pod) {
            let Some(driver) = volume.and_then(|volume| volume.driver.as_ref()) else { continue };
            let new = attached.entry(driver).or_default().insert((&pod.key.namespace, name));
            if new && pods.iter().any(|sent| sent.key == pod.key) {
                added.insert(driver);
            }
        }
    }
    added.into_iter().find_map(|driver| {
        let (limit, count) = (node.attach_limits.get(driver)?, attached[driver].len());
        let over = count > usize::try_from(*limit).unwrap_or(usize::MAX);
        let detail = format!("`{driver}` would attach {count} volumes, {limit} are possible");
        over.then(|| Finding::new(Rule::Volume, target, detail))
    })
}

/// A driver that would have to attach more volumes to `launch` than existing machines of one of its types can.
fn too_many_on_new(world: &World<'_>, launch: &Launch) -> Option<Finding> {
    let mut attached: BTreeMap<&DriverName, BTreeSet<_>> = BTreeMap::new();
    for pod in world.pods_of(launch) {
        for (name, volume) in volumes(world, pod) {
            if let Some(driver) = volume.and_then(|volume| volume.driver.as_ref()) {
                attached.entry(driver).or_default().insert((&pod.key.namespace, name));
            }
        }
    }
    for node in world.snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
        if node.instance_type().is_none_or(|name| !launch.instance_types.contains(&name)) {
            continue;
        }
        for (driver, limit) in &node.attach_limits {
            let count = attached.get(driver).map_or(0, BTreeSet::len);
            if count > usize::try_from(*limit).unwrap_or(usize::MAX) {
                let detail = format!("`{driver}` would attach {count} volumes, {limit} are likely possible");
                return Some(Finding::new(Rule::Volume, launch.bin, detail));
            }
        }
    }
    None
}
