//! `nodeclaim.expiration`: deletes claims that have reached their age.

use std::sync::Arc;
use std::time::Duration;

use karpenter_lifecycle::expiration;
use karpenter_model::ClaimName;
use tokio_util::sync::CancellationToken;

use crate::claim::lifecycle::settled;
use crate::evict::Evictions;
use crate::pass::Pass;
use crate::queue::{Done, Spec, Work};
use crate::{Context, Error};

const NAME: &str = "nodeclaim.expiration";

/// Runs until `shutdown`.
pub(crate) async fn run(
    work: Work<ClaimName>,
    context: Context,
    evictions: Evictions,
    shutdown: CancellationToken,
) {
    let spec = Spec {
        name: NAME,
        concurrency: 10,
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_mins(1),
    };
    let metrics = Arc::clone(&context.metrics);
    let pass = move |name| {
        let (context, evictions) = (context.clone(), evictions.clone());
        async move { settled(reconcile(&context, &evictions, &name).await) }
    };
    work.run(spec, metrics, shutdown, pass).await;
}

async fn reconcile(context: &Context, evictions: &Evictions, name: &ClaimName) -> Result<Done, Error> {
    let Some(known) = context.view.claim(name).filter(|known| context.manages(&known.model.node_class))
    else {
        return Ok(Done::idle());
    };
    let mut pass = Pass::over_claim(context, NAME, evictions, Arc::clone(&known.object));
    pass.carry_out(expiration::step(&known.model, context.now())).await?;
    pass.finish().await
}
