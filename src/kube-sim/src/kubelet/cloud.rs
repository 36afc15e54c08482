//! The part of a cloud controller manager that nodes need: Nodes of machines that are gone are deleted.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_model::clock::later;
use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
};

use super::Pass;

/// Time for which a machine must be missing: lists of clouds lag behind launches.
const PATIENCE: Duration = Duration::from_secs(5);

impl Pass<'_> {
    /// Deletes the Node of a machine that is gone, when the options say so.
    pub(super) async fn release_node(&mut self, name: &str) {
        if !self.agent.options.cloud_node_lifecycle {
            return;
        }
        let there = |id: &str| self.fleet.there.contains(id);
        let node = self.view.node(name);
        let Some(node) = node.filter(|node| provider_id(node).is_some_and(|id| !there(id))) else {
            self.notes.lock().machines_missing_since.remove(name);
            return;
        };
        let since = *self.notes.lock().machines_missing_since.entry(name.to_owned()).or_insert(self.now);
        let already = node.metadata.deletion_timestamp.is_some();
        if !already && self.is_due(later(since, PATIENCE)) {
            let only_this = Preconditions { uid: node.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
            let deleted = self.nodes().delete(name, &params).await;
            self.report("delete node", name, deleted);
        }
    }
}

/// Returns the id of a machine of the cloud: no other can be missing there.
fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| id.starts_with("aws:///"))
}
