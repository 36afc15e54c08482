//! The rules of one pod about others, turned into groups once and used by each of its levels.

use karpenter_model::names::label;
use karpenter_model::{
    AffinityTerm, LabelRegistry, Namespace, Pod, Snapshot, SpreadConstraint, WhenUnsatisfiable,
};

use super::Topology;
use super::filter::Filter;
use super::group::{GroupKey, Kind, PodSelector, Whom};
use crate::index::{GroupIx, IdentityIx};
use crate::place::scope::Scope;
use crate::volumes::SharedClaim;

/// The rules of one pod and the groups they are.
#[derive(Debug)]
pub(crate) struct PodRules<'p> {
    pod: &'p Pod,
    snapshot: &'p Snapshot,
    /// Number of the pod's identity.
    pub(super) identity: IdentityIx,
    /// Groups that its hard anti-affinity makes for others.
    pub(super) inverse: Vec<GroupIx>,
    /// Groups of its required affinity, one for each topology key: all of them select the same pods.
    pub(super) required_affinity: Vec<GroupIx>,
    /// Groups of the claims it shares with others whose volumes will be in one zone.
    pub(super) one_zone: Vec<GroupIx>,
    spread: Vec<(&'p SpreadConstraint, Option<GroupIx>)>,
    terms: Vec<(&'p AffinityTerm, Kind, GroupIx)>,
}

impl<'p> PodRules<'p> {
    /// The rules of `pod`, which is known by `identity` and shares the claims `one_zone`.
    pub(super) fn new(
        (pod, one_zone): (&'p Pod, &[SharedClaim]),
        identity: IdentityIx,
        snapshot: &'p Snapshot,
        topology: &mut Topology,
    ) -> Self {
        let (inverse, required_affinity, spread, terms) = Default::default();
        let zone = |claim: &SharedClaim| {
            let (kind, topology_key) = (Kind::Affinity, label::ZONE.into());
            topology.group(GroupKey { kind, topology_key, whom: Whom::Sharing(claim.clone()) })
        };
        let one_zone = one_zone.iter().map(zone).collect();
        let mut pod_rules =
            Self { pod, snapshot, identity, inverse, required_affinity, one_zone, spread, terms };
        let required = pod.pod_anti_affinity.required.iter();
        pod_rules.inverse = required.map(|rule| pod_rules.term(rule, &Kind::Inverse, topology)).collect();
        for key in required_affinity_keys(pod, snapshot) {
            let group = topology.group(key);
            pod_rules.required_affinity.push(group);
        }
        for group in pod_rules.required_affinity.iter().chain(&pod_rules.one_zone) {
            topology.seekers.entry(*group).or_default();
        }
        pod_rules
    }

    /// The group of `spread`, which is a constraint of the pod.
    pub(super) fn spread(
        &mut self,
        spread: &'p SpreadConstraint,
        topology: &mut Topology,
    ) -> Option<GroupIx> {
        if let Some((_, known)) = self.spread.iter().find(|(known, _)| std::ptr::eq(*known, spread)) {
            return *known;
        }
        let group = spread_key(self.pod, spread, &self.snapshot.registry).map(|key| topology.group(key));
        self.spread.push((spread, group));
        group
    }

    /// The group of `term`, which is a term of the pod other than of required affinity, as a rule of `kind`.
    pub(super) fn term(&mut self, term: &'p AffinityTerm, kind: &Kind, topology: &mut Topology) -> GroupIx {
        let same =
            |(known, of, _): &&(&AffinityTerm, Kind, GroupIx)| std::ptr::eq(*known, term) && of == kind;
        if let Some((_, _, known)) = self.terms.iter().find(same) {
            return *known;
        }
        let key = term_key(term, kind.clone(), &self.pod.key.namespace, self.snapshot);
        let group = topology.group(key);
        self.terms.push((term, kind.clone(), group));
        group
    }
}

/// The group of one affinity term of a pod in namespace `own`.
pub(super) fn term_key(term: &AffinityTerm, kind: Kind, own: &Namespace, snapshot: &Snapshot) -> GroupKey {
    let whom = Whom::Selected(vec![pod_selector(term, own, snapshot)]);
    let topology_key = snapshot.registry.normalize_key(&term.topology_key);
    GroupKey { kind, topology_key, whom }
}

/// The groups of required affinity of `pod`, one for each topology key. As the scheduler has it, a pod counts only when all
/// terms select it, also under the keys of the others.
fn required_affinity_keys(pod: &Pod, snapshot: &Snapshot) -> Vec<GroupKey> {
    let terms = &pod.pod_affinity.required;
    let mut selectors: Vec<PodSelector> =
        terms.iter().map(|term| pod_selector(term, &pod.key.namespace, snapshot)).collect();
    selectors.sort_unstable();
    selectors.dedup();
    let mut keys: Vec<GroupKey> = Vec::new();
    for term in terms {
        let topology_key = snapshot.registry.normalize_key(&term.topology_key);
        if keys.iter().all(|known| known.topology_key != topology_key) {
            let whom = Whom::Selected(selectors.clone());
            keys.push(GroupKey { kind: Kind::Affinity, topology_key, whom });
        }
    }
    keys
}

/// The pods that `term` of a pod in namespace `own` is about.
fn pod_selector(term: &AffinityTerm, own: &Namespace, snapshot: &Snapshot) -> PodSelector {
    PodSelector { scope: Scope::of(term, own, snapshot), labels: term.selector.clone() }
}

/// The group of a spread constraint; without a selector it counts nothing and so requires nothing.
fn spread_key(pod: &Pod, spread: &SpreadConstraint, registry: &LabelRegistry) -> Option<GroupKey> {
    let mut selector = spread.selector.clone()?;
    for key in &spread.match_label_keys {
        // A key that the pod does not have is ignored (spec scheduling 18.2).
        if let Some(value) = pod.labels.get(key) {
            selector.require(key, value);
        }
    }
    let kind = Kind::Spread {
        max_skew: spread.max_skew,
        min_domains: spread
            .min_domains
            // The API defines `minDomains` for `DoNotSchedule` only.
            .filter(|_| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule),
        filter: Filter::new(pod, spread, registry),
    };
    let selector = PodSelector { scope: Scope::only(&pod.key.namespace), labels: Some(selector) };
    let whom = Whom::Selected(vec![selector]);
    let topology_key = registry.normalize_key(&spread.topology_key);
    Some(GroupKey { kind, topology_key, whom })
}
