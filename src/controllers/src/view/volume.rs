//! Volume attachments that a drain has to wait for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::Key;
use karpenter_lifecycle::node::volumes::{self, Attachment};
use karpenter_model::pod::volume::resolve::ClaimFacts;
use karpenter_model::{Namespace, NodeName, Pod, VolumeClaimName};
use kube::ResourceExt;

use super::View;
use super::follow::Followed;

/// Attachments by Node and name.
pub(super) type Attachments = BTreeMap<NodeName, BTreeMap<String, Attachment>>;

impl Followed for VolumeAttachment {
    fn applied(self, view: &View) {
        let node: NodeName = self.spec.node_name.as_str().into();
        let volume = self.spec.source.persistent_volume_name.clone();
        let attachment = Attachment { name: self.name_any(), volume };
        view.lock().attachments.entry(node.clone()).or_default().insert(self.name_any(), attachment);
        view.subscribers.wake_node(&node);
    }

    fn deleted(self, view: &View) {
        let node: NodeName = self.spec.node_name.as_str().into();
        let attachments = &mut view.lock().attachments;
        if let Some(of_node) = attachments.get_mut(&node) {
            of_node.remove(&self.name_any());
            if of_node.is_empty() {
                attachments.remove(&node);
            }
        }
        view.subscribers.wake_node(&node);
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, _: Epoch) {
        let attachments = &mut view.lock().attachments;
        // Wakes no Node: drains that wait for attachments look again every second.
        for of_node in attachments.values_mut() {
            // Attachments are in no namespace.
            of_node.retain(|name, _| keys.contains(&(String::new(), name.clone())));
        }
        attachments.retain(|_, of_node| !of_node.is_empty());
    }
}

impl View {
    /// Names of the attachments of a Node that its drain has to wait for.
    pub(crate) fn blocking_attachments<'a>(
        &self,
        node: &NodeName,
        pods: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Vec<String> {
        let inner = self.lock();
        let of_node = inner.attachments.get(node).into_iter().flat_map(BTreeMap::values);
        let attachments: Vec<Attachment> = of_node.cloned().collect();
        let volume_of = |namespace: &Namespace, claim: &VolumeClaimName| {
            inner.cluster.get::<ClaimFacts>(&(namespace.clone(), claim.clone()))?.model.volume.clone()
        };
        volumes::blocking(&attachments, pods, volume_of, now)
    }
}

#[cfg(test)]
mod tests;
