//! Volume attachments, and which volume a claim is bound to: what a drain has to wait for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_lifecycle::volumes::{self, Attachment};
use karpenter_model::{Namespace, NodeName, Pod, VolumeClaimName};
use kube::ResourceExt;

use super::View;
use crate::watch::{Key, Seen, key};

/// Attachments by name, and volume names by claim.
#[derive(Default)]
pub(super) struct Volumes {
    attachments: BTreeMap<String, (NodeName, Attachment)>,
    bound: BTreeMap<Key, String>,
}

impl View {
    /// Names of the attachments of a Node that its drain has to wait for.
    pub fn blocking_attachments<'a>(
        &self,
        node: &NodeName,
        pods: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Vec<String> {
        let inner = self.lock();
        let of_node = inner.volumes.attachments.values().filter(|(of, _)| of == node);
        let attachments: Vec<Attachment> = of_node.map(|(_, attachment)| attachment.clone()).collect();
        let bound = &inner.volumes.bound;
        let volume_of = |namespace: &Namespace, claim: &VolumeClaimName| {
            bound.get(&(namespace.to_string(), claim.to_string())).cloned()
        };
        volumes::blocking(&attachments, pods, volume_of, now)
    }

    /// Takes in what the watch of volume attachments said.
    pub fn attachment_seen(&self, seen: Seen<VolumeAttachment>) {
        let node = match seen {
            Seen::Listing => return,
            Seen::Listed(object) | Seen::Applied(object) => {
                let node: NodeName = object.spec.node_name.as_str().into();
                let volume = object.spec.source.persistent_volume_name.clone();
                let attachment = Attachment { name: object.name_any(), volume };
                self.lock().volumes.attachments.insert(object.name_any(), (node.clone(), attachment));
                node
            }
            Seen::Deleted(object) => {
                self.lock().volumes.attachments.remove(&object.name_any());
                object.spec.node_name.as_str().into()
            }
            Seen::Complete(keys) => {
                let listed = |name: &String| keys.contains(&(String::new(), name.clone()));
                self.lock().volumes.attachments.retain(|name, _| listed(name));
                return;
            }
        };
        self.subscribers.wake_node(&node);
    }

    /// Takes in what the watch of persistent volume claims said.
    pub fn volume_claim_seen(&self, seen: Seen<PersistentVolumeClaim>) {
        let bound = &mut self.lock().volumes.bound;
        match seen {
            Seen::Listing => {}
            Seen::Listed(claim) | Seen::Applied(claim) => {
                match claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()) {
                    Some(volume) => bound.insert(key(&claim), volume),
                    None => bound.remove(&key(&claim)),
                };
            }
            Seen::Deleted(claim) => {
                bound.remove(&key(&claim));
            }
            Seen::Complete(keys) => bound.retain(|claim, _| keys.contains(claim)),
        }
    }
}
