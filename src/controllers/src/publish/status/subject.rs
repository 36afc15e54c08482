//! Objects of all kinds, reduced to what is reported about their conditions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::Condition;
use karpenter_cloud::NodeClassKind;
use karpenter_model::names::label;
use karpenter_telemetry::events::ObjectRef;
use karpenter_telemetry::metrics::Watched;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use serde_json::Value;

use crate::Context;
use crate::view::Conditioned;

/// Longest reason of an event that the API server takes, in bytes.
const REASON_MAX: usize = 128;
/// Most types of conditions that events are published about. All controllers of a cluster together have some dozens.
const TYPES_MAX: usize = 500;

/// A condition's type, of whichever controller, as the reason of an event: reasons are fixed texts, so each type is kept for as
/// long as the process runs. `None` for one that is too long, and for those beyond the most there may be.
pub(super) fn interned(kind: &str) -> Option<&'static str> {
    static TYPES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut types = TYPES.lock();
    if let Some(known) = types.get(kind) {
        return Some(known);
    }
    if kind.len() > REASON_MAX || types.len() >= TYPES_MAX {
        return None;
    }
    let new: &'static str = Box::leak(kind.to_owned().into_boxed_str());
    types.insert(new);
    Some(new)
}

/// The labels of an object of this kind that its series carry.
pub(super) fn further_keys(kind: Watched, classes: &[NodeClassKind]) -> Vec<String> {
    let pool =
        || std::iter::once(label::NODE_POOL.to_owned()).chain(classes.iter().map(NodeClassKind::label_key));
    match kind {
        Watched::NodeClaim => pool().collect(),
        Watched::Node => pool().chain([label::INITIALIZED.to_owned()]).collect(),
        Watched::NodePool | Watched::NodeClass | Watched::CapacityBuffer => Vec::new(),
    }
}

/// An object with conditions.
pub(super) struct Subject {
    pub(super) kind: Watched,
    pub(super) about: ObjectRef,
    pub(super) created: Timestamp,
    /// Time at which its deletion was requested.
    pub(super) deleted: Option<Timestamp>,
    pub(super) finalizers: Vec<String>,
    pub(super) conditions: Vec<State>,
    /// Values of the labels that the series of its kind carry.
    pub(super) further: Vec<String>,
}

/// One condition.
pub(super) struct State {
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Timestamp,
}

impl Subject {
    /// Reads an object of any kind.
    pub(super) fn of(context: &Context, object: &Conditioned) -> Self {
        let classes = context.provider.node_class_kinds();
        match object {
            Conditioned::Claim(claim) => {
                let conditions = claim.status.iter().flat_map(|status| &status.conditions).map(State::of);
                let kind = (Watched::NodeClaim, "karpenter.sh/v1", "NodeClaim");
                Self::new(kind, &claim.metadata, conditions.collect(), classes)
            }
            Conditioned::Pool(pool) => {
                let conditions = pool.status.iter().flat_map(|status| &status.conditions).map(State::of);
                let kind = (Watched::NodePool, "karpenter.sh/v1", "NodePool");
                Self::new(kind, &pool.metadata, conditions.collect(), classes)
            }
            Conditioned::Buffer(buffer) => {
                let conditions = buffer.status.iter().flat_map(|status| &status.conditions).map(State::of);
                let kind = (Watched::CapacityBuffer, "autoscaling.x-k8s.io/v1beta1", "CapacityBuffer");
                Self::new(kind, &buffer.metadata, conditions.collect(), classes)
            }
            Conditioned::Node(node) => {
                let subject =
                    Self::new((Watched::Node, "v1", "Node"), &node.metadata, of_node(node), classes);
                // Node events carry the name as uid, where `kubectl describe node` looks for them.
                let about = ObjectRef { uid: subject.about.name.clone(), ..subject.about };
                Self { about, ..subject }
            }
            Conditioned::Class(class) => {
                let types = class.types.clone().unwrap_or_default();
                let kind = (Watched::NodeClass, types.api_version.as_str(), types.kind.as_str());
                Self::new(kind, &class.metadata, of_class(class), classes)
            }
        }
    }

    fn new(
        (kind, api_version, kind_name): (Watched, &str, &str),
        metadata: &ObjectMeta,
        conditions: Vec<State>,
        classes: &[NodeClassKind],
    ) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        let value = |key: &String| {
            let found = metadata.labels.as_ref().and_then(|labels| labels.get(key));
            found.cloned().unwrap_or_default()
        };
        Self {
            kind,
            about: ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind_name.to_owned(),
                namespace: metadata.namespace.clone(),
                name,
                uid: metadata.uid.clone().unwrap_or_default(),
            },
            created: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
            deleted: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            conditions,
            further: further_keys(kind, classes).iter().map(value).collect(),
        }
    }

    /// The values of the labels that series of its kind carry.
    pub(super) fn further(&self) -> Vec<&str> {
        self.further.iter().map(String::as_str).collect()
    }

    /// Group and kind, which the families without a kind in their name carry; nothing for Nodes.
    pub(super) fn deprecated(&self) -> Option<[&str; 2]> {
        // The version of the core group is `v1`, without a slash: Nodes have no such series.
        let (group, _version) = self.about.api_version.rsplit_once('/')?;
        Some([group, self.about.kind.as_str()])
    }
}

impl State {
    fn of(condition: &Condition) -> Self {
        Self {
            kind: condition.kind.clone(),
            status: condition.status.as_str().to_owned(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.last_transition_time.0,
        }
    }
}

fn of_node(node: &Node) -> Vec<State> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let state = |condition: &k8s_openapi::api::core::v1::NodeCondition| State {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(|time| time.0).unwrap_or_default(),
    };
    conditions.map(state).collect()
}

fn of_class(class: &DynamicObject) -> Vec<State> {
    let conditions = class.data.pointer("/status/conditions").and_then(Value::as_array);
    let state = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        State {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            since: text("lastTransitionTime").parse().unwrap_or_default(),
        }
    };
    conditions.into_iter().flatten().map(state).collect()
}
