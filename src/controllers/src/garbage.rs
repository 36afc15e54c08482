//! `nodeclaim.garbagecollection`: deletes claims whose machine is gone, and machines whose claim is gone.
//!
//! Decides nothing on partial answers: the list of machines is complete or an error, it is taken before claims and
//! Nodes are read, and every claim is confirmed by a consistent read of its own machine before it is deleted.

use futures::future::join_all;
use karpenter_api::NodeClaim;
use karpenter_cloud::{InstanceState, Read};
use karpenter_lifecycle::garbage::{self, Facts, Machine};
use karpenter_lifecycle::step::DeletionCause;
use karpenter_model::{Claim, ClaimName, NodeObject, ProviderId};
use karpenter_telemetry::observe::{self, Outcome};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::claim::disrupted;
use crate::{Context, Error, cloud, write};

const NAME: &str = "nodeclaim.garbagecollection";

/// Runs until `shutdown`.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    let mut ticks = interval(garbage::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Failures are logged and counted by the wrapper, and the next tick tries again.
        let _reported =
            observe::pass(&context.metrics, NAME, "", |outcome| outcome.again(), pass(&context)).await;
    }
}

async fn pass(context: &Context) -> Result<Outcome, Error> {
    if !context.view.unlisted().is_empty() {
        return Ok(Outcome::Waiting);
    }
    let listed_at = context.now();
    let instances = cloud::call(context, NAME, "List", context.provider.instances()).await?;
    let machines: Vec<Machine> = instances
        .into_iter()
        .filter(|instance| instance.state != InstanceState::Terminated)
        .map(|instance| Machine {
            ending: !instance.state.exists(),
            provider_id: instance.provider_id,
            claim: instance.claim,
            launched_at: instance.launched_at,
        })
        .collect();
    let (claims, nodes) = (context.view.claims(), context.view.nodes());
    let claims: Vec<&Claim> = claims.iter().map(|known| &*known.model).collect();
    let nodes: Vec<&NodeObject> = nodes.iter().map(|known| &*known.model).collect();
    let zones_away = &context.provider.zones_away();
    let facts = Facts { claims: &claims, nodes: &nodes, machines: &machines, listed_at, zones_away };
    let garbage = garbage::collect(facts);
    if let Some(disbelief) = garbage.disbelieved {
        tracing::warn!(?disbelief, "did not believe a list of machines, nothing was collected");
        return Ok(Outcome::Waiting);
    }
    let claims = join_all(garbage.claims.iter().map(|name| delete_claim(context, name))).await;
    let machines = join_all(garbage.machines.iter().map(|id| terminate(context, id))).await;
    let idle = claims.is_empty() && machines.is_empty();
    Error::combined(claims.into_iter().chain(machines).filter_map(Result::err).collect())
        .map(|()| if idle { Outcome::Skipped } else { Outcome::Applied })
}

async fn delete_claim(context: &Context, name: &ClaimName) -> Result<(), Error> {
    let Some(known) = context.view.claim(name) else { return Ok(()) };
    let Some(id) = &known.model.provider_id else { return Ok(()) };
    match cloud::call(context, NAME, "Get", context.provider.instance(id, Read::Consistent)).await {
        Ok(instance) if instance.state.exists() => return Ok(()),
        Ok(_) => {}
        Err(error) if error.not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let uid = known.object.metadata.uid.clone();
    if write::delete(&context.all::<NodeClaim>(), name.as_str(), uid).await? {
        disrupted(context, &known.object, DeletionCause::GarbageCollected.label());
    }
    Ok(())
}

async fn terminate(context: &Context, id: &ProviderId) -> Result<(), Error> {
    // The claim may have been written while the machines were listed.
    if !context.view.claims_of(id).is_empty() {
        return Ok(());
    }
    cloud::call(context, NAME, "Delete", context.provider.terminate(id)).await?;
    tracing::info!("provider-id" = %id, "terminated instance without nodeclaim");
    Ok(())
}
