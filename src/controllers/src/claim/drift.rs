//! Drift, a part of `nodeclaim.disruption`: gathers what `karpenter_lifecycle::claim::drift` judges a claim by.
//!
//! Types and provider are asked only when the judgement needs them. What could not be asked leaves the condition
//! as it is, and is asked again after the back-off of the claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_lifecycle::claim::drift::{self, Facts, Local, Provider};
use karpenter_lifecycle::step::Step;
use karpenter_model::{Claim, ClaimName, ClaimUid, InstanceType};
use parking_lot::Mutex;

use crate::Context;
use crate::cloud;
use crate::view::KnownPool;

/// Time at which the instance type of each claim was last found. Lost with the process: the types are then looked for once
/// more.
#[derive(Clone, Debug, Default)]
pub(super) struct TypesFound(Arc<Mutex<BTreeMap<ClaimName, (ClaimUid, Timestamp)>>>);

impl TypesFound {
    /// Forgets a claim that is gone.
    pub(super) fn forget(&self, name: &ClaimName) {
        self.0.lock().remove(name);
    }

    fn of(&self, claim: &Claim) -> Option<Timestamp> {
        self.0.lock().get(&claim.name).filter(|(uid, _)| *uid == claim.uid).map(|(_, at)| *at)
    }

    fn note(&self, claim: &Claim, now: Timestamp) {
        self.0.lock().insert(claim.name.clone(), (claim.uid.clone(), now));
    }
}

/// Step that brings a claim's `Drifted` condition up to date.
pub(super) async fn step(
    context: &Context,
    controller: &'static str,
    found: &TypesFound,
    claim: &Claim,
    pool: &KnownPool,
) -> Step {
    let (now, type_found) = (context.now(), found.of(claim));
    let types =
        if drift::asks_types(claim, type_found, now) { types(context, controller, pool).await } else { None };
    let annotations = pool.object.metadata.annotations.clone().unwrap_or_default();
    let local = drift::local(
        claim,
        Facts {
            pool: &pool.model,
            pool_annotations: &annotations,
            instance_types: types.as_deref(),
            registry: context.view.registry(),
            type_found,
            settings: &context.settings.decisions.disruption,
            now,
        },
    );
    // The provider is asked last: its answer costs calls, and an earlier reason stands without it.
    let Local::AskProvider { type_found } = local else { return drift::step(claim, local, Provider::Same) };
    if type_found {
        found.note(claim, now);
    }
    let asked = context.provider.drift(claim);
    match cloud::call(context, controller, "IsDrifted", asked).await {
        Ok(None) => drift::step(claim, local, Provider::Same),
        Ok(Some(reason)) => drift::step(claim, local, Provider::Drifted(reason.as_str())),
        // A machine that is gone is the business of garbage collection.
        Err(error) if error.not_found() => drift::step(claim, local, Provider::Same),
        Err(error) => {
            tracing::warn!(nodeclaim = %claim.name, %error, "cannot tell whether the nodeclaim drifted");
            drift::step(claim, local, Provider::Failed)
        }
    }
}

/// The types of the pool; `None` when they could not be had, which decides nothing.
async fn types(
    context: &Context,
    controller: &'static str,
    pool: &KnownPool,
) -> Option<Arc<[Arc<InstanceType>]>> {
    let asked = context.provider.instance_types(&pool.model);
    let types = cloud::call(context, controller, "GetInstanceTypes", asked).await;
    types
        .inspect_err(|error| tracing::warn!(nodepool = %pool.model.name, %error, "instance types unknown"))
        .ok()
}
