//! The part of a cloud controller manager that nodes need: Nodes of machines that are gone are deleted.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{
    ResourceExt,
    api::{DeleteParams, Preconditions},
};

use super::{Machine, MachineState, Memory, Pass, after, report};

/// How long a machine must be missing: lists of clouds lag behind launches.
const PATIENCE: Duration = Duration::from_secs(5);

impl Pass<'_> {
    /// Deletes the Nodes of machines that are gone, when the options say so.
    pub(super) async fn release_nodes(&mut self, machines: &[Machine], memory: &mut Memory) {
        if !self.agent.options.cloud_node_lifecycle {
            return;
        }
        let exists =
            |id: &str| machines.iter().any(|m| m.provider_id == id && m.state != MachineState::Terminated);
        let nodes = self.view.nodes();
        let gone: Vec<_> = nodes.iter().filter(|n| provider_id(n).is_some_and(|id| !exists(id))).collect();
        memory.machines_missing_since.retain(|name, _| gone.iter().any(|n| n.name_any() == *name));
        for node in gone {
            let name = node.name_any();
            let since = *memory.machines_missing_since.entry(name.clone()).or_insert(self.now);
            let already = node.metadata.deletion_timestamp.is_some();
            if !already && self.is_due(after(since, PATIENCE)) {
                let only_this = Preconditions { uid: node.uid(), resource_version: None };
                let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
                report("delete node", &name, self.nodes().delete(&name, &params).await);
            }
        }
    }
}

/// Only machines of the cloud can be missing there.
fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| id.starts_with("aws:///"))
}
