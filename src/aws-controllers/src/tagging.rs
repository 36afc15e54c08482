//! Names instances after their Node and claim, once both are known (spec aws-provider 15).
//!
//! Tags that are there already are left alone, so people may rename instances. The annotations that mean "done"
//! are written after the tags, so a crash in between only repeats a harmless call.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_cloud::{Kind, Provider};
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_kube_harness::write;
use karpenter_model::names::annotation::aws::{CLUSTER_NAME_TAGGED, TAGGED};
use karpenter_model::{Claim, ClaimName};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error};

/// So many that the provider can read them together and keep to a pace that leaves the quota of tags to others; few
/// enough that the last of them has its turn before the call is given up.
const SPEC: Spec = Spec {
    name: "nodeclaim.tagging",
    concurrency: 50,
    backoff_min: Duration::from_secs(1),
    backoff_max: Duration::from_mins(1),
};

pub(crate) async fn run(context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let (queue, work) = Queue::new();
    context.common.view.subscribers().claims(queue.clone());
    for claim in context.common.view.claims() {
        queue.add(claim.model.name.clone());
    }
    let pass = move |name: ClaimName| {
        let context = context.clone();
        async move {
            let done = tag(&context, &name).await?;
            Ok::<_, Error>(if done { Done::applied() } else { Done::idle() })
        }
    };
    work.run(SPEC, metrics, shutdown, pass).await;
}

/// Tags the instance of one claim; returns whether there was anything to do.
pub(crate) async fn tag(context: &AwsContext, name: &ClaimName) -> Result<bool, Error> {
    let Some(known) = context.common.view.claim(name) else { return Ok(false) };
    let claim = &known.model;
    let (Some(node), Some(id)) = (&claim.node_name, &claim.provider_id) else { return Ok(false) };
    if claim.deletion.is_some() || tagged(claim) {
        return Ok(false);
    }
    match context.aws.tag(id, name, node).await {
        Ok(()) => {}
        // Claims whose instance is gone are left to garbage collection; a foreign id will not get better.
        Err(error) if matches!(error.kind, Kind::NotFound | Kind::Invalid) => {
            tracing::warn!(claim = %name, %error, "instance not tagged");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    let change = json!({"metadata": {"annotations": {TAGGED: "true", CLUSTER_NAME_TAGGED: "true"}}});
    if let Some(written) = write::merge(&context.common.all::<NodeClaim>(), name.as_str(), &change).await? {
        context.common.view.put_claim(written);
    }
    Ok(true)
}

fn tagged(claim: &Claim) -> bool {
    [TAGGED, CLUSTER_NAME_TAGGED].iter().all(|key| claim.annotations.contains_key(*key))
}
