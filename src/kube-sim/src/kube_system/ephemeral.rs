//! Claims that pods bring along: one for each ephemeral volume, controlled by its pod and gone with it.
//!
//! A claim of that name that is there already is left alone; the pod of which it is not waits. Claims of pods that have a node
//! are not made again.

use serde_json::json;

use super::{StandIn, cluster::Cluster, template, volumes::brought};
use crate::apiserver::object::{self, at};

pub(super) struct EphemeralClaims;

impl StandIn for EphemeralClaims {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "pods"), ("", "persistentvolumeclaims")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        for pod in cluster.pods.unbound().filter(|pod| pod.is_active()) {
            for (key, template) in brought(&pod.object) {
                let field = |name| at(template, name).cloned().unwrap_or_else(|| json!({}));
                let claim = json!({
                    "metadata": {
                        "name": key.name, "labels": field("/metadata/labels"), "annotations": field("/metadata/annotations"),
                        "ownerReferences": [template::reference(&pod.object, "Pod")],
                    },
                    "spec": field("/spec"),
                });
                let _there_already =
                    cluster.create("", "persistentvolumeclaims", object::namespace(&pod.object), claim);
            }
        }
    }
}
