//! Changes that the API server of Kubernetes v1.35 makes to a pod before the scheduler sees it: defaults, label keys that
//! become part of selectors, and the admission plugins that change what is scheduled: `LimitRanger`, `Priority`,
//! `DefaultTolerationSeconds` and `RuntimeClass`, which are on by default, and `ExtendedResourceToleration`, which EKS switches
//! on; of claims, those of `DefaultStorageClass`.
//!
//! It is for pods that no API server has admitted: those of manifests and of templates. Webhooks are not known here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, LimitRange, Pod, PodAffinityTerm, PodSpec, PodTemplateSpec, Toleration,
};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use karpenter_model::Resources;
use karpenter_model::names::{annotation, taint};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::validation::{self, SYSTEM_PRIORITIES};
use super::{Written, requests};

mod limits;
#[cfg(test)]
mod tests;

pub use limits::{Limits, limit_range};

/// Seconds a pod stays on a node that is not ready or not reachable, unless it sets another time.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// Reason why an API server would not store a pod, as it words it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    /// The priority class of this name is not known.
    #[error("no PriorityClass with name {0} was found")]
    NoPriorityClass(String),
    /// The runtime class of this name is not known.
    #[error("pod rejected: RuntimeClass \"{0}\" not found")]
    NoRuntimeClass(String),
    /// The pod contradicts the objects of the cluster.
    #[error("{0}")]
    Forbidden(String),
}

/// Objects of a cluster by which pods are admitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Limit ranges by namespace and name.
    pub limit_ranges: BTreeMap<(String, String), Vec<Limits>>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
    priority_classes: BTreeMap<String, PriorityClass>,
    /// Classes that claims without one get, the newest first.
    storage_classes: BTreeSet<(Reverse<Option<Timestamp>>, String)>,
}

impl Admission {
    /// Collects the relevant ones of these objects; those of other kinds, and those that cannot be read, take no part.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut all = Self::default();
        for object in objects {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let name = text("/metadata/name").to_owned();
            match text("/kind") {
                "LimitRange" => {
                    let items = read::<LimitRange>(object).and_then(|range| limit_range(&range).ok());
                    let key = (text("/metadata/namespace").to_owned(), name);
                    all.limit_ranges.extend(items.map(|items| (key, items)));
                }
                "RuntimeClass" => all.runtime_classes.extend(read(object).map(|class| (name, class))),
                "PriorityClass" => all.priority_classes.extend(read(object).map(|class| (name, class))),
                "StorageClass" if object["metadata"]["annotations"][annotation::DEFAULT_CLASS] == "true" => {
                    let created = text("/metadata/creationTimestamp").parse().ok();
                    all.storage_classes.insert((Reverse(created), name));
                }
                _ => {}
            }
        }
        all
    }

    /// Changes a pod as its creation would, and returns the refusals. Changes that can be made are made even so.
    pub fn admit(&self, pod: &mut Pod) -> Vec<Refused> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let from = (namespace.to_owned(), String::new());
        let of_namespace = self.limit_ranges.range(from..).take_while(|((of, _), _)| of == namespace);
        let limits: Vec<&Limits> = of_namespace.flat_map(|(_, items)| items).collect();
        let Some(spec) = &mut pod.spec else { return Vec::new() };
        round_up(spec);
        default_requests(spec);
        if spec.host_network == Some(true) {
            default_host_ports(spec);
        }
        let twice = fold_label_keys(spec, pod.metadata.labels.as_ref());
        for one in &limits {
            one.fill(spec);
        }
        // What limit ranges gave to containers counts for the pod as a whole.
        default_requests(spec);
        let mut refused: Vec<Refused> = self.prioritize(spec).err().into_iter().collect();
        refused.extend(twice.into_iter().map(Refused::Forbidden));
        tolerate_node_problems(spec);
        tolerate_extended_resources(spec);
        refused.extend(self.apply_runtime_class(spec).err());
        let amounts = validation::of_admitted(spec).into_iter();
        let amounts = amounts.map(|cause| format!("{}: {}", cause.field, cause.message));
        let broken = amounts.chain(limits.iter().flat_map(|one| one.broken_by(spec)));
        refused.extend(broken.map(Refused::Forbidden));
        refused
    }

    /// The storage class of claims that name none.
    pub fn default_storage_class(&self) -> Option<&str> {
        self.storage_classes.first().map(|(_, name)| name.as_str())
    }

    /// The pod that a template in a namespace would make, admitted as far as it can be.
    pub(super) fn of_template(&self, template: Option<&PodTemplateSpec>, namespace: &str) -> Pod {
        let metadata = template.and_then(|template| template.metadata.clone()).unwrap_or_default();
        let mut pod = Pod {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                labels: metadata.labels,
                annotations: metadata.annotations,
                ..ObjectMeta::default()
            },
            spec: template.and_then(|template| template.spec.clone()),
            status: None,
        };
        let _refused = self.admit(&mut pod);
        pod
    }

    fn prioritize(&self, spec: &mut PodSpec) -> Result<(), Refused> {
        let (priority, policy) = if let Some(name) = super::present(spec.priority_class_name.as_ref()) {
            let built_in = || SYSTEM_PRIORITIES.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
            let known = self.priority_classes.get(name);
            let value = known.map(|class| class.value).or_else(built_in);
            let value = value.ok_or_else(|| Refused::NoPriorityClass(name.to_owned()))?;
            (value, known.and_then(|class| class.preemption_policy.clone()))
        } else {
            let defaults =
                self.priority_classes.iter().filter(|(_, class)| class.global_default == Some(true));
            // Only one may be the default; of several the lowest counts.
            let default = defaults.min_by_key(|(_, class)| class.value);
            spec.priority_class_name = default.map(|(name, _)| name.clone());
            default.map(|(_, class)| (class.value, class.preemption_policy.clone())).unwrap_or_default()
        };
        if let Some(written) = spec.priority.filter(|written| *written != priority) {
            return Err(Refused::Forbidden(format!(
                "the integer value of priority ({written}) must not be provided in pod spec; priority admission \
                 controller computed {priority} from the given PriorityClass name"
            )));
        }
        spec.priority = Some(priority);
        let policy = policy.unwrap_or_else(|| "PreemptLowerPriority".to_owned());
        let written = spec.preemption_policy.replace(policy.clone());
        if let Some(written) = written.filter(|written| *written != policy) {
            return Err(Refused::Forbidden(format!(
                "the string value of PreemptionPolicy ({written}) must not be provided in pod spec; priority admission \
                 controller computed {policy} from the given PriorityClass name"
            )));
        }
        Ok(())
    }

    fn apply_runtime_class(&self, spec: &mut PodSpec) -> Result<(), Refused> {
        let Some(name) = super::present(spec.runtime_class_name.as_ref()) else {
            return match spec.overhead.take().filter(|written| !written.is_empty()) {
                Some(_) => Err(Refused::Forbidden(
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                        .to_owned(),
                )),
                None => Ok(()),
            };
        };
        let class = self.runtime_classes.get(name).ok_or_else(|| Refused::NoRuntimeClass(name.to_owned()))?;
        let overhead = class.overhead.as_ref().and_then(|overhead| overhead.pod_fixed.clone());
        let written = spec.overhead.take().filter(|written| !written.is_empty());
        let differs = written.is_some() && written != overhead;
        spec.overhead = overhead;
        if differs {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(Refused::Forbidden(why.to_owned()));
        }
        let Some(scheduling) = &class.scheduling else { return Ok(()) };
        for (key, value) in scheduling.node_selector.iter().flatten() {
            let selector = spec.node_selector.get_or_insert_default();
            let selected = selector.entry(key.clone()).or_insert_with(|| value.clone());
            if selected != value {
                return Err(Refused::Forbidden(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = \
                     {selected}"
                )));
            }
        }
        let more = scheduling.tolerations.iter().flatten().cloned();
        let all: Vec<Toleration> = spec.tolerations.take().into_iter().flatten().chain(more).collect();
        spec.tolerations = Some(without_covered(&all));
        Ok(())
    }
}

fn read<T: DeserializeOwned>(object: &Value) -> Option<T> {
    T::deserialize(object).ok()
}

fn containers(spec: &mut PodSpec) -> impl Iterator<Item = &mut Container> {
    spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten())
}

/// Amounts that are not there yet, if there are any to add.
fn fill(written: &mut Option<BTreeMap<String, ApiQuantity>>, given: BTreeMap<String, ApiQuantity>) {
    if !given.is_empty() {
        let written = written.get_or_insert_default();
        for (name, amount) in given {
            written.entry(name).or_insert(amount);
        }
    }
}

fn written(amounts: &Resources) -> BTreeMap<String, ApiQuantity> {
    amounts.iter().map(|(name, amount)| (name.to_string(), ApiQuantity(amount.to_string()))).collect()
}

/// Amounts have no smaller parts than a thousandth.
fn round_up(spec: &mut PodSpec) {
    for amounts in spec.resources.iter_mut().flat_map(|whole| [&mut whole.requests, &mut whole.limits]) {
        amounts.iter_mut().flat_map(BTreeMap::values_mut).for_each(round_up_one);
    }
    for resources in containers(spec).filter_map(|container| container.resources.as_mut()) {
        for amounts in [&mut resources.requests, &mut resources.limits] {
            amounts.iter_mut().flat_map(BTreeMap::values_mut).for_each(round_up_one);
        }
    }
}

fn round_up_one(written: &mut ApiQuantity) {
    const MILLI: i128 = 1_000_000;
    let Ok(amount) = written.read() else { return };
    let rest = amount.nanos().rem_euclid(MILLI);
    if rest != 0 {
        let rounded = amount.nanos() - rest + MILLI;
        *written = ApiQuantity(karpenter_model::Quantity::from_nanos(rounded).to_string());
    }
}

/// A limit is the request where there is none. Where the pod as a whole has limits, its requests are what containers ask
/// for, or else its limits.
fn default_requests(spec: &mut PodSpec) {
    for resources in containers(spec).filter_map(|container| container.resources.as_mut()) {
        fill(&mut resources.requests, resources.limits.clone().unwrap_or_default());
    }
    let limits = spec.resources.as_ref().and_then(|whole| whole.limits.clone()).unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let asked = requests::written_requests(spec).unwrap_or_default();
    let Some(whole) = &mut spec.resources else { return };
    let mut asked = written(&asked);
    asked.retain(|name, _| requests::pod_level(name));
    fill(&mut whole.requests, asked);
    let limits = limits.into_iter().filter(|(name, _)| requests::pod_level(name));
    fill(&mut whole.requests, limits.collect());
}

/// Gives ports of containers on the network of the host the same port of the host.
fn default_host_ports(spec: &mut PodSpec) {
    for port in containers(spec).flat_map(|container| container.ports.iter_mut().flatten()) {
        if port.host_port.unwrap_or_default() == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

/// Adds to selectors what the pod's own labels say of their keys. Returns why that cannot be: a selector has one of them by
/// itself.
fn fold_label_keys(spec: &mut PodSpec, labels: Option<&BTreeMap<String, String>>) -> Vec<String> {
    let mut twice = Vec::new();
    for spread in spec.topology_spread_constraints.iter_mut().flatten() {
        fold(&mut spread.label_selector, spread.match_label_keys.as_ref(), labels, "In", &mut twice);
    }
    let (mut required, mut preferred) = (Vec::new(), Vec::new());
    let (with, without) = match &mut spec.affinity {
        Some(affinity) => (affinity.pod_affinity.as_mut(), affinity.pod_anti_affinity.as_mut()),
        None => (None, None),
    };
    if let Some(with) = with {
        required.extend(with.required_during_scheduling_ignored_during_execution.iter_mut().flatten());
        preferred.extend(with.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten());
    }
    if let Some(without) = without {
        required.extend(without.required_during_scheduling_ignored_during_execution.iter_mut().flatten());
        preferred.extend(without.preferred_during_scheduling_ignored_during_execution.iter_mut().flatten());
    }
    let weighted = preferred.into_iter().map(|preferred| &mut preferred.pod_affinity_term);
    for PodAffinityTerm { label_selector, match_label_keys, mismatch_label_keys, .. } in
        required.into_iter().chain(weighted)
    {
        fold(label_selector, match_label_keys.as_ref(), labels, "In", &mut twice);
        fold(label_selector, mismatch_label_keys.as_ref(), labels, "NotIn", &mut twice);
    }
    twice
}

fn fold(
    selector: &mut Option<LabelSelector>,
    keys: Option<&Vec<String>>,
    labels: Option<&BTreeMap<String, String>>,
    operator: &str,
    twice: &mut Vec<String>,
) {
    // Without a selector no pod is meant, whatever the keys are.
    let Some(selector) = selector else { return };
    for (key, value) in keys.into_iter().flatten().filter_map(|key| Some((key, labels?.get(key)?))) {
        let has_key = selector.match_labels.as_ref().is_some_and(|labels| labels.contains_key(key))
            || selector.match_expressions.iter().flatten().any(|one| one.key == *key);
        // Another expression may keep away from what the selector looks for.
        if operator == "In" && has_key {
            twice.push(format!("Invalid value: \"{key}\": exists in both matchLabelKeys and labelSelector"));
        }
        selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        });
    }
}

/// Drops tolerations that another one covers: of equal ones the first stays.
fn without_covered(all: &[Toleration]) -> Vec<Toleration> {
    let is_covered = |index: usize, one: &Toleration| {
        let mut others = all.iter().enumerate();
        others.any(|(other, by)| other != index && covers(by, one) && (other < index || !covers(one, by)))
    };
    let kept = all.iter().enumerate().filter(|(index, one)| !is_covered(*index, one));
    kept.map(|(_, one)| one.clone()).collect()
}

/// Returns whether what `other` tolerates is tolerated by `one`.
fn covers(one: &Toleration, other: &Toleration) -> bool {
    let key = one.key.as_deref().unwrap_or_default();
    let effect = one.effect.as_deref().unwrap_or_default();
    let lasts = one
        .toleration_seconds
        .is_none_or(|seconds| other.toleration_seconds.is_some_and(|other| seconds >= other));
    let is_any = one.operator.as_deref() == Some("Exists");
    let same_value = other.operator.as_deref() != Some("Exists")
        && one.value.as_deref().unwrap_or_default() == other.value.as_deref().unwrap_or_default();
    let of_key = key == other.key.as_deref().unwrap_or_default() || key.is_empty() && is_any;
    let of_effect = effect.is_empty() || effect == other.effect.as_deref().unwrap_or_default();
    of_key && of_effect && lasts && (is_any || same_value)
}

/// Lets a pod that asks for an extended resource onto nodes that a taint of its name keeps for such pods.
fn tolerate_extended_resources(spec: &mut PodSpec) {
    let requests = containers(spec).filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    let extended: BTreeSet<String> =
        requests.flat_map(BTreeMap::keys).filter(|name| validation::is_extended(name)).cloned().collect();
    let tolerations = spec.tolerations.get_or_insert_default();
    for name in extended {
        let tolerates = |one: &Toleration| {
            one.key.as_ref() == Some(&name)
                && one.operator.as_deref() == Some("Exists")
                && one.effect.as_deref() == Some("NoSchedule")
                && one.toleration_seconds.is_none()
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(Toleration {
                key: Some(name),
                operator: Some("Exists".to_owned()),
                effect: Some("NoSchedule".to_owned()),
                ..Toleration::default()
            });
        }
    }
}

fn tolerate_node_problems(spec: &mut PodSpec) {
    let tolerations = spec.tolerations.get_or_insert_default();
    for key in [taint::NOT_READY, taint::UNREACHABLE] {
        let tolerates = |one: &Toleration| {
            super::present(one.key.as_ref()).is_none_or(|of| of == key)
                && super::present(one.effect.as_ref()).is_none_or(|effect| effect == "NoExecute")
        };
        if !tolerations.iter().any(tolerates) {
            tolerations.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(DEFAULT_TOLERATION_SECONDS),
                ..Toleration::default()
            });
        }
    }
}
