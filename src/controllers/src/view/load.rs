//! Objects taken in at once, each kind as a complete list: what a plan of a file or of one look at a cluster is made from.
//!
//! It is the same way in that the watches take, so a plan made here reads objects as the controller does.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::convert::Admission;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_kube_harness::watch::{Key, Seen, key};
use karpenter_model::{InstanceType, PoolName};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use super::View;
use super::follow::Followed;

/// An object that could not be read and takes no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {kind} `{name}`: {problem}; it takes no part")]
pub struct Unread {
    /// `NodePool`.
    pub kind: String,
    /// `metadata.name`, with the namespace in front where there is one.
    pub name: String,
    /// Fault that keeps it from being read.
    pub problem: String,
}

impl View {
    /// Takes `objects` for everything there is of the kinds that decisions read; others are left out. Returns what could
    /// not be read.
    pub fn load(&self, objects: &[Value]) -> Vec<Unread> {
        // The set of watched kinds does not matter here: templates are admitted by all there is.
        self.lock().admission = Arc::new(Admission::of(objects));
        let spreads = !self.lock().cluster.settings().default_spread.is_empty();
        let mut loading = Loading { view: self, objects, unread: Vec::new() };
        loading.all::<Namespace>();
        loading.all::<LimitRange>();
        loading.all::<StorageClass>();
        loading.all::<PersistentVolume>();
        loading.all::<PersistentVolumeClaim>();
        loading.all::<CSINode>();
        loading.all::<VolumeAttachment>();
        loading.all::<NodePool>();
        loading.all::<NodeClaim>();
        loading.all::<Node>();
        loading.all::<DaemonSet>();
        if spreads {
            loading.all::<Service>();
            loading.all::<ReplicaSet>();
            loading.all::<StatefulSet>();
            loading.all::<ReplicationController>();
        }
        loading.all::<Pod>();
        loading.all::<PodDisruptionBudget>();
        loading.all::<ResourceSlice>();
        loading.all::<DeviceClass>();
        loading.all::<ResourceClaim>();
        let unread = loading.unread;
        if spreads {
            self.assume_owners();
        }
        unread
    }

    /// Sets what a pool can launch; `None` when that is not known, so that it takes no new nodes.
    pub fn set_instance_types(&self, pool: &PoolName, types: Option<Arc<[Arc<InstanceType>]>>) {
        self.with_cluster(|cluster| cluster.set_instance_types(pool, types));
    }
}

struct Loading<'a> {
    view: &'a View,
    objects: &'a [Value],
    unread: Vec<Unread>,
}

impl Loading<'_> {
    fn all<K: Followed + for<'de> Deserialize<'de>>(&mut self) {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        self.view.take::<K>(Seen::Listing);
        for object in self.objects.iter().filter(|object| is::<K>(object)) {
            match serde_path_to_error::deserialize::<_, K>(object) {
                Ok(read) => {
                    keys.insert(key(&read));
                    self.view.take(Seen::Listed(read));
                }
                Err(error) => self.unread.push(unread(object, error)),
            }
        }
        self.view.take::<K>(Seen::Complete(keys));
    }
}

/// Returns whether an object is of this kind, in whatever version.
fn is<K: Resource<DynamicType = ()>>(object: &Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    object["kind"] == *K::kind(&()) && group == K::group(&())
}

fn unread(object: &Value, problem: impl Display) -> Unread {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let name = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    Unread { kind: text("/kind").to_owned(), name, problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use crate::fixture::{World, pool};

    #[tokio::test(start_paused = true)]
    async fn a_loaded_view_is_complete_and_has_every_object() {
        let view = World::new().context.view;
        assert!(view.snapshot(Timestamp::UNIX_EPOCH).is_none(), "nothing was listed");
        let mut default = serde_json::to_value(pool("default")).unwrap();
        default["apiVersion"] = json!("karpenter.sh/v1");
        default["kind"] = json!("NodePool");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop", "uid": "u"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        let broken = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": 5});
        let other = json!({"apiVersion": "example.com/v1", "kind": "Pod", "metadata": {"name": "b"}});
        let unread = view.load(&[default, pod, broken, other]);
        let messages: Vec<String> = unread.iter().map(ToString::to_string).collect();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].starts_with("cannot read Node `n`: "), "{messages:?}");
        let snapshot = view.snapshot(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(snapshot.pools.len(), 1);
        let pending: Vec<String> = snapshot.pending.iter().map(|pod| pod.key.to_string()).collect();
        assert_eq!(pending, ["shop/a"]);
    }
}
