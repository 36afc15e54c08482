//! Asks the provider for the machine of a claim.
//!
//! The number of the attempt is kept by the view while the process lives. A restarted process begins at the
//! first attempt again: the provider adopts what earlier ones have launched before it launches anything, and
//! a token that turns out to be spent costs one more try.

use karpenter_api::{NodeClaim, Operator as ApiOperator, convert};
use karpenter_cloud::overlay::PoolOverlays;
use karpenter_cloud::{Kind, LaunchRequest};
use karpenter_lifecycle::claim::launch::Answer;
use karpenter_lifecycle::step::Launched;
use karpenter_model::label::Labels;
use karpenter_model::names::{annotation, label};
use karpenter_model::{Claim, InstanceTypeName, LabelRegistry, Operator};

use crate::Context;
use crate::cloud;
use crate::explain::Step;
use crate::view::Unevaluated;

/// Launches, or finds the machine of an earlier try: the request is the same for every try of one claim.
pub(crate) async fn ask(context: &Context, controller: &'static str, object: &NodeClaim) -> Answer {
    let mut request = match request(context, object) {
        Ok(request) => request,
        Err(message) => return Answer::Failed { reason: None, message },
    };
    let stated = stated(&request, context.view.registry());
    request.labels.extend(stated.clone());
    context.explanations.reached(&request.claim, Step::LaunchRequested, context.now());
    let answer = cloud::call(context, controller, "Create", context.provider.launch(&request)).await;
    context.explanations.reached(&request.claim, Step::LaunchAnswered, context.now());
    match answer {
        Ok(instance) => Answer::Launched(Box::new(Launched {
            provider_id: instance.provider_id,
            image_id: instance.image_id,
            // Labels that the cloud resolved describe the machine, so they win over those of the claim.
            labels: stated.into_iter().chain(instance.labels).collect(),
            annotations: instance.annotations,
            capacity: instance.capacity,
            allocatable: instance.allocatable,
        })),
        Err(error) => {
            if error.token_spent {
                context.view.launch_attempt_spent(&request.claim, &request.uid);
            }
            let (kind, reason, message) = (error.kind, error.reason.clone(), error.to_string());
            match kind {
                Kind::NoCapacity => {
                    tracing::error!(%error, "failed launching nodeclaim");
                    Answer::NoCapacity { message }
                }
                Kind::NodeClassNotReady => {
                    tracing::error!(%error, "failed launching nodeclaim");
                    Answer::NodeClassNotReady { message }
                }
                Kind::NotFound | Kind::Throttled | Kind::Denied | Kind::Invalid | Kind::Transient => {
                    tracing::warn!(%error, "failed launching nodeclaim, trying again");
                    Answer::Failed { reason: reason.map(Into::into), message }
                }
            }
        }
    }
}

/// Labels that requirements of the claim state and no label does: keys that no cloud defines, with one value. A plan writes
/// them as labels; on a claim that a person creates there is only the requirement, and pods select its node by it.
fn stated(request: &LaunchRequest, registry: &LabelRegistry) -> Labels {
    let mut stated = Labels::new();
    for requirement in request.requirements.iter() {
        let key = requirement.key();
        let open = !request.labels.contains_key(key) && !registry.is_well_known(key.as_str());
        if let (true, Operator::In, 1) = (open, requirement.operator(), requirement.values().len()) {
            stated.extend(requirement.any().map(|value| (key.clone(), value)));
        }
    }
    stated
}

/// The request for the machine of this claim, or why there is none yet.
fn request(context: &Context, object: &NodeClaim) -> Result<LaunchRequest, String> {
    // Half of what was asked for would be another machine.
    let claim = convert::claim(object, context.view.registry()).map_err(|error| error.to_string())?;
    let overlays = overlays(context, &claim).map_err(|error| error.to_string())?;
    Ok(LaunchRequest {
        created_at: claim.created_at,
        attempt: context.view.launch_attempt(&claim.uid),
        claim: claim.name,
        uid: claim.uid,
        pool: claim.pool,
        pool_hash: claim.annotations.get(annotation::POOL_HASH).cloned(),
        node_class: claim.node_class,
        requirements: claim.requirements,
        requests: claim.requests,
        labels: claim.labels,
        annotations: claim.annotations,
        taints: claim.taints,
        startup_taints: claim.startup_taints,
        instance_types: instance_types(object),
        overlays,
    })
}

/// Overlays for the types of a claim; nothing for a claim without pool. Nothing is launched until it is known which overlays
/// apply: without an amount they name no type might do, and the claim would be given up.
fn overlays(context: &Context, claim: &Claim) -> Result<Option<PoolOverlays>, Unevaluated> {
    if !context.settings.decisions.gates.node_overlay {
        return Ok(None);
    }
    let Some(name) = &claim.pool else { return Ok(None) };
    let pool = context.view.pool(name).ok_or(Unevaluated)?;
    context.view.through(&pool.model)
}

/// The types the claim allows, in the order written, which is by price.
fn instance_types(object: &NodeClaim) -> Vec<InstanceTypeName> {
    let listed = object
        .spec
        .requirements
        .iter()
        .find(|one| one.key == label::INSTANCE_TYPE && one.operator == ApiOperator::In);
    listed.map_or_else(Vec::new, |one| one.values().iter().map(|name| name.as_str().into()).collect())
}
