//! Help for a pod that stays pending: what keeps it off a pool in one sentence, and changes that give it a place.
//!
//! A change of the pod or of a pool is advised only after the engine has placed the pod with it. Changes that need another
//! object, such as a volume claim or a node class, cannot be tried and are advised by the reason.

mod amount;
mod change;
mod conflict;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::names::annotation;
use karpenter_model::report::ReasonCode;
use karpenter_model::{
    Pod, PodKey, PodOutcome, PodTemplate, Pool, PoolName, Requirements, Snapshot, Tie, Volume, VolumeClaim,
};

use change::Change;
use conflict::{Conflict, conflict};

/// Pods of that many workloads are helped by trying; a plan is made for each try.
const WORKLOADS: usize = 20;
/// Pools for which that is done, those that come closest to taking the pod.
const POOLS: usize = 3;
/// Changes that follow from each other until the pod has a place.
const STEPS: usize = 4;

/// Help for the pods of one snapshot.
pub(crate) struct Helper<'a> {
    snapshot: &'a Snapshot,
    /// Answers for pods that ask for the same and are refused for the same.
    given: Vec<(Arc<PodTemplate>, Vec<Refusal>, Help)>,
}

/// A reason of a pod that stays pending, and its pool.
pub(crate) type Refusal = (ReasonCode, Option<PoolName>);

/// Help for one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Help {
    /// The conflict behind each reason, where it is known.
    pub(crate) conflicts: Vec<Option<String>>,
    /// Advice, most promising first.
    pub(crate) advice: Vec<String>,
}

impl<'a> Helper<'a> {
    /// Help for pods that `snapshot` has no place for.
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, given: Vec::new() }
    }

    /// Returns help for `pod`, which stays pending for these reasons, that of the closest pool first.
    pub(crate) fn help(&mut self, pod: &Pod, reasons: &[Refusal]) -> Help {
        let known = self.given.iter().find(|(template, known, _)| {
            (Arc::ptr_eq(template, &pod.template) || *template == pod.template) && known == reasons
        });
        if let Some((.., help)) = known {
            return help.clone();
        }
        if self.given.len() == WORKLOADS {
            let advice = reasons.iter().filter_map(|refusal| untried(self.snapshot, pod, refusal));
            return Help { conflicts: Vec::new(), advice: once(advice) };
        }
        let help = self.found(pod, reasons);
        self.given.push((Arc::clone(&pod.template), reasons.to_vec(), help.clone()));
        help
    }

    fn found(&self, pod: &Pod, reasons: &[Refusal]) -> Help {
        let alike = self.snapshot.pending.iter().filter(|one| one.template == pod.template);
        let alike: BTreeSet<PodKey> = alike.map(|one| one.key.clone()).collect();
        let (mut conflicts, mut advice) = (Vec::new(), Vec::new());
        for refusal in reasons.iter().take(POOLS) {
            let (code, pool) = refusal;
            let known = pool.as_ref().and_then(|name| pool_of(self.snapshot, name));
            let found = known.and_then(|pool| conflict(self.snapshot, pod, pool, *code));
            let (Some(pool), Some(Conflict { text, alternatives })) = (known, found) else {
                conflicts.push(None);
                advice.extend(untried(self.snapshot, pod, refusal));
                continue;
            };
            conflicts.push(text);
            let tried = |first| self.tried(&pod.key, &alike, &pool.name, first);
            advice.extend(alternatives.into_iter().filter_map(tried).map(|changes| worded(&changes)));
        }
        Help { conflicts, advice: once(advice.into_iter()) }
    }

    /// Returns the changes that give `pod` a place, beginning with `first`; `None` when they do not.
    fn tried(
        &self,
        pod: &PodKey,
        alike: &BTreeSet<PodKey>,
        pool: &PoolName,
        first: Vec<Change>,
    ) -> Option<Vec<Change>> {
        let mut snapshot = self.snapshot.clone();
        // Limits are used up by other pods; all other conflicts are between this pod and the pool.
        if !first.iter().any(|change| matches!(change, Change::Unlimited(_))) {
            snapshot.pending.retain(|one| one.key == *pod);
        }
        let (mut made, mut next) = (Vec::new(), first);
        for _ in 0..STEPS {
            for change in &next {
                change.apply(&mut snapshot, alike);
            }
            made.append(&mut next);
            let (_, report) = karpenter_engine::plan(&snapshot);
            let refusals = match report.pods.get(pod)? {
                placed if placed.is_placed() => return Some(made),
                PodOutcome::Unschedulable(refusals) => refusals,
                _ => return None,
            };
            let code = refusals.iter().find(|refusal| refusal.pool.as_ref() == Some(pool))?.reason.code;
            let changed = snapshot.pending.iter().find(|one| one.key == *pod)?;
            let more = conflict(&snapshot, changed, pool_of(&snapshot, pool)?, code)?;
            next = more.alternatives.into_iter().find(|changes| changes.iter().all(Change::keeps_wishes))?;
            if next.iter().any(|change| made.contains(change)) {
                return None;
            }
        }
        None
    }
}

fn pool_of<'s>(snapshot: &'s Snapshot, name: &PoolName) -> Option<&'s Pool> {
    snapshot.pools.iter().map(|pool| &**pool).find(|pool| pool.name == *name)
}

fn worded(changes: &[Change]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", and ")
}

fn once(advice: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    advice.filter(|text| seen.insert(text.clone())).collect()
}

/// Returns why the pool of this name launches nothing, whatever pods ask for; `None` where the reason itself is all there is to
/// say.
pub(crate) fn pool_conflict(snapshot: &Snapshot, pool: &Pool, code: ReasonCode) -> Option<String> {
    if code == ReasonCode::NoCompatibleInstanceTypes { conflict::of_pool(snapshot, pool) } else { None }
}

/// Advice for a reason that no change of pod or pool can be tried against. A reason that nothing can be done about from
/// outside has none; the text of the reason says what is in the way.
fn untried(snapshot: &Snapshot, pod: &Pod, (code, pool): &Refusal) -> Option<String> {
    let pool = pool.as_ref().map_or_else(|| "a pool".to_owned(), |pool| format!("pool `{pool}`"));
    let text = match code {
        ReasonCode::OptedOut => {
            "remove what the pod opts out with, or place it by another autoscaler".to_owned()
        }
        ReasonCode::InvalidRequirement => "correct the node selector or affinity of the pod".to_owned(),
        ReasonCode::MatchFields => "replace matchFields of the pod by matchExpressions".to_owned(),
        ReasonCode::InvalidVolume if is_usable(snapshot, pod) => {
            "let the other pod end, or give each pod a claim of its own".to_owned()
        }
        ReasonCode::InvalidVolume => {
            "let the claim exist with its class and volume, and be bound or wait for its pod (WaitForFirstConsumer)"
                .to_owned()
        }
        ReasonCode::ResourceClaims => {
            "set ignore-dra-requests to false if devices are to be planned for".to_owned()
        }
        ReasonCode::InvalidClaim => "create the resource claim, or correct what it asks for".to_owned(),
        ReasonCode::NoPools if snapshot.pools.iter().any(|pool| pool.replicas.is_some()) => {
            "add a NodePool without `spec.replicas`: one with a fixed number of nodes launches none for pods".to_owned()
        }
        ReasonCode::NoPools => {
            "add a NodePool whose EC2NodeClass is ready; notes say why those there are not".to_owned()
        }
        ReasonCode::PoolNotReady => format!("make {pool} ready; its conditions say what is missing"),
        ReasonCode::NoInstanceTypes => {
            format!("correct the node class of {pool}; its conditions say what is missing")
        }
        ReasonCode::VolumeTopology => of_volumes(snapshot, pod, &pool),
        ReasonCode::HostPort => "let the pod use another host port, or none".to_owned(),
        ReasonCode::MinValues => format!(
            "lower minValues of {pool}, widen its requirements, or set min-values-policy to BestEffort"
        ),
        ReasonCode::Devices => format!("allow instance types with the devices in {pool}"),
        ReasonCode::Topology => {
            "relax the spread constraint or affinity, or allow more zones and hosts".to_owned()
        }
        ReasonCode::Reservation => {
            "wait for a reservation to become free, or allow on-demand or spot".to_owned()
        }
        _ => return None,
    };
    Some(text)
}

/// Returns whether nothing is wrong with the claims of the pod themselves.
fn is_usable(snapshot: &Snapshot, pod: &Pod) -> bool {
    pod.volumes.iter().all(|claim| {
        let known = snapshot.volumes.get(&(pod.key.namespace.clone(), claim.name.clone()));
        known.is_some_and(|volume| volume.problem.is_none())
    })
}

/// Advice for volumes that cannot be attached to a node of `pool`.
fn of_volumes(snapshot: &Snapshot, pod: &Pod, pool: &str) -> String {
    let key = |claim: &VolumeClaim| (pod.key.namespace.clone(), claim.name.clone());
    let volumes: Vec<&Volume> =
        pod.volumes.iter().filter_map(|claim| snapshot.volumes.get(&key(claim))).map(|one| &**one).collect();
    if volumes.iter().any(|volume| matches!(volume.tie, Tie::Node(_))) {
        return format!(
            "remove the annotation `{}` from the claim: its volume is then provisioned where the pod goes",
            annotation::SELECTED_NODE
        );
    }
    let places = |volume: &&Volume| -> Vec<Requirements> {
        let read = |terms: &Vec<_>| Requirements::from_expressions(&snapshot.registry, terms);
        volume.alternatives.iter().map(read).collect()
    };
    let mut common = vec![Requirements::new()];
    for own in volumes.iter().map(places).filter(|own| !own.is_empty()) {
        let both = |one: &Requirements| own.iter().filter_map(|own| meet(one, own)).collect::<Vec<_>>();
        common = common.iter().flat_map(both).collect();
    }
    if common.is_empty() {
        "let the pod use volumes that are in one place".to_owned()
    } else {
        format!("let {pool} launch in the zone of the volumes")
    }
}

/// Returns the requirements of both; `None` where they exclude each other.
fn meet(one: &Requirements, other: &Requirements) -> Option<Requirements> {
    one.intersects(other).ok()?;
    let mut both = one.clone();
    both.add_all(other);
    Some(both)
}

#[cfg(test)]
mod tests;
