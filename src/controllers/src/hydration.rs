//! `node.hydration`: gives Nodes made by older versions the node class label they lack.

use std::sync::Arc;
use std::time::Duration;

use karpenter_lifecycle::hydration;
use karpenter_model::NodeName;
use tokio_util::sync::CancellationToken;

use crate::claim::lifecycle::settled;
use crate::evict::Evictions;
use crate::pass::Pass;
use crate::queue::{Done, Spec, Work};
use crate::{Context, Error};

const NAME: &str = "node.hydration";

/// Runs until `shutdown`.
pub(crate) async fn run(
    work: Work<NodeName>,
    context: Context,
    evictions: Evictions,
    shutdown: CancellationToken,
) {
    let spec = Spec {
        name: NAME,
        concurrency: context.settings.concurrency(1000, 5000),
        backoff_min: Duration::from_millis(100),
        backoff_max: Duration::from_mins(1),
    };
    let metrics = Arc::clone(&context.metrics);
    let pass = move |name| {
        let (context, evictions) = (context.clone(), evictions.clone());
        async move { settled(reconcile(&context, &evictions, &name).await) }
    };
    work.run(spec, metrics, shutdown, pass).await;
}

async fn reconcile(context: &Context, evictions: &Evictions, name: &NodeName) -> Result<Done, Error> {
    let Some(known) = context.view.node(name) else { return Ok(Done::idle()) };
    let claims = known.model.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.claims_of(id));
    let [claim] = claims.as_slice() else { return Ok(Done::idle()) };
    let mut pass = Pass::over_node(context, NAME, evictions, Arc::clone(&known.model), None);
    pass.carry_out(hydration::node(&known.model, &claim.model)).await?;
    pass.finish().await
}
