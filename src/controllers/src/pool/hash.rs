//! `nodepool.hash`: stamps pools with the hash of their template, and claims when the algorithm changed.

use std::iter;
use std::sync::LazyLock;

use karpenter_api::{NodeClaim, NodePool};
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_kube_harness::write::{self, locked};
use karpenter_lifecycle::pool::status::hash;
use karpenter_model::{Annotations, PoolName};
use kube::Resource;
use serde_json::{Value, json};

use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodepool.hash";

/// The reconciler.
pub(crate) struct Hash;

impl Reconciler for Hash {
    type Key = PoolName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(10, 1000))
    }

    async fn pass(&self, context: &Context, name: &PoolName) -> Result<Done, Error> {
        let Some(pool) = context.view.pool(name) else { return Ok(Done::idle()) };
        // Asked for only where the version of the hash has changed.
        let claims = LazyLock::new(|| context.view.claims());
        let owned = || claims.iter().filter(|known| known.model.pool.as_ref() == Some(name));
        let stored = pool.object.metadata.annotations.clone().unwrap_or_default();
        let owned_models = iter::once_with(owned).flatten().map(|known| &*known.model);
        let stamps = hash::stamps(&stored, &pool.model.hash, owned_models);
        if stamps == hash::Stamps::default() {
            return Ok(Done::idle());
        }
        for (claim, annotations) in &stamps.claims {
            let Some(known) = owned().find(|known| known.model.name == *claim) else { continue };
            let patch = stamp(&*known.object, annotations);
            if let Some(claim) = write::merge(&context.all::<NodeClaim>(), claim.as_str(), &patch).await? {
                context.view.put_claim(claim);
            }
        }
        if !stamps.pool.is_empty() {
            let patch = stamp(&*pool.object, &stamps.pool);
            if let Some(pool) = write::merge(&context.all::<NodePool>(), name.as_str(), &patch).await? {
                context.view.put_pool(pool);
            }
        }
        Ok(Done::applied())
    }
}

/// Locked: the stamp belongs to the version of the object it was computed from.
fn stamp<K: Resource>(object: &K, annotations: &Annotations) -> Value {
    locked(object, json!({"metadata": {"annotations": annotations}}))
}
