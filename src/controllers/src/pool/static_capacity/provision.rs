//! `static.provisioning`: creates the claims that are missing, as far as the node limit goes.

use futures::{StreamExt, stream};
use karpenter_kube_harness::queue::Done;
use karpenter_lifecycle::pool::static_capacity::{self, LIMITED_PERIOD, Members, PERIOD};
use karpenter_model::{Launch, Snapshot};

use super::{FAN_OUT, StaticError};
use crate::Context;
use crate::claim::create::{CreateError, create};
use crate::view::KnownPool;

pub(super) const NAME: &str = "static.provisioning";

pub(super) async fn pass(
    context: &Context,
    pool: &KnownPool,
    snapshot: &Snapshot,
) -> Result<Done, StaticError> {
    let members = Members::of(&pool.model.name, snapshot.nodes.iter().map(AsRef::as_ref));
    let missing = static_capacity::missing(&pool.model, &members)
        // Claims that this release cannot decode have their machines all the same.
        .saturating_sub(context.view.undecoded_claims_of(&pool.model.name));
    if missing == 0 {
        return Ok(Done::idle().after(PERIOD));
    }
    let launch = Launch::from_template(&pool.model, &snapshot.settings, &snapshot.registry);
    let results: Vec<Result<_, CreateError>> = stream::iter(0..missing)
        .map(|_| create(context, &launch, "provisioned"))
        .buffer_unordered(FAN_OUT)
        .collect()
        .await;
    let created = results.iter().filter(|result| result.is_ok()).count();
    let mut limited = false;
    for error in results.into_iter().filter_map(Result::err) {
        match error {
            CreateError::Limits { .. } => limited = true,
            // The pool went away meanwhile.
            CreateError::NoPool(_) => return Ok(Done::idle()),
            error @ CreateError::Write(_) => return Err(error.into()),
        }
    }
    let done = if created > 0 { Done::applied() } else { Done::idle() };
    if limited {
        tracing::info!(nodepool = %pool.model.name, created, missing, "nodepool node limit reached");
        return Ok(done.after(LIMITED_PERIOD));
    }
    Ok(done.after(PERIOD))
}
