//! Defects about what nodes turn out to be: promises, daemons, volumes, rooms, and budgets of pods.

use karpenter_model::names::{annotation, condition, label};
use serde_json::{Value, json};

use super::Defect;
use super::misreading::{is, list, without, without_annotation};

impl Defect {
    /// The object as it is read.
    pub(super) fn misread_promises(self, object: &mut Value) {
        match self {
            // The record is kept by the owner of pods. One that waits changes when its node registers, and is named to it.
            Self::PromisesReplaced if object["spec"]["nodeName"].is_null() => {
                let version = object["metadata"]["resourceVersion"].clone();
                let owners = object.pointer_mut("/metadata/ownerReferences").into_iter().flat_map(list);
                for owner in owners.filter(|owner| owner["kind"] != "DaemonSet") {
                    owner["uid"] = version.clone();
                }
            }
            Self::DaemonsOutOfTopology => out_of_topology(object),
            Self::VolumeZonesIgnored => {
                without(object, "/spec", "nodeAffinity");
            }
            Self::PodBudgetUnspent => {
                if let Some(allowed) = object.pointer_mut("/status/disruptionsAllowed")
                    && allowed.as_u64().is_some_and(|allowed| allowed > 0)
                {
                    *allowed = json!(1_000);
                }
            }
            Self::LostNodeIsRoom if is(object, condition::NODE_MISSING) => {
                for one in object.pointer_mut("/status/conditions").into_iter().flat_map(list) {
                    if one["type"] == condition::REGISTERED {
                        one["status"] = json!("Unknown");
                    }
                }
            }
            Self::RoomForgotten if is(object, condition::REGISTERED) => {
                without(object, "/metadata/labels", label::INSTANCE_TYPE);
            }
            Self::BrakeLost => {
                without_annotation(object, annotation::LAUNCHED_FOR);
                without_annotation(object, annotation::UNSERVED_WORKLOADS);
            }
            _ => {}
        }
    }
}

/// A daemon set, or a pod of one, that no selector selects and that asks for room alone.
fn out_of_topology(object: &mut Value) {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if owners.into_iter().flatten().any(|owner| owner["kind"] == "DaemonSet") {
        without(object, "/metadata", "labels");
        without(object, "/spec/affinity", "podAffinity");
        without(object, "/spec/affinity", "podAntiAffinity");
    }
    without(object, "/spec/template/metadata", "labels");
    without(object, "/spec/template/spec/affinity", "podAffinity");
    without(object, "/spec/template/spec/affinity", "podAntiAffinity");
}
