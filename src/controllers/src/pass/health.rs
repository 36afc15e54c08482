//! Registration health: notes on a pool whether its machines join.

use karpenter_api::{ConditionStatus, NodePool};
use karpenter_kube_harness::write::{self, locked};
use karpenter_lifecycle::step::RegistrationOutcome;
use karpenter_model::Claim;
use karpenter_model::names::condition;
use karpenter_telemetry::observe::Chain;
use serde_json::json;

use crate::Context;
use crate::pass::conditions::{open, set};
use crate::view::KnownPool;

/// Notes the outcome for the pool the claim belongs to, if that pool still is the one that made it. That is information for
/// people and brakes: where it cannot be written, the claim continues all the same, and the next outcome repeats it.
pub(crate) async fn note(context: &Context, claim: &Claim, outcome: &RegistrationOutcome) {
    let Some(pool) = claim.pool.as_ref().and_then(|name| context.view.pool(name)) else { return };
    let owned = context.view.claim(&claim.name).is_some_and(|known| {
        let owners = known.object.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == pool.model.uid.as_str())
    });
    // A pool that was created again under the name starts without the record of its predecessor (spec
    // disruption 1.8).
    if !owned {
        return;
    }
    let condition = status_of(&pool);
    let Some(verdict) = context.view.note_registration(&pool.model.uid, outcome, condition) else {
        return;
    };
    let mut conditions = pool.object.status.clone().unwrap_or_default().conditions;
    set(&mut open(&mut conditions, &pool.object, context), condition::NODE_REGISTRATION_HEALTHY, &verdict);
    let patch = locked(&*pool.object, json!({"status": {"conditions": conditions}}));
    let name = pool.model.name.as_str();
    match write::merge_status(&context.all::<NodePool>(), name, &patch).await {
        Ok(Some(pool)) => context.view.put_pool(pool),
        Ok(None) => {}
        // The next outcome writes the verdict again.
        Err(error) if error.is_conflict() => {}
        Err(error) => {
            tracing::warn!(nodepool = name, error = %Chain(&error), "cannot write how registrations went");
        }
    }
}

fn status_of(pool: &KnownPool) -> Option<ConditionStatus> {
    let conditions = pool.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let condition = conditions.iter().find(|one| one.kind == condition::NODE_REGISTRATION_HEALTHY)?;
    Some(condition.status)
}

#[cfg(test)]
mod tests;
