//! Hard topology spread constraints of the pods the plan places (spec core-scheduling 18.4).
//!
//! The order of placement is not known here, so only what must hold in the end is checked: where all new pods
//! a constraint counts carry that very constraint, no domain that got one is above the emptiest by more than
//! `maxSkew`.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::affinity::NodeInclusion;
use karpenter_model::{LabelValue, Pod, Requirements, SpreadConstraint, Undefined, WhenUnsatisfiable, label};

use crate::finding::{Finding, Rule};
use crate::places::{Place, Placed, Places, matches};
use crate::world::{World, hard_taint, satisfies, stated};

pub(crate) fn check(world: &World<'_>, places: &Places<'_>, findings: &mut Vec<Finding>) {
    for one in places.new_ones() {
        for spread in &one.pod.spread {
            let hard = spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
            if hard && spread.selector.is_some() && decidable(places, one.pod, spread) {
                findings.extend(skewed(world, places, one, spread));
            }
        }
    }
}

/// Whether every new pod the constraint counts carries it, with the same idea of which machines count.
fn decidable(places: &Places<'_>, pod: &Pod, spread: &SpreadConstraint) -> bool {
    let same = |other: &Pod| {
        other.spread.contains(spread)
            && other.node_selector == pod.node_selector
            && other.required_terms == pod.required_terms
            && other.tolerations == pod.tolerations
            && other.labels == pod.labels
    };
    let mut counted = places.new_ones().filter(|other| counts(pod, spread, other.pod));
    pod.required_terms.len() <= 1 && counted.all(|other| same(other.pod))
}

/// Whether `other` counts for the constraint of `pod`.
fn counts(pod: &Pod, spread: &SpreadConstraint, other: &Pod) -> bool {
    let revision = |key: &karpenter_model::LabelKey| {
        pod.labels.get(key).is_none_or(|value| other.labels.get(key) == Some(value))
    };
    other.key.namespace == pod.key.namespace
        && matches(spread.selector.as_ref(), other)
        && spread.match_label_keys.iter().all(revision)
}

fn skewed(
    world: &World<'_>,
    places: &Places<'_>,
    one: &Placed<'_>,
    spread: &SpreadConstraint,
) -> Option<Finding> {
    let pod = one.pod;
    let key = &spread.topology_key;
    let find = |detail: String| Some(Finding::new(Rule::Spread, &pod.key, detail));
    let own = one.place.domains(key).filter(|domains| domains.len() == 1);
    let Some(own) = own.and_then(|domains| domains.into_iter().next()) else {
        return find(format!("is not committed to one `{key}`"));
    };
    let mut count: BTreeMap<LabelValue, u32> =
        eligible(world, pod, spread).into_iter().map(|domain| (domain, 0)).collect();
    for other in places.all.iter().filter(|other| counts(pod, spread, other.pod)) {
        if let (true, Some(domains)) = (included(world, pod, spread, &other.place), other.place.domains(key))
        {
            for domain in domains {
                *count.entry(domain).or_default() += 1;
            }
        }
    }
    let strict: Requirements = stated(pod, world.registry()).swap_remove(0).into_iter().collect();
    let allowed = strict.value_of(key);
    let usable: Vec<u32> =
        count.iter().filter(|(domain, _)| allowed.allows(domain.as_str())).map(|(_, count)| *count).collect();
    let few =
        spread.min_domains.is_some_and(|wanted| usable.len() < usize::try_from(wanted).unwrap_or(usize::MAX));
    let least = if *key == label::HOSTNAME || few { 0 } else { usable.into_iter().min().unwrap_or(0) };
    let most = count.get(&own).copied().unwrap_or(0);
    if most > least + spread.max_skew {
        return find(format!("`{own}` would have {most} pods, the emptiest domain {least}"));
    }
    None
}

/// Domains a new machine could be in for this pod's sake, and those of machines that count.
fn eligible(world: &World<'_>, pod: &Pod, spread: &SpreadConstraint) -> BTreeSet<LabelValue> {
    let key = spread.topology_key.as_str();
    let mut domains = BTreeSet::new();
    if key == label::HOSTNAME {
        return domains;
    }
    let open =
        world.snapshot.pools.iter().filter(|pool| pool.ready && !pool.deleting && pool.replicas.is_none());
    for pool in open {
        if spread.node_taints_policy == NodeInclusion::Honor
            && hard_taint(&pool.template.taints, pod).is_some()
        {
            continue;
        }
        let template = world.template_of(pool);
        let Some(types) = world.snapshot.instance_types.get(&pool.name) else { continue };
        let open = types.iter().any(|candidate| {
            template.intersects(&candidate.requirements).is_ok()
                && candidate.cheapest(&template, world.registry()).is_some()
        });
        // A pool with minValues may be out for want of types; give the plan the benefit of the doubt.
        if !open || template.has_min_values() {
            continue;
        }
        let own = template.value_of(&spread.topology_key);
        domains.extend(own.concrete().into_iter().flatten().cloned());
        let offered = types.iter().filter_map(|candidate| candidate.requirements.get(key)?.concrete());
        domains.extend(offered.flatten().filter(|value| own.allows(value.as_str())).cloned());
    }
    for node in world.snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
        let place = Place::Node(node);
        if included(world, pod, spread, &place) {
            domains.extend(place.domains(&spread.topology_key).into_iter().flatten());
        }
    }
    domains
}

/// Whether pods on a machine count, by the inclusion policies of the constraint.
fn included(world: &World<'_>, pod: &Pod, spread: &SpreadConstraint, place: &Place<'_>) -> bool {
    let registry = world.registry();
    let affinity = spread.node_affinity_policy == NodeInclusion::Ignore
        || stated(pod, registry).into_iter().any(|wanted| match place {
            Place::Node(node) => satisfies(node, &wanted, registry),
            Place::Launch(launch) => {
                let wanted: Requirements = wanted.into_iter().collect();
                launch.requirements.compatible(&wanted, Undefined::Nothing).is_ok()
            }
        });
    let taints = spread.node_taints_policy == NodeInclusion::Ignore
        || match place {
            Place::Node(node) => hard_taint(&node.effective_taints(), pod).is_none(),
            Place::Launch(launch) => hard_taint(&launch.taints, pod).is_none(),
        };
    affinity && taints
}
