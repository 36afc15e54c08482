//! The hash of the static fields, on the NodeClass and, when the algorithm changes, on its claims
//! (spec aws-provider 1.8).

use karpenter_api::annotations::aws::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION};
use karpenter_api::ec2nodeclass::HASH_VERSION;
use karpenter_api::{EC2NodeClass, NodeClaim, conditions};
use karpenter_controllers::write;
use kube::ResourceExt;
use serde_json::json;

use super::Reconciler;
use crate::Error;

impl Reconciler {
    /// Writes hash and version where they are not up to date; returns the object if it was written.
    ///
    /// When the version changes, claims are stamped first: a crash in between only stamps them again, while the
    /// other order would compare hashes of two algorithms.
    pub(super) async fn hash(&self, class: &EC2NodeClass) -> Result<Option<EC2NodeClass>, Error> {
        let hash = class.hash(self.context.aws.ca_bundle());
        let stored = |key: &str| class.annotations().get(key).map(String::as_str);
        if stored(EC2_NODE_CLASS_HASH_VERSION) != Some(HASH_VERSION) {
            self.stamp_claims(class, &hash).await?;
        } else if stored(EC2_NODE_CLASS_HASH) == Some(hash.as_str()) {
            return Ok(None);
        }
        let change = stamp(Some(&hash));
        let api = self.context.common.all::<EC2NodeClass>();
        let written = write::merge(&api, &class.name_any(), &change).await?;
        Ok(written.map(|written| self.take(written)))
    }

    /// Claims already known to be drifted keep their old hash, so that they stay drifted.
    async fn stamp_claims(&self, class: &EC2NodeClass, hash: &str) -> Result<(), Error> {
        let view = &self.context.common.view;
        let name = class.name_any();
        let api = self.context.common.all::<NodeClaim>();
        for known in view.claims() {
            let claim = &known.object;
            let current = claim.annotations().get(EC2_NODE_CLASS_HASH_VERSION).map(String::as_str);
            if known.model.node_class.name != name || current == Some(HASH_VERSION) {
                continue;
            }
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            let drifted = conditions.into_iter().any(|one| one.kind == conditions::nodeclaim::DRIFTED);
            let change = stamp(if drifted { None } else { Some(hash) });
            if let Some(written) = write::merge(&api, &claim.name_any(), &change).await? {
                view.put_claim(written);
            }
        }
        Ok(())
    }
}

fn stamp(hash: Option<&str>) -> serde_json::Value {
    match hash {
        Some(hash) => json!({"metadata": {"annotations": {
            EC2_NODE_CLASS_HASH: hash,
            EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION,
        }}}),
        None => json!({"metadata": {"annotations": {EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION}}}),
    }
}
