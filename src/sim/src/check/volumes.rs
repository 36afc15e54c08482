//! Volumes: a machine whose pods have left is terminated only when their volumes are detached, unless its claim has a deadline:
//! a termination grace period, or a repair.

use std::collections::BTreeMap;

use karpenter_aws_api::id::InstanceId;
use karpenter_kube_sim::apiserver::object::{self, Key, text};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use karpenter_model::names::annotation;

use super::{Found, OUTDATED, Scene, claim_of};

/// Attachments there are, the Node each is to, and since when.
#[derive(Default)]
pub(super) struct Volumes(BTreeMap<Key, (String, u64)>);

impl Volumes {
    /// An attachment changes.
    pub(super) fn attachment(&mut self, change: &Change, now: u64) {
        let key = Key::of(&change.object);
        if change.kind == ChangeKind::Deleted {
            self.0.remove(&key);
        } else {
            self.0.entry(key).or_insert_with(|| (text(&change.object, "/spec/nodeName").to_owned(), now));
        }
    }

    /// A controller terminates instances: none that a volume is attached to which it must know of. A pod that is still there
    /// never leaves, and its volume does not either.
    pub(super) fn terminating(&self, scene: &Scene, ids: &[InstanceId], now: u64, found: &mut Found) {
        for instance in scene.alive().filter(|instance| ids.contains(&instance.id)) {
            let Some(claim) = scene.claim(claim_of(instance)) else { continue };
            let Some((node, _)) = scene.node_of_claim(claim) else { continue };
            let hurries = object::annotation(claim, annotation::TERMINATION_TIMESTAMP).is_some();
            if hurries || !object::is_deleting(claim) || scene.pods_on(&node.name).next().is_some() {
                continue;
            }
            let attached =
                self.0.iter().filter(|(_, (to, since))| *to == node.name && since + OUTDATED < now);
            for (attachment, _) in attached {
                found.push((
                    "attached volume",
                    format!("{} is terminated with {}", instance.id, attachment.name),
                ));
            }
        }
    }
}
