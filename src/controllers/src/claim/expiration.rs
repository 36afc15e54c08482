//! `nodeclaim.expiration`: deletes claims that have reached their age.

use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::claim::expiration;
use karpenter_model::ClaimName;

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodeclaim.expiration";

/// The reconciler.
pub(crate) struct Expiration {
    pub(crate) evictions: Evictions,
}

impl Reconciler for Expiration {
    type Key = ClaimName;
    type Error = Error;

    fn spec(&self, _settings: &Settings) -> Spec {
        Spec::new(NAME, 10)
    }

    async fn pass(&self, context: &Context, name: &ClaimName) -> Result<Done, Error> {
        let known = context.view.claim(name).filter(|known| context.manages(&known.model.node_class));
        let Some(known) = known else { return Ok(Done::idle()) };
        let mut pass = Pass::over_claim(context, NAME, &self.evictions, &known);
        pass.carry_out(expiration::step(&known.model, context.now())).await?;
        pass.finish().await
    }
}
