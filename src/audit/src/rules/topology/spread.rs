//! Hard topology spread constraints of the pods the plan places (spec scheduling 18.4).
//!
//! The scheduler may bind the pods of a plan in any order, so what must hold is what holds in the end: no domain that got a
//! pod with the constraint is above the emptiest by more than `maxSkew`, whichever pods it counts. Of domains other than
//! hosts that is checked where all new pods a constraint counts carry that very constraint: which of the others count where
//! is not always certain.
//!
//! Domains are those the scheduler would count: of nodes, and of machines that could be launched for the pod. There will be
//! no node to count where no machine could be launched: without room beside the daemons, because of the volumes of the pod,
//! without an offering, a pool that the pod tolerates, or a type within the whole limits of the pool. Whether a pod with
//! other rules about pods, or a pod for a pool with limits, could have a machine of its own there is not worked out: then
//! domains without a machine are left out. A node counts if any of the required terms of the pod allows it, and always where
//! the constraint ignores node affinity: the scheduler does not check whether the pod could use its domain.
//!
//! Pods of one deployment ask the same, so the counts are taken once for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::pod::affinity::NodeInclusion;
use karpenter_model::resources;
use karpenter_model::{
    Expression, InstanceType, LabelKey, LabelValue, Labels, Namespace, NodeTerm, Pod, Pool, Quantity,
    Requirement, Requirements, Resources, SpreadConstraint, Toleration, Undefined, WhenUnsatisfiable,
};

use crate::finding::{Finding, Rule};
use crate::places::{Origin, Place, Placed, Places, matches, selects};
use crate::world::{World, hard_taint, satisfies, stated};

pub(crate) fn check(world: &World<'_>, places: &Places<'_>, findings: &mut Vec<Finding>) {
    let mut offers = BTreeMap::new();
    let mut known: BTreeMap<Question<'_>, Option<Tally>> = BTreeMap::new();
    for one in places.new_ones() {
        for spread in &one.pod.spread {
            if spread.when_unsatisfiable != WhenUnsatisfiable::DoNotSchedule || spread.selector.is_none() {
                continue;
            }
            let tally = known.entry(Question::of(world, one.pod, spread)).or_insert_with(|| {
                let registry = world.registry();
                let key = registry.normalize_key(&spread.topology_key);
                let offers = offers.entry(key.clone()).or_insert_with(|| offered(world, &key));
                let (stated, volumes) = (stated(one.pod, registry), volumes(world, one.pod));
                let asked = Asked { world, pod: one.pod, stated, volumes, spread, key };
                asked.is_decidable(places).then(|| asked.tally(places, offers))
            });
            if let Some(tally) = tally {
                findings.extend(skewed(world, one, spread, tally));
            }
        }
    }
}

/// Properties that decide about the counts of a constraint, whichever pod has it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Question<'p> {
    spread: &'p SpreadConstraint,
    namespace: &'p Namespace,
    labels: &'p Labels,
    node_selector: &'p Labels,
    required_terms: &'p [NodeTerm],
    tolerations: &'p [Toleration],
    requests: &'p Resources,
    volumes: Vec<&'p [Vec<Expression>]>,
}

impl<'p> Question<'p> {
    fn of(world: &'p World<'_>, pod: &'p Pod, spread: &'p SpreadConstraint) -> Self {
        Self {
            volumes: volumes(world, pod),
            spread,
            namespace: &pod.key.namespace,
            labels: &pod.labels,
            node_selector: &pod.node_selector,
            required_terms: &pod.required_terms,
            tolerations: &pod.tolerations,
            requests: &pod.requests,
        }
    }
}

/// Returns the alternatives of each volume of `pod` that cannot be attached everywhere: one of them must hold.
fn volumes<'w>(world: &'w World<'_>, pod: &Pod) -> Vec<&'w [Vec<Expression>]> {
    let known = pod.volumes.iter().filter_map(|claim| {
        let volume = world.snapshot.volumes.get(&(pod.key.namespace.clone(), claim.name.clone()))?;
        Some(volume.alternatives.as_slice()).filter(|alternatives| !alternatives.is_empty())
    });
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    known
}

/// Pods a constraint counts.
struct Tally {
    by_domain: BTreeMap<LabelValue, u32>,
    /// Number of pods in the emptiest domain that counts for certain, if there is one.
    least: Option<u32>,
}

/// Says whether `one` is in a domain that has too many.
fn skewed(world: &World<'_>, one: &Placed<'_>, spread: &SpreadConstraint, tally: &Tally) -> Option<Finding> {
    let (pod, key) = (one.pod, &spread.topology_key);
    let find = |detail: String| Some(Finding::new(Rule::Spread, &pod.key, detail));
    let own = one.place.domains(world.registry(), key).filter(|domains| domains.len() == 1);
    let Some(own) = own.and_then(|domains| domains.into_iter().next()) else {
        return find(format!("is not committed to one `{key}`"));
    };
    let most = tally.by_domain.get(&own).copied().unwrap_or(0);
    if let Some(least) = tally.least
        && most > least + spread.max_skew
    {
        return find(format!("`{own}` would have {most} pods, the emptiest domain {least}"));
    }
    None
}

/// A constraint of a pod, and what the pod states as hard requirements.
struct Asked<'w, 'a> {
    world: &'w World<'a>,
    pod: &'w Pod,
    stated: Vec<Vec<Requirement>>,
    volumes: Vec<&'w [Vec<Expression>]>,
    spread: &'w SpreadConstraint,
    /// The present name of its topology key.
    key: LabelKey,
}

impl Asked<'_, '_> {
    /// Returns whether it is certain what the constraint counts: it is about hosts, or every new pod it counts carries it,
    /// with the same policies on which machines count, and none comes with its machine.
    fn is_decidable(&self, places: &Places<'_>) -> bool {
        if self.key == label::HOSTNAME {
            return true;
        }
        let pod = self.pod;
        let same = |other: &Pod| {
            other.spread.contains(self.spread)
                && other.node_selector == pod.node_selector
                && other.required_terms == pod.required_terms
                && other.tolerations == pod.tolerations
                && other.labels == pod.labels
        };
        let mut counted = places.of_kind(|other| self.counts(other));
        counted.all(|other| match other.origin {
            Origin::Plan => same(other.pod),
            Origin::Stays => true,
            Origin::Daemon { .. } => false,
        })
    }

    /// Returns whether `other` counts.
    fn counts(&self, other: &Pod) -> bool {
        let (pod, spread) = (self.pod, self.spread);
        let revision =
            |key: &LabelKey| pod.labels.get(key).is_none_or(|value| other.labels.get(key) == Some(value));
        other.key.namespace == pod.key.namespace
            && matches(spread.selector.as_ref(), other)
            && spread.match_label_keys.iter().all(revision)
    }

    fn tally(&self, places: &Places<'_>, offers: &[Offer<'_>]) -> Tally {
        let (spread, key) = (self.spread, &self.key);
        let mut known = self.eligible(places, offers);
        let mut by_domain: BTreeMap<LabelValue, u32> =
            known.iter().map(|domain| (domain.clone(), 0)).collect();
        let mut by_machine: BTreeMap<usize, (&Place<'_>, u32)> = BTreeMap::new();
        for other in places.of_kind(|other| self.counts(other)) {
            by_machine.entry(other.machine).or_insert((&other.place, 0)).1 += 1;
        }
        for (place, pods) in by_machine.into_values() {
            if let (true, Some(domains)) = (self.includes(place), place.domains(self.world.registry(), key)) {
                for domain in domains {
                    // Pods on launches may have come last, to a domain that did not count for those before them.
                    if matches!(place, Place::Node(_)) || self.allows(&domain) {
                        known.insert(domain.clone());
                    }
                    *by_domain.entry(domain).or_default() += pods;
                }
            }
        }
        // Once it is there the scheduler counts it, whichever pods it was launched for.
        for place in places.launches.iter().map(Place::Launch).filter(|_| *key != label::HOSTNAME) {
            let certain = place.domains(self.world.registry(), key).filter(|domains| domains.len() == 1);
            let Some(domain) = certain.and_then(|domains| domains.into_iter().next()) else { continue };
            if self.includes(&place) {
                by_domain.entry(domain.clone()).or_default();
                known.insert(domain);
            }
        }
        let few = spread
            .min_domains
            .is_some_and(|wanted| by_domain.len() < usize::try_from(wanted).unwrap_or(usize::MAX));
        let pods = known.iter().filter_map(|domain| by_domain.get(domain).copied());
        let least = if *key == label::HOSTNAME || few { Some(0) } else { pods.min() };
        Tally { by_domain, least }
    }

    /// Domains a new machine could be in for this pod's sake, and those of machines that count.
    fn eligible(&self, places: &Places<'_>, offers: &[Offer<'_>]) -> BTreeSet<LabelValue> {
        let mut domains = BTreeSet::new();
        if self.key == label::HOSTNAME {
            return domains;
        }
        let free = self.has_no_other_rules(places);
        for domain in offers.iter().filter(|_| free).flat_map(|offer| &offer.domains) {
            if !domains.contains(domain) && self.is_in_reach(offers, domain) {
                domains.insert(domain.clone());
            }
        }
        for node in self.world.snapshot.nodes.iter().filter(|node| !node.is_leaving()) {
            let place = Place::Node(node);
            if self.includes(&place) {
                domains.extend(place.domains(self.world.registry(), &self.key).into_iter().flatten());
            }
        }
        domains
    }

    /// Returns whether nothing but the constraint ties the pod to others.
    fn has_no_other_rules(&self, places: &Places<'_>) -> bool {
        let pod = self.pod;
        let kept_out = |other: &Pod| {
            let terms = &other.pod_anti_affinity.required;
            terms.iter().any(|term| selects(self.world, term, &other.key.namespace, pod))
        };
        pod.spread.len() == 1
            && pod.pod_affinity.required.is_empty()
            && pod.pod_anti_affinity.required.is_empty()
            && pod.resource_claims.is_empty()
            && places.of_kind(kept_out).next().is_none()
    }

    /// Returns whether a machine the constraint counts could be launched in `domain` for this pod's sake.
    fn is_in_reach(&self, offers: &[Offer<'_>], domain: &LabelValue) -> bool {
        let tolerated = |offer: &&Offer<'_>| {
            offer.pool.limits.is_none() && hard_taint(&offer.pool.template.taints, self.pod).is_none()
        };
        let offered = |wanted: &[Requirement]| {
            let mut offers = offers.iter().filter(|offer| offer.domains.contains(domain)).filter(tolerated);
            offers.any(|offer| self.could_get(offer, domain, wanted))
        };
        // A domain where the pod cannot go gets no machine for its sake, even if the constraint would count it.
        let goes = self.spread.node_affinity_policy == NodeInclusion::Honor || self.allows(domain);
        goes && self.can_attach(domain) && self.stated.iter().any(|wanted| offered(wanted))
    }

    /// Returns whether each volume of the pod can be attached in `domain`.
    fn can_attach(&self, domain: &LabelValue) -> bool {
        let registry = self.world.registry();
        let there = |expression: &Expression| {
            let asked = Requirement::new(registry, expression);
            *asked.key() != self.key || asked.allows(domain.as_str())
        };
        self.volumes.iter().all(|alternatives| alternatives.iter().any(|one| one.iter().all(there)))
    }

    /// Returns whether the pod may be in `domain` whichever of its terms applies, which is not known here.
    fn allows(&self, domain: &LabelValue) -> bool {
        self.stated.iter().flatten().all(|one| *one.key() != self.key || one.allows(domain.as_str()))
    }

    /// Returns whether a machine as `wanted`, with room for the pod, could be launched in `domain`.
    fn could_get(&self, offer: &Offer<'_>, domain: &LabelValue, wanted: &[Requirement]) -> bool {
        let registry = self.world.registry();
        let mut claim = offer.template.clone();
        let domain = Requirement::one_of(self.key.clone(), [domain.clone()]);
        let agrees = wanted.iter().chain([&domain]).all(|one| {
            let one: Requirements = [one.clone()].into_iter().collect();
            let agrees = claim.compatible(&one, Undefined::WellKnown(registry)).is_ok();
            claim.add_all(&one);
            agrees
        });
        let holds = |(known, daemons): &(&InstanceType, Resources)| {
            let mut offerings = known.compatible_offerings(&claim, registry);
            let requests = self.pod.requests.merge(daemons);
            claim.intersects(&known.requirements).is_ok()
                && offerings.any(|one| requests.fits(&known.allocatable_through(one)))
        };
        agrees && offer.types.iter().any(holds)
    }

    /// Returns whether pods on a machine count, by the inclusion policies of the constraint.
    fn includes(&self, place: &Place<'_>) -> bool {
        let (registry, spread) = (self.world.registry(), self.spread);
        let affinity = spread.node_affinity_policy == NodeInclusion::Ignore
            || self.stated.iter().any(|wanted| match place {
                Place::Node(node) => satisfies(node, wanted, registry),
                Place::Launch(launch) => {
                    let wanted: Requirements = wanted.iter().cloned().collect();
                    launch.requirements.compatible(&wanted, Undefined::Nothing).is_ok()
                }
            });
        let taints = spread.node_taints_policy == NodeInclusion::Ignore
            || match place {
                Place::Node(node) => hard_taint(&node.effective_taints(), self.pod).is_none(),
                Place::Launch(launch) => hard_taint(&launch.taints, self.pod).is_none(),
            };
        affinity && taints
    }
}

/// A pool that could launch a machine.
struct Offer<'a> {
    pool: &'a Pool,
    /// Requirements that its claims start with.
    template: Requirements,
    /// Types it could launch if it had no nodes, with what daemons request there.
    types: Vec<(&'a InstanceType, Resources)>,
    /// Domains its machines could be in, some pod or other aside.
    domains: BTreeSet<LabelValue>,
}

/// The domains of `key` each pool could launch a machine in.
fn offered<'a>(world: &World<'a>, key: &LabelKey) -> Vec<Offer<'a>> {
    let mut offers = Vec::new();
    let open =
        world.snapshot.pools.iter().filter(|pool| pool.ready && !pool.deleting && pool.replicas.is_none());
    for pool in open {
        let template = world.template_of(pool);
        let Some(types) = world.snapshot.instance_types.get(&pool.name) else { continue };
        let open = types.iter().any(|candidate| {
            template.intersects(&candidate.requirements).is_ok()
                && candidate.cheapest(&template, world.registry()).is_some()
        });
        // A pool with minValues may be out for lack of types; give the plan the benefit of the doubt.
        if !open || template.has_min_values() {
            continue;
        }
        let own = template.value_of(key);
        let named = own.concrete().into_iter().flatten();
        let offered = types.iter().filter_map(|known| known.requirements.get(key.as_str())?.concrete());
        let offered = offered.flatten().filter(|value| own.allows(value.as_str()));
        let domains = named.chain(offered).cloned().collect();
        let allowed = types.iter().filter(|known| is_within_limits(pool, known));
        let with_daemons = |known: &Arc<InstanceType>| world.catalogue(&pool.name)?.with_daemons(&known.name);
        let types =
            allowed.filter_map(with_daemons).map(|(known, daemons)| (known, daemons.requests.clone()));
        let types = types.collect();
        offers.push(Offer { pool, template, types, domains });
    }
    offers
}

/// Returns whether `pool` could launch one machine of type `known` if it had no others.
fn is_within_limits(pool: &Pool, known: &InstanceType) -> bool {
    let one = known.capacity.clone().with(resources::NODES, Quantity::ONE);
    pool.limits.iter().flat_map(Resources::iter).all(|(name, limit)| one.amount(name.as_str()) <= *limit)
}
