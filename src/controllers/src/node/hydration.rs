//! `node.hydration`: gives Nodes made by older versions the node class label they lack.

use std::sync::Arc;
use std::time::Duration;

use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::claim::hydration;
use karpenter_model::NodeName;

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "node.hydration";

/// The reconciler.
pub(crate) struct Hydration {
    pub(crate) evictions: Evictions,
}

impl Reconciler for Hydration {
    type Key = NodeName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        let spec = Spec::new(NAME, settings.concurrency(1000, 5000));
        spec.backing_off(Duration::from_millis(100), Duration::from_mins(1))
    }

    async fn pass(&self, context: &Context, name: &NodeName) -> Result<Done, Error> {
        let Some(known) = context.view.node(name) else { return Ok(Done::idle()) };
        let Some(claim) = context.view.sole_claim_of(&known.model) else { return Ok(Done::idle()) };
        let mut pass = Pass::over_node(context, NAME, &self.evictions, Arc::clone(&known.model), None);
        pass.carry_out(hydration::node(&known.model, &claim.model)).await?;
        pass.finish().await
    }
}
