//! `nodeclaim.disruption` and `nodeclaim.consistency`: conditions of a claim while it lives, whether it
//! drifted, whether it may be consolidated, and whether its node is what was bought.

use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::claim::{consistency, consolidatable};
use karpenter_model::{Claim, ClaimName, ConditionType};

use crate::claim::drift::{self, TypesFound};
use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "nodeclaim.disruption";

/// The reconciler.
pub(crate) struct Upkeep {
    evictions: Evictions,
    found: TypesFound,
}

impl Upkeep {
    pub(crate) fn new(evictions: Evictions) -> Self {
        Self { evictions, found: TypesFound::default() }
    }
}

impl Reconciler for Upkeep {
    type Key = ClaimName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(10, 1000))
    }

    async fn pass(&self, context: &Context, name: &ClaimName) -> Result<Done, Error> {
        let Some(known) = context.view.claim(name).filter(|known| context.manages(&known.model.node_class))
        else {
            self.found.forget(name);
            return Ok(Done::idle());
        };
        if known.model.deletion.is_some() {
            return Ok(Done::idle());
        }
        let claim = &known.model;
        let pool = claim.pool.as_ref().and_then(|name| context.view.pool(name));
        let mut pass = Pass::over_claim(context, NAME, &self.evictions, &known);
        // Without a pool there is nothing to compare with, and the claim's conditions stay.
        if let Some(pool) = &pool {
            pass.carry_out(drift::step(context, NAME, &self.found, claim, pool).await).await?;
        }
        pass.carry_out(consolidatable::step(claim, pool.as_ref().map(|pool| &*pool.model), context.now()))
            .await?;
        let nodes = claim.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.nodes_of(id));
        if let [node] = nodes.as_slice() {
            pass.carry_out(consistency::step(claim, node)).await?;
        }
        let after = pass.claim();
        let done = pass.finish().await?;
        log_marks(claim, after.as_deref());
        Ok(done)
    }
}

/// Logs the conditions that came and went; a drift whose reason changes is silent.
fn log_marks(before: &Claim, after: Option<&Claim>) {
    let Some(after) = after else { return };
    for kind in [ConditionType::Drifted, ConditionType::Consolidatable] {
        let (was, is) = (before.conditions.get(&kind), after.conditions.get(&kind));
        match (was, is) {
            (None, Some(is)) => tracing::debug!(condition = %kind, reason = is.reason, "marked nodeclaim"),
            (Some(_), None) => tracing::debug!(condition = %kind, "removed mark of nodeclaim"),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests;
