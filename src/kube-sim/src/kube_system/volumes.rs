//! Volumes: made in the zone of the node that their first pod is bound to, attached there while a pod uses them, and
//! detached a while after.
//!
//! The scheduler binds the pod before its volume is there, where the real one waits for it, and containers start without
//! waiting for it to be attached. Every claim is for one node at a time and waits for its first consumer, whatever its class
//! says, and takes its volume along when it goes. Nothing is resized.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::names::{annotation, label};
use serde_json::{Value, json};

use super::{StandIn, VOLUME_DRIVER as DRIVER, cluster::Cluster};
use crate::apiserver::{
    object::{self, Key, at, list, text},
    store::Part,
};

/// Time for which a volume stays attached to a node that is gone: nothing there reports that it is not written to any more.
const FORCED: SignedDuration = SignedDuration::from_mins(6);

/// Remembers since when volumes are attached without use.
pub(super) struct Volumes {
    /// Time from the last pod that goes to the end of the attachment.
    detach: SignedDuration,
    unused: BTreeMap<Key, Timestamp>,
    /// Claims, by uid, for which volumes were made.
    made: BTreeSet<String>,
}

impl Volumes {
    pub(super) fn new(detach: Duration) -> Self {
        Self {
            detach: SignedDuration::try_from(detach).unwrap_or(SignedDuration::MAX),
            unused: BTreeMap::new(),
            made: BTreeSet::new(),
        }
    }
}

impl StandIn for Volumes {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "pods"), ("", "persistentvolumeclaims"), ("storage.k8s.io", "volumeattachments")]
    }

    fn watches_time(&self) -> bool {
        !self.unused.is_empty()
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let claims = cluster.list("", "persistentvolumeclaims");
        self.reclaim(cluster, &claims);
        let mut attachments = cluster.list("storage.k8s.io", "volumeattachments");
        // Another client's attachments are ended by that client.
        attachments.retain(|one| object::name(one) == name_of(volume_of(one), text(one, "/spec/nodeName")));
        if claims.is_empty() && attachments.is_empty() {
            return;
        }
        let claims: BTreeMap<Key, Arc<Value>> =
            claims.into_iter().map(|claim| (Key::of(&claim), claim)).collect();
        let mut used = self.in_use(cluster, &claims);
        let mut attached = BTreeSet::new();
        for attachment in &attachments {
            let volume = volume_of(attachment);
            let node = text(attachment, "/spec/nodeName");
            let in_use = used.remove(&(volume.to_owned(), node.to_owned()));
            if in_use {
                self.unused.remove(&Key::of(attachment));
            }
            if in_use || !self.is_over(cluster, attachment, node) {
                attached.insert(volume);
            } else {
                cluster.delete("storage.k8s.io", "volumeattachments", attachment);
            }
        }
        let there: BTreeSet<Key> = attachments.iter().map(|one| Key::of(one)).collect();
        self.unused.retain(|key, _| there.contains(key));
        for (volume, node) in used.iter().filter(|(volume, _)| !attached.contains(volume.as_str())) {
            attach(cluster, volume, node);
        }
    }
}

impl Volumes {
    /// Deletes volumes that were made for claims which are gone; those of other clients stay.
    fn reclaim(&mut self, cluster: &Cluster<'_>, claims: &[Arc<Value>]) {
        let there: BTreeSet<&str> = claims.iter().map(|claim| object::uid(claim)).collect();
        self.made.retain(|claim| {
            let stays = there.contains(claim.as_str());
            if !stays {
                let volume = json!({"metadata": {"name": volume_for(claim)}});
                cluster.delete("", "persistentvolumes", &volume);
            }
            stays
        });
    }

    /// Returns whether an attachment that no pod needs has been there for long enough.
    fn is_over(&mut self, cluster: &Cluster<'_>, attachment: &Value, node: &str) -> bool {
        let since = *self.unused.entry(Key::of(attachment)).or_insert(cluster.now);
        let patience = if cluster.node(node).is_some() { self.detach } else { FORCED };
        cluster.now.duration_since(since) >= patience
    }

    /// Volumes and the nodes where pods use them, after those that were missing are made.
    fn in_use(
        &mut self,
        cluster: &Cluster<'_>,
        claims: &BTreeMap<Key, Arc<Value>>,
    ) -> BTreeSet<(String, String)> {
        let mut used = BTreeSet::new();
        for pod in cluster.pods.bound().filter(|pod| !pod.ended) {
            let node = text(&pod.object, "/spec/nodeName");
            for key in claims_of(&pod.object) {
                let Some(claim) = claims.get(&key) else { continue };
                let volume = match text(claim, "/spec/volumeName") {
                    "" => {
                        self.made.insert(object::uid(claim).to_owned());
                        make(cluster, claim, node)
                    }
                    name => name.to_owned(),
                };
                used.insert((volume, node.to_owned()));
            }
        }
        used
    }
}

/// Makes the volume of a claim where a node can reach it.
fn make(cluster: &Cluster<'_>, claim: &Value, node: &str) -> String {
    let name = volume_for(object::uid(claim));
    let node = cluster.node(node);
    let zone = node.as_deref().and_then(|node| object::label(node, label::ZONE)).unwrap_or_default();
    let key = Key::of(claim);
    let reach = json!({"nodeSelectorTerms": [{"matchExpressions": [
        {"key": label::ZONE, "operator": "In", "values": [zone]},
    ]}]});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
            "claimRef": {"namespace": key.namespace, "name": key.name, "uid": object::uid(claim)},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": reach},
            "storageClassName": claim["spec"]["storageClassName"],
        },
    });
    cluster.create("", "persistentvolumes", "", volume);
    let bound = json!({
        "metadata": {"annotations": {annotation::BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name},
    });
    cluster.patch("", "persistentvolumeclaims", claim, Part::Main, bound);
    cluster.patch("", "persistentvolumeclaims", claim, Part::Status, json!({"status": {"phase": "Bound"}}));
    name
}

fn attach(cluster: &Cluster<'_>, volume: &str, node: &str) {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": name_of(volume, node)},
        "spec": {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    cluster.create("storage.k8s.io", "volumeattachments", "", attachment.clone());
    let attached = json!({"status": {"attached": true}});
    cluster.patch("storage.k8s.io", "volumeattachments", &attachment, Part::Status, attached);
}

fn volume_for(claim: &str) -> String {
    format!("pvc-{claim}")
}

fn name_of(volume: &str, node: &str) -> String {
    format!("csi-{volume}-{node}")
}

fn volume_of(attachment: &Value) -> &str {
    text(attachment, "/spec/source/persistentVolumeName")
}

/// The claims a pod uses, those that it brings along among them.
pub(super) fn claims_of(pod: &Value) -> impl Iterator<Item = Key> {
    let namespace = object::namespace(pod);
    let named =
        list(pod, "/spec/volumes").iter().map(|volume| text(volume, "/persistentVolumeClaim/claimName"));
    let named = named.filter(|name| !name.is_empty()).map(move |name| Key::new(namespace, name));
    named.chain(brought(pod).map(|(key, _)| key))
}

/// The claims a pod brings along, with their templates.
pub(super) fn brought(pod: &Value) -> impl Iterator<Item = (Key, &Value)> {
    list(pod, "/spec/volumes").iter().filter_map(|volume| {
        let template = at(volume, "/ephemeral/volumeClaimTemplate")?;
        let name = format!("{}-{}", object::name(pod), text(volume, "/name"));
        Some((Key::new(object::namespace(pod), name), template))
    })
}
