//! The hash of the static fields, on the `NodeClass` and, when the algorithm changes, on its claims
//! (spec aws-provider 1.8).

use karpenter_api::ec2nodeclass::HASH_VERSION;
use karpenter_api::{EC2NodeClass, NodeClaim};
use karpenter_kube_harness::write;
use karpenter_model::names::{
    annotation::aws::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION},
    condition,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Reconciler;
use crate::Error;

/// The state of the hash after one pass.
pub(super) enum Hashed {
    /// It was up to date.
    Current,
    /// It was written; the object as it is now.
    Written(Box<EC2NodeClass>),
    /// The claims are not all known yet, so they cannot be stamped.
    Wait,
}

impl Reconciler {
    /// Writes hash and version where they are not up to date.
    ///
    /// A change of the version stamps the claims first: a crash in between only stamps them again, while the
    /// other order would compare hashes of two algorithms.
    pub(super) async fn hash(&self, class: &EC2NodeClass) -> Result<Hashed, Error> {
        let hash = class.hash(self.context.aws.ca_bundle());
        let stored = |key: &str| class.annotations().get(key).map(String::as_str);
        if stored(EC2_NODE_CLASS_HASH_VERSION) != Some(HASH_VERSION) {
            if !self.context.cluster_known() {
                return Ok(Hashed::Wait);
            }
            self.stamp_claims(&class.name_any(), &hash).await?;
        } else if stored(EC2_NODE_CLASS_HASH) == Some(hash.as_str()) {
            return Ok(Hashed::Current);
        }
        let api = self.context.common.all::<EC2NodeClass>();
        let written = write::merge(&api, &class.name_any(), &stamp(Some(&hash))).await?;
        Ok(written.map_or(Hashed::Current, |written| Hashed::Written(Box::new(self.take(written)))))
    }

    async fn stamp_claims(&self, class: &str, hash: &str) -> Result<(), Error> {
        let view = &self.context.common.view;
        let api = self.context.common.all::<NodeClaim>();
        for known in view.claims().into_iter().filter(|known| known.model.node_class.name == class) {
            let Some(change) = restamp(&known.object, hash) else { continue };
            if let Some(written) = write::merge(&api, &known.object.name_any(), &change).await? {
                view.put_claim(written);
            }
        }
        Ok(())
    }
}

/// The change that takes a claim to the present version; `None` when it is there. A claim already known to be
/// drifted keeps its old hash, so that it stays drifted.
fn restamp(claim: &NodeClaim, hash: &str) -> Option<Value> {
    if claim.annotations().get(EC2_NODE_CLASS_HASH_VERSION).map(String::as_str) == Some(HASH_VERSION) {
        return None;
    }
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    let drifted = conditions.any(|one| one.kind == condition::DRIFTED);
    Some(stamp(if drifted { None } else { Some(hash) }))
}

fn stamp(hash: Option<&str>) -> Value {
    match hash {
        Some(hash) => json!({"metadata": {"annotations": {
            EC2_NODE_CLASS_HASH: hash,
            EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION,
        }}}),
        None => json!({"metadata": {"annotations": {EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION}}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(version: &str, condition: Option<&str>) -> NodeClaim {
        let conditions: Vec<Value> = condition
            .into_iter()
            .map(
                |kind| json!({"type": kind, "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            )
            .collect();
        let object = json!({
            "metadata": {"name": "a", "annotations": {EC2_NODE_CLASS_HASH_VERSION: version}},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn claims_of_another_version_are_stamped_and_drifted_ones_keep_their_hash() {
        assert_eq!(restamp(&claim(HASH_VERSION, None), "7"), None);
        // The last one is of a newer controller, from which there was a step back.
        for version in ["v4", "v5", "v7"] {
            assert_eq!(restamp(&claim(version, None), "7"), Some(stamp(Some("7"))));
            assert_eq!(restamp(&claim(version, Some("Registered")), "7"), Some(stamp(Some("7"))));
            let drifted = restamp(&claim(version, Some("Drifted")), "7");
            assert_eq!(drifted, Some(stamp(None)), "whatever its status");
        }
    }
}
