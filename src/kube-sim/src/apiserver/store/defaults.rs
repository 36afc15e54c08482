//! Defaults of built-in kinds: the fields that controllers and schedulers read and authors leave out.

mod pod;
mod workload;

use serde_json::{Value, json};

use crate::apiserver::{
    object::{default_to, map_mut},
    resource::Resource,
};

/// Fills in what kube-apiserver would.
pub(super) fn apply(resource: &Resource, object: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod::apply(object),
        ("", "namespaces") => {
            default_to(map_mut(object, "spec"), "finalizers", json!(["kubernetes"]));
            default_to(map_mut(object, "status"), "phase", "Active");
            let name = object["metadata"]["name"].clone();
            let metadata = map_mut(object, "metadata");
            default_to(metadata, "labels", json!({}));
            metadata["labels"]["kubernetes.io/metadata.name"] = name;
        }
        ("", "services") => {
            let spec = map_mut(object, "spec");
            default_to(spec, "type", "ClusterIP");
            default_to(spec, "clusterIP", "None");
            default_to(spec, "sessionAffinity", "None");
        }
        ("", "persistentvolumeclaims") => {
            default_to(map_mut(object, "spec"), "volumeMode", "Filesystem");
            default_to(map_mut(object, "status"), "phase", "Pending");
        }
        ("storage.k8s.io", "storageclasses") => {
            let class = object.as_object_mut().expect("invariant: an object");
            default_to(class, "reclaimPolicy", "Delete");
            default_to(class, "volumeBindingMode", "Immediate");
        }
        ("apps" | "batch", _) => workload::apply(&resource.plural, object),
        _ => {}
    }
}
