//! `static.deprovisioning`: deletes the claims that are too many.

use futures::{StreamExt, stream};
use karpenter_api::NodeClaim;
use karpenter_kube_harness::queue::Done;
use karpenter_kube_harness::write;
use karpenter_lifecycle::pool::static_capacity::{self, Members, PERIOD};
use karpenter_model::{ClaimName, Snapshot};

use super::{FAN_OUT, StaticError};
use crate::view::KnownPool;
use crate::{Context, Error};

pub(super) const NAME: &str = "static.deprovisioning";

pub(super) async fn pass(
    context: &Context,
    pool: &KnownPool,
    snapshot: &Snapshot,
) -> Result<Done, StaticError> {
    let members = Members::of(&pool.model.name, snapshot.nodes.iter().map(AsRef::as_ref));
    let surplus = static_capacity::surplus(&pool.model, &members, snapshot.now);
    if surplus.is_empty() {
        return Ok(Done::idle().after(PERIOD));
    }
    // From now on they neither count nor take pods, whatever the watch has shown.
    context.view.with_cluster(|cluster| cluster.mark_for_deletion(&surplus));
    let deletions: Vec<_> = surplus.iter().map(|name| delete(context, name)).collect();
    let results: Vec<Result<(), Error>> = stream::iter(deletions).buffer_unordered(FAN_OUT).collect().await;
    Error::combined(results.into_iter().filter_map(Result::err).collect())?;
    Ok(Done::applied().after(PERIOD))
}

async fn delete(context: &Context, name: &ClaimName) -> Result<(), Error> {
    let Some(known) = context.view.claim(name) else { return Ok(()) };
    let uid = known.object.metadata.uid.clone();
    match write::delete(&context.all::<NodeClaim>(), name.as_str(), uid).await {
        Ok(_) => {
            tracing::info!(nodeclaim = %name, "deleted surplus nodeclaim of static nodepool");
            Ok(())
        }
        Err(error) => {
            // It stays after all, and counts again.
            context.view.with_cluster(|cluster| cluster.unmark([name]));
            Err(error.into())
        }
    }
}
