//! Defects that are in how objects are read: what the API server sends is changed before the controller sees it.

use karpenter_model::CapacityType;
use karpenter_model::names::{annotation, condition, finalizer};
use serde_json::{Value, json};

use super::{Defect, SECOND_BUDGET};

/// Message of a condition that is not true.
const NOT_TRUE: &str = "planted";

impl Defect {
    /// Returns whether objects of this kind are misread.
    pub(super) fn misreads(self, plural: &str) -> bool {
        match self {
            Self::BudgetOffByOne | Self::LimitsMisread | Self::ReplicasMisread | Self::NeverConsolidates => {
                plural == "nodepools"
            }
            Self::ProtectionIgnored | Self::PromisesReplaced => plural == "pods",
            Self::DaemonsOutOfTopology => matches!(plural, "pods" | "daemonsets"),
            Self::VolumeZonesIgnored => plural == "persistentvolumes",
            Self::BrakeLost => matches!(plural, "nodeclaims" | "nodepools"),
            Self::FailuresMissed => plural == "nodes",
            Self::DriftsOnNoImages => plural == "ec2nodeclasses",
            Self::OneBudgetSeen | Self::PodBudgetUnspent => plural == "poddisruptionbudgets",
            Self::AttachmentsMissed => plural == "volumeattachments",
            Self::LostFinalizer
            | Self::LimitsWithoutInFlight
            | Self::ReplacementNotAwaited
            | Self::HashStampedFirst
            | Self::ReservedMisread
            | Self::LostNodeIsRoom
            | Self::RoomForgotten
            | Self::PromisesForgotten => plural == "nodeclaims",
            _ => false,
        }
    }

    /// Returns whether this object is not seen at all.
    pub(super) fn overlooks(self, object: &Value) -> bool {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::OneBudgetSeen => name.ends_with(SECOND_BUDGET),
            // A bookmark has no name.
            Self::AttachmentsMissed => !name.is_empty(),
            _ => false,
        }
    }

    /// The object as it is read.
    pub(super) fn misread(self, object: &mut Value) {
        match self {
            Self::BudgetOffByOne => {
                for budget in object.pointer_mut("/spec/disruption/budgets").into_iter().flat_map(list) {
                    let nodes = budget["nodes"].as_str().and_then(|text| text.parse::<u32>().ok());
                    if let Some(nodes) = nodes {
                        budget["nodes"] = json!((nodes + 1).to_string());
                    }
                }
            }
            Self::LimitsMisread => {
                let cores = object.pointer("/spec/limits/cpu").and_then(|cpu| match cpu {
                    Value::String(text) => text.parse::<u64>().ok(),
                    other => other.as_u64(),
                });
                if let Some(cores) = cores {
                    object["spec"]["limits"]["cpu"] = json!((2 * cores).to_string());
                }
            }
            Self::ReplicasMisread => {
                if let Some(replicas) = object.pointer("/spec/replicas").and_then(Value::as_u64) {
                    object["spec"]["replicas"] = json!(replicas + 3);
                }
            }
            Self::NeverConsolidates => {
                if let Some(after) = object.pointer_mut("/spec/disruption/consolidateAfter") {
                    *after = json!("Never");
                }
            }
            Self::ProtectionIgnored => without_annotation(object, annotation::DO_NOT_DISRUPT),
            Self::DriftsOnNoImages => {
                let none = object.pointer("/status/amis").and_then(Value::as_array).is_none_or(Vec::is_empty);
                if none && object["status"].is_object() {
                    object["status"]["amis"] =
                        json!([{"id": "ami-none", "name": "none", "requirements": []}]);
                }
            }
            Self::LimitsWithoutInFlight if is_joining(object) => set_cpu(object, "capacity"),
            Self::PromisesForgotten if is_joining(object) => set_cpu(object, "allocatable"),
            Self::ReplacementNotAwaited if is_joining(object) => {
                let since = object["metadata"]["creationTimestamp"].clone();
                if let Some(all) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
                    all.retain(|one| one["type"] != condition::INITIALIZED);
                    all.push(json!({
                        "type": condition::INITIALIZED, "status": "True", "reason": condition::INITIALIZED,
                        "message": NOT_TRUE, "lastTransitionTime": since,
                    }));
                }
            }
            // The finalizer that it writes is not there, and it does not notice.
            Self::LostFinalizer if object["metadata"]["deletionTimestamp"].is_null() => {
                object["metadata"]["finalizers"] = json!([finalizer::TERMINATION]);
            }
            Self::ReservedMisread => {
                if let Some(kind) = object.pointer_mut("/metadata/labels/karpenter.sh~1capacity-type")
                    && *kind == CapacityType::Reserved.as_str()
                {
                    *kind = json!(CapacityType::OnDemand.as_str());
                }
            }
            Self::FailuresMissed => {
                for one in object.pointer_mut("/status/conditions").into_iter().flat_map(list) {
                    if one["type"] == "Ready" {
                        one["status"] = json!("True");
                    }
                }
            }
            Self::HashStampedFirst => without_annotation(object, annotation::POOL_HASH),
            _ => self.misread_promises(object),
        }
    }
}

impl Defect {
    /// Returns whether claims are written wrongly.
    pub(super) fn miswrites(self) -> bool {
        matches!(self, Self::LostFinalizer | Self::ReplacementNotAwaited | Self::MinValuesOfThePool)
    }

    /// A claim as it is written: what was misread is not made true by that.
    pub(super) fn miswrite(self, claim: &mut Value) {
        if self == Self::LostFinalizer
            && let Some(all) = claim.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut)
        {
            all.retain(|one| one != finalizer::TERMINATION);
        }
        if self == Self::ReplacementNotAwaited {
            for one in claim.pointer_mut("/status/conditions").into_iter().flat_map(list) {
                if one["message"] == NOT_TRUE {
                    one["status"] = json!("Unknown");
                }
            }
        }
        if self == Self::MinValuesOfThePool
            && claim["metadata"]["annotations"][annotation::MIN_VALUES_RELAXED] == "true"
        {
            for one in claim.pointer_mut("/spec/requirements").into_iter().flat_map(list) {
                let left = one["values"].as_array().map_or(0, Vec::len);
                // It was lowered to what is left.
                if one["minValues"].as_u64() == u64::try_from(left).ok() {
                    one["minValues"] = json!(left + 1);
                }
            }
        }
    }
}

/// Returns whether a claim has a machine that has not registered.
fn is_joining(claim: &Value) -> bool {
    is(claim, condition::LAUNCHED) && !is(claim, condition::REGISTERED)
}

/// Returns whether a condition of a claim is true.
pub(super) fn is(claim: &Value, kind: &str) -> bool {
    let all = claim.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

/// So little processing power that it amounts to none.
fn set_cpu(claim: &mut Value, of: &str) {
    if let Some(amounts) = claim.pointer_mut(&format!("/status/{of}")).filter(|amounts| amounts.is_object()) {
        amounts["cpu"] = json!("1m");
    }
}

pub(super) fn without_annotation(object: &mut Value, name: &str) {
    without(object, "/metadata/annotations", name);
}

/// The object without a field of the part at `path`.
pub(super) fn without(object: &mut Value, path: &str, field: &str) {
    if let Some(part) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        part.remove(field);
    }
}

pub(super) fn list(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_array_mut().into_iter().flatten()
}
