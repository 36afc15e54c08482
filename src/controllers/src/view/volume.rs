//! Volumes: what the persistent volume claims of pods mean for placement, how many volumes Nodes can attach, and
//! which attachments a drain has to wait for.
//!
//! A claim is resolved again whenever it, its volume or its class changes; what it means is
//! `karpenter_model::pod::volume::resolve`'s to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_api::convert;
use karpenter_cluster::{Event, Seen as Told, VolumeObject};
use karpenter_kube_harness::watch::{Key, Seen, key, missing};
use karpenter_lifecycle::node::volumes::{self, Attachment};
use karpenter_model::pod::volume::resolve::{ClaimFacts, ClassFacts, Unsupported, VolumeFacts, resolve};
use karpenter_model::{Namespace, NodeName, Pod, VolumeClaimName};
use kube::ResourceExt;

use super::{Inner, View};
use crate::view::read;

/// Everything about volumes, reduced to what is read.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "`volumes` are the objects of kind PersistentVolume")]
pub(super) struct Volumes {
    /// By Node and name.
    attachments: BTreeMap<NodeName, BTreeMap<String, Attachment>>,
    claims: BTreeMap<Key, ClaimFacts>,
    /// The claims that name a volume.
    claims_of: BTreeMap<String, BTreeSet<Key>>,
    volumes: BTreeMap<String, VolumeFacts>,
    classes: BTreeMap<String, ClassFacts>,
    limited: BTreeSet<NodeName>,
    listed: BTreeSet<&'static str>,
}

/// Kinds without which pods with volumes would be refused because something does not exist, and machines
/// would be terminated while volumes are still attached to them.
const NEEDED: [&str; 4] = ["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "VolumeAttachment"];

impl Volumes {
    /// The needed kinds that have never been listed.
    pub(super) fn unlisted(&self) -> impl Iterator<Item = &'static str> {
        NEEDED.into_iter().filter(|kind| !self.listed.contains(kind))
    }

    fn put_claim(&mut self, key: Key, claim: ClaimFacts) {
        self.drop_claim(&key);
        if let Some(volume) = &claim.volume {
            self.claims_of.entry(volume.clone()).or_default().insert(key.clone());
        }
        self.claims.insert(key, claim);
    }

    fn drop_claim(&mut self, key: &Key) {
        let volume = self.claims.remove(key).and_then(|claim| claim.volume);
        if let Some(volume) = volume
            && let Some(keys) = self.claims_of.get_mut(&volume)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.claims_of.remove(&volume);
            }
        }
    }
}

impl Inner {
    /// Resolves a claim again and updates the index.
    fn derive_volume(&mut self, key: &Key) {
        let version = self.derived();
        let (namespace, name) = (Namespace::from(key.0.as_str()), VolumeClaimName::from(key.1.as_str()));
        let Volumes { claims, volumes, classes, .. } = &self.volumes;
        let event = match claims.get(key) {
            None => Event::Volume(Told::Gone { key: (namespace, name), version }),
            Some(claim) => {
                let volume = |name: &str| volumes.get(name);
                let class = |name: &str| classes.get(name);
                let resolved = resolve(Some(claim), volume, class, &Unsupported::default());
                Event::volume(version, VolumeObject { namespace, name, volume: Arc::new(resolved) })
            }
        };
        self.cluster.apply(event);
    }

    /// Resolves the claims of a volume again.
    fn derive_claims_of(&mut self, volume: &str) {
        for key in self.volumes.claims_of.get(volume).cloned().unwrap_or_default() {
            self.derive_volume(&key);
        }
    }

    /// Resolves again every claim that `concerned` picks.
    fn derive_volumes(&mut self, concerned: impl Fn(&ClaimFacts) -> bool) {
        let keys = self.volumes.claims.iter().filter(|(_, claim)| concerned(claim)).map(|(key, _)| key);
        for key in keys.cloned().collect::<Vec<_>>() {
            self.derive_volume(&key);
        }
    }
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
        let of_node = inner.volumes.attachments.get(node).into_iter().flat_map(BTreeMap::values);
        let attachments: Vec<Attachment> = of_node.cloned().collect();
        let claims = &inner.volumes.claims;
        let volume_of = |namespace: &Namespace, claim: &VolumeClaimName| {
            claims.get(&(namespace.to_string(), claim.to_string()))?.volume.clone()
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
                let attachments = &mut self.lock().volumes.attachments;
                attachments.entry(node.clone()).or_default().insert(object.name_any(), attachment);
                node
            }
            Seen::Deleted(object) => {
                let node: NodeName = object.spec.node_name.as_str().into();
                let attachments = &mut self.lock().volumes.attachments;
                if let Some(of_node) = attachments.get_mut(&node) {
                    of_node.remove(&object.name_any());
                    if of_node.is_empty() {
                        attachments.remove(&node);
                    }
                }
                node
            }
            Seen::Complete(keys) => {
                let listed = |name: &String| keys.contains(&(String::new(), name.clone()));
                let volumes = &mut self.lock().volumes;
                for of_node in volumes.attachments.values_mut() {
                    of_node.retain(|name, _| listed(name));
                }
                volumes.attachments.retain(|_, of_node| !of_node.is_empty());
                volumes.listed.insert("VolumeAttachment");
                return;
            }
        };
        self.subscribers.wake_node(&node);
    }

    /// Takes in what the watch of persistent volume claims said.
    pub fn volume_claim_seen(&self, seen: Seen<PersistentVolumeClaim>) {
        let mut inner = self.lock();
        match seen {
            Seen::Listing => {}
            Seen::Listed(claim) | Seen::Applied(claim) => {
                inner.volumes.put_claim(key(&claim), convert::volume_claim(&claim));
                inner.derive_volume(&key(&claim));
            }
            Seen::Deleted(claim) => {
                inner.volumes.drop_claim(&key(&claim));
                inner.derive_volume(&key(&claim));
            }
            Seen::Complete(keys) => {
                inner.volumes.listed.insert("PersistentVolumeClaim");
                let known = inner.volumes.claims.keys();
                for gone in known.filter(|claim| !keys.contains(*claim)).cloned().collect::<Vec<_>>() {
                    inner.volumes.drop_claim(&gone);
                    inner.derive_volume(&gone);
                }
            }
        }
    }

    /// Takes in what the watch of persistent volumes said.
    pub fn volume_seen(&self, seen: Seen<PersistentVolume>) {
        let mut inner = self.lock();
        let gone = match seen {
            Seen::Listing => return,
            Seen::Listed(object) | Seen::Applied(object) => {
                let Some(facts) = read::volume(&object) else { return };
                let name = object.name_any();
                if inner.volumes.volumes.insert(name.clone(), facts.clone()) != Some(facts) {
                    inner.derive_claims_of(&name);
                }
                return;
            }
            Seen::Deleted(object) => vec![object.name_any()],
            Seen::Complete(keys) => {
                inner.volumes.listed.insert("PersistentVolume");
                missing(inner.volumes.volumes.keys().cloned(), &keys)
            }
        };
        for name in gone {
            inner.volumes.volumes.remove(&name);
            inner.derive_claims_of(&name);
        }
    }

    /// Takes in what the watch of storage classes said.
    pub fn storage_class_seen(&self, seen: Seen<StorageClass>) {
        let mut inner = self.lock();
        let gone = match seen {
            Seen::Listing => return,
            Seen::Listed(object) | Seen::Applied(object) => {
                let (name, facts) = (object.name_any(), convert::storage_class(&object));
                if inner.volumes.classes.insert(name.clone(), facts.clone()) != Some(facts) {
                    inner.derive_volumes(|claim| claim.class.as_ref() == Some(&name));
                }
                return;
            }
            Seen::Deleted(object) => vec![object.name_any()],
            Seen::Complete(keys) => {
                inner.volumes.listed.insert("StorageClass");
                missing(inner.volumes.classes.keys().cloned(), &keys)
            }
        };
        for name in gone {
            inner.volumes.classes.remove(&name);
            inner.derive_volumes(|claim| claim.class.as_ref() == Some(&name));
        }
    }

    /// Takes in what the watch of `CSINode`s said; each has the name of its Node.
    pub fn csi_node_seen(&self, seen: Seen<CSINode>) {
        let mut inner = self.lock();
        let gone: Vec<NodeName> = match seen {
            Seen::Listing => return,
            Seen::Listed(object) | Seen::Applied(object) => {
                let node = NodeName::from(object.name_any().as_str());
                inner.cluster.set_attach_limits(&node, convert::attach_limits(&object));
                inner.volumes.limited.insert(node);
                return;
            }
            Seen::Deleted(object) => vec![object.name_any().as_str().into()],
            Seen::Complete(keys) => {
                let listed = |node: &&NodeName| keys.contains(&(String::new(), node.to_string()));
                inner.volumes.limited.iter().filter(|node| !listed(node)).cloned().collect()
            }
        };
        for node in gone {
            inner.volumes.limited.remove(&node);
            inner.cluster.set_attach_limits(&node, BTreeMap::new());
        }
    }
}

#[cfg(test)]
mod tests;
