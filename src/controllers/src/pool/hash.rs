//! `nodepool.hash`: stamps pools with the hash of their template, and claims when the algorithm changed.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::{NodeClaim, NodePool};
use karpenter_lifecycle::nodepool::hash;
use karpenter_model::{Annotations, PoolName};
use kube::Resource;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::claim::lifecycle::settled;
use crate::queue::{Done, Spec, Work};
use crate::write::{self, locked};
use crate::{Context, Error};

const NAME: &str = "nodepool.hash";

/// Runs until `shutdown`.
pub(crate) async fn run(work: Work<PoolName>, context: Context, shutdown: CancellationToken) {
    let spec = Spec {
        name: NAME,
        concurrency: context.settings.concurrency(10, 1000),
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_mins(1),
    };
    let metrics = Arc::clone(&context.metrics);
    let pass = move |name| {
        let context = context.clone();
        async move { settled(reconcile(&context, &name).await) }
    };
    work.run(spec, metrics, shutdown, pass).await;
}

async fn reconcile(context: &Context, name: &PoolName) -> Result<Done, Error> {
    let Some(pool) = context.view.pool(name) else { return Ok(Done::idle()) };
    let claims = context.view.claims();
    let owned = claims.iter().filter(|known| known.model.pool.as_ref() == Some(name));
    let stored = pool.object.metadata.annotations.clone().unwrap_or_default();
    let stamps = hash::stamps(&stored, &pool.model.hash, owned.clone().map(|known| &*known.model));
    if stamps == hash::Stamps::default() {
        return Ok(Done::idle());
    }
    for (claim, annotations) in &stamps.claims {
        let Some(known) = owned.clone().find(|known| known.model.name == *claim) else { continue };
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

/// Locked: the stamp belongs to the version of the object it was computed from.
fn stamp<K: Resource>(object: &K, annotations: &Annotations) -> Value {
    locked(object, json!({"metadata": {"annotations": annotations}}))
}
