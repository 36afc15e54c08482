//! Rest of a plan without anything that its findings are about.
//!
//! One odd pod must not stop the launches for all other pods. So launches and nominations that a finding
//! names are left out, and with them those of pods that share a rule about other pods with a pod of theirs,
//! because such pods were placed with each other in mind. What remains is audited again; what then breaks a
//! rule, for lack of what has been left out, goes too.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{
    AffinityTerm, BinId, GrantPlace, Labels, Launch, Namespace, Plan, Pod, PodKey, ResourceClaimKey,
    ResourceClaimName, Snapshot, SpreadConstraint, WhenUnsatisfiable,
};

use crate::finding::{Finding, Subject};
use crate::places::{matches, selects};
use crate::world::World;
use crate::{audit_in, default_spread};

/// Largest number of rounds that leave something out, before nothing is applied at all: each round audits what remains.
const MOST_ROUNDS: usize = 8;

/// A plan that broke rules, without what broke them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundPart {
    /// Plan that may be applied; it has no findings.
    pub plan: Plan,
    /// Findings about the plan as it was made.
    pub findings: Vec<Finding>,
    /// The pods those findings are about, with the first finding about each. A finding about the plan as a whole is
    /// about no pod.
    pub refused: BTreeMap<PodKey, String>,
}

/// The part of `plan` that breaks no rule; nothing when that is the whole of it. Commands are not taken apart: a plan
/// with a finding about one is refused altogether.
pub fn sound_part(snapshot: &Snapshot, plan: &Plan) -> Option<SoundPart> {
    let given = default_spread::given(snapshot, plan);
    let world = World::new(&given);
    let findings = audit_in(&world, plan);
    if findings.is_empty() {
        return None;
    }
    let named = findings.iter().map(|finding| Named::of(finding, &world, plan));
    let refused: BTreeMap<PodKey, String> = match named.collect::<Option<Vec<_>>>() {
        // The first finding about a pod is the last one written.
        Some(named) => named.iter().zip(&findings).rev().flat_map(pods_with_finding).collect(),
        None => BTreeMap::new(),
    };
    let plan = without_unsound(&world, plan, &findings);
    let plan = plan.unwrap_or_else(|| Plan { revision: snapshot.revision, ..Plan::default() });
    Some(SoundPart { plan, findings, refused })
}

fn pods_with_finding((named, finding): (&Named, &Finding)) -> Vec<(PodKey, String)> {
    named.pods.iter().map(|pod| (pod.clone(), finding.to_string())).collect()
}

/// `plan` without what `findings` are about, and without what is unsound then; nothing when there is no end to it.
fn without_unsound(world: &World<'_>, plan: &Plan, findings: &[Finding]) -> Option<Plan> {
    let mut plan = plan.clone();
    let mut findings = findings.to_vec();
    for _ in 0..MOST_ROUNDS {
        let mut out = Named::default();
        for finding in &findings {
            out.add(Named::of(finding, world, &plan)?);
        }
        if out.pods.is_empty() && out.bins.is_empty() {
            return None;
        }
        out.add_related(world, &plan);
        out.leave(&mut plan, world);
        findings = audit_in(world, &plan);
        if findings.is_empty() {
            return Some(plan);
        }
    }
    None
}

/// Parts of a plan.
#[derive(Debug, Clone, Default)]
struct Named {
    bins: BTreeSet<BinId>,
    /// Pods in them, and pods with other places.
    pods: BTreeSet<PodKey>,
}

impl Named {
    /// Returns the parts that `finding` is about; `None` when that is the whole plan.
    fn of(finding: &Finding, world: &World<'_>, plan: &Plan) -> Option<Self> {
        let launches = |is_meant: &dyn Fn(&Launch) -> bool| {
            let meant = || plan.launches.iter().filter(|launch| is_meant(launch));
            Self {
                bins: meant().map(|launch| launch.bin).collect(),
                pods: meant().flat_map(|launch| launch.pods.iter().cloned()).collect(),
            }
        };
        let pods = |pods: BTreeSet<PodKey>| Self { bins: BTreeSet::new(), pods };
        Some(match &finding.subject {
            Subject::Plan | Subject::Command(_) => return None,
            Subject::Pod(pod) => pods([pod.clone()].into()),
            Subject::Bin(bin) => launches(&|launch| launch.bin == *bin),
            Subject::Pool(pool) => launches(&|launch| launch.pool == *pool),
            Subject::Target(target) => {
                let sent = plan.nominations.iter().filter(|nomination| nomination.target == *target);
                pods(sent.map(|nomination| nomination.pod.clone()).collect())
            }
            Subject::Reservation(id) => {
                let key = world.registry().reservation_id.as_ref()?;
                let may_be = |launch: &Launch| {
                    launch.requirements.get(key.as_str()).is_some_and(|ids| ids.allows(id.as_str()))
                };
                launches(&may_be)
            }
            Subject::Claims { claims, .. } => {
                let uses = |pod: &&Pod| {
                    let mut own = claims.iter().filter(|claim| claim.namespace == pod.key.namespace);
                    let to_make = pod.claims_to_make(&world.snapshot.devices);
                    own.any(|claim| pod.resource_claims.contains(&claim.name))
                        || to_make.iter().any(|one| claims.contains(&one.key))
                };
                pods(placed(world, plan).filter(uses).map(|pod| pod.key.clone()).collect())
            }
        })
    }

    fn add(&mut self, other: Self) {
        self.bins.extend(other.bins);
        self.pods.extend(other.pods);
    }

    /// Adds the pods of `plan` that share a rule about other pods with one of these.
    fn add_related(&mut self, world: &World<'_>, plan: &Plan) {
        // Thousands of pods, few kinds of them.
        let mut kinds: BTreeMap<Kind<'_>, Vec<&Pod>> = BTreeMap::new();
        for pod in placed(world, plan) {
            kinds.entry(Kind::of(pod)).or_default().push(pod);
        }
        let is_out = |pod: &&Pod| self.pods.contains(&pod.key);
        let out: Vec<&Pod> = kinds.values().filter_map(|pods| pods.iter().copied().find(is_out)).collect();
        let related =
            |pods: &&Vec<&Pod>| out.iter().any(|one| pods.first().is_some_and(|pod| shares(world, one, pod)));
        let found: Vec<PodKey> =
            kinds.values().filter(related).flatten().map(|pod| pod.key.clone()).collect();
        self.pods.extend(found);
    }

    /// Leaves all of this out of `plan`. A launch goes as a whole: it was made for all of its pods.
    fn leave(&self, plan: &mut Plan, world: &World<'_>) {
        plan.launches.retain(|launch| {
            !self.bins.contains(&launch.bin) && !launch.pods.iter().any(|pod| self.pods.contains(pod))
        });
        plan.nominations.retain(|nomination| !self.pods.contains(&nomination.pod));
        let bins: BTreeSet<BinId> = plan.launches.iter().map(|launch| launch.bin).collect();
        let sent = plan.nominations.iter().filter_map(|nomination| world.pod(&nomination.pod));
        let claims_of = |pod: &Pod| {
            let key = |name: &ResourceClaimName| {
                let (namespace, name) = (pod.key.namespace.clone(), name.clone());
                ResourceClaimKey { namespace, name }
            };
            let to_make = pod.claims_to_make(&world.snapshot.devices).into_iter().map(|claim| claim.key);
            pod.resource_claims.iter().map(key).chain(to_make).collect::<Vec<_>>()
        };
        let used: BTreeSet<ResourceClaimKey> = sent.flat_map(claims_of).collect();
        plan.grants.retain(|grant| match &grant.place {
            GrantPlace::Launch(bin, _) => bins.contains(bin),
            GrantPlace::Machine(_) => used.contains(&grant.claim),
        });
    }
}

/// The pods `plan` places.
fn placed<'p>(world: &'p World<'_>, plan: &'p Plan) -> impl Iterator<Item = &'p Pod> {
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let sent = plan.nominations.iter().map(|nomination| &nomination.pod);
    launched.chain(sent).filter_map(|key| world.pod(key))
}

/// Properties that decide with which pods a pod shares rules.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'p> {
    namespace: &'p Namespace,
    labels: &'p Labels,
    spread: &'p [SpreadConstraint],
    affinity: &'p [AffinityTerm],
    anti_affinity: &'p [AffinityTerm],
}

impl<'p> Kind<'p> {
    fn of(pod: &'p Pod) -> Self {
        Self {
            namespace: &pod.key.namespace,
            labels: &pod.labels,
            spread: &pod.spread,
            affinity: &pod.pod_affinity.required,
            anti_affinity: &pod.pod_anti_affinity.required,
        }
    }
}

/// Returns whether a hard rule of one of two pods is about the other, or both have the same one.
fn shares(world: &World<'_>, one: &Pod, other: &Pod) -> bool {
    let hard = |spread: &&SpreadConstraint| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    let about = |owner: &Pod, pod: &Pod| {
        let terms = owner.pod_affinity.required.iter().chain(&owner.pod_anti_affinity.required);
        let mut spreads = owner.spread.iter().filter(hard);
        let same_namespace = owner.key.namespace == pod.key.namespace;
        same_namespace && spreads.any(|spread| matches(spread.selector.as_ref(), pod))
            || terms.into_iter().any(|term| selects(world, term, &owner.key.namespace, pod))
    };
    let same_namespace = one.key.namespace == other.key.namespace;
    let same = one.spread.iter().filter(hard).any(|spread| other.spread.contains(spread));
    about(one, other) || about(other, one) || same_namespace && same
}
