//! Required anti-affinity of pods that run, and of daemons that are to, keeps others out of their domain (spec
//! scheduling 18.4).
//!
//! Pods of one deployment have the same rules and are the same to those of others, so a term is read once however many pods
//! state it, and the pods it is about are found once per namespace and labels.

use std::collections::BTreeMap;

use karpenter_model::{AffinityTerm, LabelKey, LabelValue, Labels, Namespace, Pod};

use crate::finding::{Finding, Rule};
use crate::places::{Place, Placed, Places, selects};
use crate::world::{World, value_of};

/// By the namespace and the term of the pods that state it: one of them in each of their domains.
type Terms<'a> = BTreeMap<(&'a Namespace, &'a AffinityTerm), BTreeMap<LabelValue, &'a Pod>>;

pub(crate) fn check(world: &World<'_>, places: &Places<'_>, findings: &mut Vec<Finding>) {
    let terms = terms(world);
    let mut known: BTreeMap<(&Namespace, &Labels), Vec<_>> = BTreeMap::new();
    for one in places.new_ones() {
        let about = known.entry((&one.pod.key.namespace, &one.pod.labels)).or_insert_with(|| {
            let about = terms.iter().filter(|((own, term), _)| selects(world, term, own, one.pod));
            about.map(|((_, term), owners)| (&term.topology_key, owners)).collect()
        });
        let owners = about.iter().filter_map(|(key, owners)| owner_near(world, &one.place, key, owners));
        let daemons = places.daemons_beside(one).filter(|daemon| keeps_off(world, daemon, one));
        findings.extend(owners.chain(daemons).map(|owner| {
            Finding::new(Rule::AntiAffinity, &one.pod.key, format!("{} keeps it out", owner.key))
        }));
    }
}

/// Returns whether `daemon`, which comes to the machine of `one`, keeps its pod out of any domain the machine has.
fn keeps_off(world: &World<'_>, daemon: &Pod, one: &Placed<'_>) -> bool {
    daemon.pod_anti_affinity.required.iter().any(|term| {
        let domains = one.place.domains(world.registry(), &term.topology_key);
        selects(world, term, &daemon.key.namespace, one.pod) && domains.is_none_or(|all| !all.is_empty())
    })
}

/// Terms of the pods that stay where they are.
fn terms<'a>(world: &World<'a>) -> Terms<'a> {
    let mut terms = Terms::new();
    for node in &world.snapshot.nodes {
        let staying = node.pods.iter().filter(|pod| !pod.is_terminal() && world.pod(&pod.key).is_none());
        for pod in staying {
            for term in &pod.pod_anti_affinity.required {
                if let Some(value) = value_of(node, &term.topology_key, world.registry()) {
                    let owners = terms.entry((&pod.key.namespace, term)).or_default();
                    owners.entry(value).or_insert(pod.as_ref());
                }
            }
        }
    }
    terms
}

/// Returns one of `owners` whose domain the machine may be in.
fn owner_near<'a>(
    world: &World<'_>,
    place: &Place<'_>,
    key: &LabelKey,
    owners: &BTreeMap<LabelValue, &'a Pod>,
) -> Option<&'a Pod> {
    match place {
        Place::Node(node) => owners.get(&value_of(node, key, world.registry())?).copied(),
        // A new machine has a new host name; any other domain it may still land in counts.
        Place::Launch(launch) => {
            let requirement = launch.requirements.get(world.registry().normalize_key(key).as_str())?;
            let near = owners.iter().find(|(value, _)| requirement.allows(value.as_str()));
            near.map(|(_, owner)| *owner)
        }
    }
}
