//! `nodeclaim.expiration`: deletes claims that have reached their age.

use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::claim::expiration;
use karpenter_lifecycle::step::{PodRef, Step};
use karpenter_model::{Claim, ClaimName};

use crate::pass::Pass;
use crate::pass::conditions::failing;
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
        pass.carry_out(step(context, &known.model)).await?;
        pass.finish().await
    }
}

fn step(context: &Context, claim: &Claim) -> Step {
    let pool = claim.pool.as_ref().and_then(|name| context.view.pool(name));
    let conditions = pool.and_then(|pool| pool.object.status.clone()).unwrap_or_default().conditions;
    // A pool that launches nothing leaves the pods of an expired node without a place, so its users are
    // warned first.
    let why = failing(&conditions);
    if why.is_empty() {
        return expiration::step(claim, context.now());
    }
    let nodes = claim.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.nodes_of(id));
    let pods = nodes.iter().flat_map(|node| context.view.pods_on(&node.name));
    let pods: Vec<_> = pods.filter(|pod| pod.is_reschedulable()).map(|pod| PodRef::of(&pod)).collect();
    let replaced_first = !context.settings.decisions.disruption.expiry_lead.is_zero();
    let unready = expiration::Unready { why: &why, pods: &pods, replaced_first };
    expiration::without_replacement(claim, unready, context.now())
}
