//! Data kept of an object: the fields that are shown, and nothing else.
//!
//! A pod as the API server sends it takes some ten kilobytes, what is kept of it a few hundred bytes. Texts that many
//! objects share (keys and values of labels, messages of the scheduler) are stored once.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_api::{
    Condition, ConditionStatus, NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceMap, convert,
};
use karpenter_kube_harness::watch::Undecoded;
use karpenter_model::names::{condition, reason, taint};
use karpenter_model::resources::{CPU, MEMORY};
use karpenter_model::{ClaimName, NodeName, PodKey, Quantity};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The resources that are shown, cpu, memory and those the user asks for, the labels, and the pods that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    resources: Vec<String>,
    labels: Vec<String>,
    /// The namespace whose pods count; `None` if all do.
    namespace: Option<String>,
}

impl Shown {
    /// Cpu, memory and `more`, each once.
    pub fn new(more: &[String]) -> Self {
        let mut names = vec![CPU.to_owned(), MEMORY.to_owned()];
        for name in more {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Self { resources: names, labels: Vec::new(), namespace: None }
    }

    /// The same resources, and these labels.
    #[must_use]
    pub fn with_labels(self, labels: &[String]) -> Self {
        Self { labels: labels.to_vec(), ..self }
    }

    /// The same resources and labels, of the pods of this namespace alone if there is one.
    #[must_use]
    pub fn with_namespace(self, namespace: Option<String>) -> Self {
        Self { namespace, ..self }
    }

    /// Returns the keys of the labels, in the order in which they are shown.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Returns the names of the resources, in the order in which they are shown.
    pub(crate) fn names(&self) -> &[String] {
        &self.resources
    }

    /// Returns the amounts of the resources by `of`, in the same order.
    fn amounts(&self, of: impl Fn(&str) -> Option<Quantity>) -> Amounts {
        self.resources.iter().map(|name| of(name).unwrap_or_default()).collect()
    }
}

/// Amounts of the resources that are shown, in their order.
pub(crate) type Amounts = Box<[Quantity]>;

/// Labels in the order of their keys.
pub(crate) type Labels = Box<[(Arc<str>, Arc<str>)]>;

/// Texts that are stored once.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeSet<Arc<str>>);

impl Texts {
    /// `text`, shared with all others that are the same.
    pub(crate) fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }

    /// Forgets what no object uses any more.
    pub(crate) fn clean(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }

    fn labels(&mut self, metadata: &ObjectMeta) -> Labels {
        let labels = metadata.labels.iter().flatten();
        labels.map(|(key, value)| (self.one(key), self.one(value))).collect()
    }
}

/// A Node.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, in any combination")]
pub(crate) struct NodeFacts {
    pub(crate) provider_id: Option<Box<str>>,
    pub(crate) labels: Labels,
    pub(crate) allocatable: Amounts,
    /// The kubelet reports that it is ready.
    pub(crate) ready: bool,
    pub(crate) cordoned: bool,
    /// Set when the node carries the taint of nodes that are disrupted.
    pub(crate) disrupted: bool,
    pub(crate) created: Timestamp,
    pub(crate) deleted: bool,
}

impl NodeFacts {
    pub(crate) fn of(object: &Node, shown: &Shown, texts: &mut Texts) -> (NodeName, Self) {
        let spec = object.spec.as_ref();
        let status = object.status.as_ref();
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let facts = Self {
            provider_id: spec.and_then(|spec| spec.provider_id.as_deref()).map(Into::into),
            labels: texts.labels(&object.metadata),
            allocatable: shown.amounts(|name| allocatable?.get(name)?.0.parse().ok()),
            ready: status
                .and_then(|status| status.conditions.as_ref())
                .is_some_and(|all| all.iter().any(|it| it.type_ == condition::READY && it.status == "True")),
            cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            disrupted: spec
                .and_then(|spec| spec.taints.as_ref())
                .is_some_and(|taints| taints.iter().any(|it| it.key == taint::DISRUPTED)),
            created: created(&object.metadata),
            deleted: object.metadata.deletion_timestamp.is_some(),
        };
        (name(&object.metadata).into(), facts)
    }
}

/// A NodeClaim.
#[derive(Debug)]
pub(crate) struct ClaimFacts {
    pub(crate) node: Option<Box<str>>,
    pub(crate) provider_id: Option<Box<str>>,
    pub(crate) labels: Labels,
    /// Requests that it was made for: those of the pods it is expected to take.
    pub(crate) requests: Amounts,
    pub(crate) allocatable: Amounts,
    pub(crate) conditions: Box<[ConditionFacts]>,
    pub(crate) created: Timestamp,
    pub(crate) deleted: bool,
    /// Reason why it cannot be decoded, in which case only some fields are set; `None` where all is known.
    pub(crate) problem: Option<Box<str>>,
}

/// A condition of a claim.
#[derive(Debug)]
pub(crate) struct ConditionFacts {
    pub(crate) kind: Arc<str>,
    pub(crate) status: ConditionStatus,
    pub(crate) since: Timestamp,
    pub(crate) reason: Arc<str>,
    pub(crate) message: Arc<str>,
}

impl ClaimFacts {
    pub(crate) fn of(object: &NodeClaim, shown: &Shown, texts: &mut Texts) -> (ClaimName, Self) {
        let status = object.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let written = |map: Option<&ResourceMap>| {
            shown.amounts(|name| map.and_then(|map| map.get(name))?.to_string().parse().ok())
        };
        let facts = Self {
            node: status.and_then(|status| status.node_name.as_deref()).map(Into::into),
            provider_id: status.and_then(|status| status.provider_id.as_deref()).map(Into::into),
            labels: texts.labels(&object.metadata),
            requests: written(object.spec.resources.as_ref().and_then(|it| it.requests.as_ref())),
            allocatable: written(status.and_then(|status| status.allocatable.as_ref())),
            conditions: conditions
                .iter()
                .map(|it| ConditionFacts {
                    kind: texts.one(&it.kind),
                    status: it.status,
                    since: it.last_transition_time.0,
                    reason: texts.one(&it.reason),
                    message: texts.one(&it.message),
                })
                .collect(),
            created: created(&object.metadata),
            deleted: object.metadata.deletion_timestamp.is_some(),
            problem: None,
        };
        (name(&object.metadata).into(), facts)
    }

    /// Returns the facts of a claim that cannot be decoded: each part that can be.
    pub(crate) fn of_undecoded(object: &Undecoded, shown: &Shown, texts: &mut Texts) -> (ClaimName, Self) {
        let text = |pointer: &str| object.text(pointer).map(str::to_owned);
        let conditions = object.value.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.into_iter().flatten();
        let status = NodeClaimStatus {
            node_name: text("/status/nodeName"),
            provider_id: text("/status/providerID"),
            allocatable: part(object, "/status/allocatable"),
            conditions: conditions.filter_map(|one| Condition::deserialize(one).ok()).collect(),
            ..NodeClaimStatus::default()
        };
        let resources = part(object, "/spec/resources");
        let claim = NodeClaim {
            metadata: object.metadata.clone(),
            spec: NodeClaimSpec { resources, ..NodeClaimSpec::default() },
            status: Some(status),
        };
        let (name, facts) = Self::of(&claim, shown, texts);
        (name, Self { problem: Some(object.problem.as_str().into()), ..facts })
    }

    /// The condition `kind`, if it has been set.
    pub(crate) fn condition(&self, kind: &str) -> Option<&ConditionFacts> {
        self.conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// Returns whether the condition `kind` is true.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

/// A pod, as far as it matters here.
#[derive(Debug)]
pub(crate) enum PodFacts {
    /// The pod has a node, and takes this much of it.
    Bound { node: NodeName, requests: Amounts },
    /// The pod has no node.
    Waiting(WaitingPod),
    /// The pod has ended, and takes nothing.
    Ended,
}

/// A pod without a node.
#[derive(Debug)]
pub(crate) struct WaitingPod {
    pub(crate) created: Timestamp,
    /// Reason why it waits, in words.
    pub(crate) waits_for: Arc<str>,
    pub(crate) requests: Amounts,
}

impl PodFacts {
    pub(crate) fn of(object: &Pod, shown: &Shown, texts: &mut Texts) -> (PodKey, Self) {
        let metadata = &object.metadata;
        let namespace = texts.one(metadata.namespace.as_deref().unwrap_or_default());
        let key = PodKey { namespace: namespace.into(), name: name(metadata).into() };
        let phase = object.status.as_ref().and_then(|status| status.phase.as_deref());
        let counts = shown.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace.as_str());
        if !counts || matches!(phase, Some("Succeeded" | "Failed")) {
            return (key, Self::Ended);
        }
        // Requests that cannot be read count as zero; the API server admits no such amounts.
        let requests = convert::pod(object).or_else(|_| convert::pod_without_rules(object));
        let requests = shown.amounts(|name| requests.as_ref().ok()?.requests.get(name));
        let node = object.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let facts = match node.filter(|node| !node.is_empty()) {
            Some(node) => Self::Bound { node: texts.one(node).into(), requests },
            None => Self::Waiting(WaitingPod {
                created: created(metadata),
                waits_for: texts.one(&waits_for(object)),
                requests,
            }),
        };
        (key, facts)
    }
}

/// Returns what a pod without a node waits for.
fn waits_for(object: &Pod) -> String {
    let status = object.status.as_ref();
    let gates = object.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten());
    let gates: Vec<&str> = gates.map(|gate| gate.name.as_str()).collect();
    if !gates.is_empty() {
        return format!("scheduling gates: {}", gates.join(", "));
    }
    if let Some(node) = status.and_then(|status| status.nominated_node_name.as_deref()) {
        // By the scheduler, which preempts others there, or by us, who launched the node for it.
        return format!("its place on node `{node}`");
    }
    let conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|condition| condition.type_ == condition::POD_SCHEDULED);
    match scheduled.next() {
        Some(refused) if refused.reason.as_deref() == Some(reason::UNSCHEDULABLE) => {
            refused.message.clone().unwrap_or_else(|| "a node that fits".to_owned())
        }
        _ => "the scheduler, which has not tried it".to_owned(),
    }
}

/// The part of an object at this JSON pointer; `None` where there is none, or none that can be decoded.
fn part<T: DeserializeOwned>(object: &Undecoded, pointer: &str) -> Option<T> {
    object.value.pointer(pointer).and_then(|value| T::deserialize(value).ok())
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map(|Time(at)| *at).unwrap_or_default()
}
