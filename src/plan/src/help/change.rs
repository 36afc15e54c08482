//! Changes of a pod or of a pool that may give the pod a place: in words, and carried out on a snapshot.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use karpenter_model::resources::EPHEMERAL_STORAGE;
use karpenter_model::{
    InstanceType, LabelKey, LabelValue, Pod, PodKey, Pool, PoolName, Quantity, Requirement, Resources,
    Snapshot, Taint, Toleration, TolerationOperator,
};

use super::amount::{Amount, Number};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The pod tolerates the taint of a pool.
    Tolerate(Taint),
    /// The pool allows these values of a label besides what it allows already.
    Allow(PoolName, LabelKey, BTreeSet<LabelValue>),
    /// The template of the pool sets a label.
    Label(PoolName, LabelKey, LabelValue),
    /// The pod asks for no more than these amounts.
    AskFor(Resources),
    /// The pod asks for one of these values of a label.
    Rename(LabelKey, BTreeSet<LabelValue>),
    /// The pool has no limits.
    Unlimited(PoolName),
    /// The disks of the pool's nodes have so much more.
    Disk(PoolName, Quantity),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerate(taint) => write!(f, "give the pod a toleration for taint `{taint}`"),
            Self::Allow(pool, key, values) => {
                write!(f, "allow `{key}` {} in pool `{pool}`", any_of(values))
            }
            Self::Label(pool, key, value) => {
                write!(f, "set label `{key}` to `{value}` in the template of pool `{pool}`")
            }
            Self::AskFor(most) => {
                let amounts: Vec<String> =
                    most.iter().map(|(name, amount)| Amount(name, *amount).to_string()).collect();
                write!(f, "ask for at most {} per pod", amounts.join(" and "))
            }
            Self::Rename(key, values) => write!(f, "ask for `{key}` {}", any_of(values)),
            Self::Unlimited(pool) => write!(f, "raise spec.limits of pool `{pool}`"),
            Self::Disk(pool, more) => {
                let more = Number(&EPHEMERAL_STORAGE.into(), *more);
                write!(
                    f,
                    "give nodes of pool `{pool}` {more} more disk: `spec.blockDeviceMappings` of its node class"
                )
            }
        }
    }
}

impl Change {
    /// Returns whether the pod asks for the same afterwards: a second change that takes back what the first one was for helps
    /// against nothing.
    pub(super) fn keeps_wishes(&self) -> bool {
        !matches!(self, Self::AskFor(_) | Self::Rename(..))
    }

    /// Carries it out on `pods`, which are alike, or on its pool.
    pub(super) fn apply(&self, snapshot: &mut Snapshot, pods: &BTreeSet<PodKey>) {
        let registry = Arc::clone(&snapshot.registry);
        match self {
            Self::Tolerate(taint) => of_pods(snapshot, pods, |pod| {
                pod.tolerations.push(Toleration {
                    key: taint.key.clone(),
                    operator: TolerationOperator::Exists,
                    value: String::new(),
                    effect: Some(taint.effect),
                });
            }),
            Self::AskFor(most) => of_pods(snapshot, pods, |pod| {
                for (name, amount) in most.iter() {
                    pod.requests.set(name.as_str(), *amount);
                }
            }),
            Self::Rename(key, values) => of_pods(snapshot, pods, |pod| {
                pod.node_selector.retain(|one, _| registry.normalize_key(one) != *key);
                for term in &mut pod.required_terms {
                    term.expressions.retain(|one| registry.normalize_key(&one.key) != *key);
                }
                // An empty term matches no node.
                pod.required_terms.retain(|term| !term.is_empty());
                if let Some(value) = values.first() {
                    pod.node_selector.insert(key.clone(), value.clone());
                }
            }),
            Self::Allow(name, key, values) => of_pool(snapshot, name, |pool| {
                let own = pool.template.requirements.get(key.as_str());
                let listed = own.and_then(Requirement::concrete).cloned();
                let min_values = own.and_then(Requirement::min_values);
                let wider = match listed {
                    Some(listed) => Requirement::one_of(key.clone(), listed.union(values).cloned()),
                    // Bounds and exclusions cannot be widened by one value in one expression.
                    None => Requirement::exists(key.clone()),
                };
                pool.template.requirements.replace(wider.with_min_values(min_values));
            }),
            Self::Label(name, key, value) => of_pool(snapshot, name, |pool| {
                pool.template.labels.insert(key.clone(), value.clone());
            }),
            Self::Unlimited(name) => of_pool(snapshot, name, |pool| pool.limits = None),
            Self::Disk(name, more) => {
                if let Some(types) = snapshot.instance_types.get_mut(name) {
                    let larger = |one: &Arc<InstanceType>| {
                        let mut one = InstanceType::clone(one);
                        let has = one.capacity.amount(EPHEMERAL_STORAGE);
                        one.capacity.set(EPHEMERAL_STORAGE, has.saturating_add(*more));
                        Arc::new(one)
                    };
                    *types = types.iter().map(larger).collect();
                }
            }
        }
    }
}

/// Values as a choice: `` `a`, `b` or `c` ``; the first few of many.
pub(super) fn any_of(values: &BTreeSet<LabelValue>) -> String {
    const NAMED: usize = 6;
    let mut names: Vec<String> = values.iter().take(NAMED).map(|value| format!("`{value}`")).collect();
    match values.len().checked_sub(NAMED) {
        Some(more) if more > 0 => format!("{} or one of {more} others", names.join(", ")),
        _ => match names.pop() {
            Some(last) if !names.is_empty() => format!("{} or {last}", names.join(", ")),
            last => last.unwrap_or_default(),
        },
    }
}

fn of_pods(snapshot: &mut Snapshot, pods: &BTreeSet<PodKey>, change: impl Fn(&mut Pod)) {
    let mut changed = None;
    for pod in snapshot.pending.iter_mut().filter(|pod| pods.contains(&pod.key)) {
        let template = changed.get_or_insert_with(|| {
            let mut first = Pod::clone(pod);
            change(&mut first);
            first.template
        });
        *pod = Arc::new(Pod { template: Arc::clone(template), ..Pod::clone(pod) });
    }
}

fn of_pool(snapshot: &mut Snapshot, name: &PoolName, change: impl FnOnce(&mut Pool)) {
    if let Some(pool) = snapshot.pools.iter_mut().find(|pool| pool.name == *name) {
        change(Arc::make_mut(pool));
    }
}
