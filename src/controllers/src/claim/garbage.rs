//! `nodeclaim.garbagecollection`: deletes claims whose machine is gone, and machines whose claim is gone.
//!
//! Decides nothing on partial answers: the list of machines is complete or an error, it is taken before claims and
//! Nodes are read, and whatever is to go is confirmed by a consistent read of its other half before it goes.

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_cloud::{InstanceState, Read};
use karpenter_kube_harness::write;
use karpenter_lifecycle::claim::garbage::{self, Facts, Garbage, Machine, Tried};
use karpenter_lifecycle::step::DeletionCause;
use karpenter_model::{Claim, ClaimName, NodeObject, ProviderId};
use karpenter_telemetry::observe::{self, Outcome};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::cloud;
use crate::publish::disrupted;
use crate::view::read;
use crate::{Context, Error};

const NAME: &str = "nodeclaim.garbagecollection";

/// Runs until `shutdown`.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    let mut tried = Tried::default();
    let mut ticks = interval(garbage::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Failures are logged and counted by the wrapper, and the next tick tries again.
        let pass = pass(&context, &mut tried);
        let _reported = observe::pass(&context.metrics, NAME, "", |outcome| outcome.again(), pass).await;
    }
}

async fn pass(context: &Context, tried: &mut Tried) -> Result<Outcome, Error> {
    // Claims that are not listed yet would leave their machines without a claim.
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
    // A claim that cannot be decoded has its machine all the same, and is itself never collected.
    let (claims, nodes) = (context.view.claims_or_undecoded(), context.view.nodes());
    let claims: Vec<&Claim> = claims.iter().map(|claim| &**claim).collect();
    let nodes: Vec<&NodeObject> = nodes.iter().map(|known| &*known.model).collect();
    let zones_away = &context.provider.zones_away();
    // The order of this pass follows from the passes before; what it tries counts from the next one on.
    let before = tried.clone();
    let facts =
        Facts { claims: &claims, nodes: &nodes, machines: &machines, listed_at, zones_away, tried: &before };
    let garbage = garbage::collect(facts);
    tried.note(&garbage, facts);
    give_up(context, &garbage).await
}

/// Gives up what a second look confirms.
async fn give_up(context: &Context, garbage: &Garbage) -> Result<Outcome, Error> {
    if garbage.doubts_claims && !write::none(&context.all::<NodeClaim>()).await? {
        tracing::warn!("the watch of NodeClaims shows none though there are some, nothing was collected");
        return Ok(Outcome::Waiting);
    }
    let claims = join_all(garbage.claims.iter().map(|name| delete_claim(context, name))).await;
    let machines = join_all(garbage.machines.iter().map(|machine| terminate(context, machine))).await;
    let idle = claims.is_empty() && machines.is_empty();
    Error::combined(claims.into_iter().chain(machines).filter_map(Result::err).collect())
        .map(|()| if idle { Outcome::Skipped } else { Outcome::Applied })
}

async fn delete_claim(context: &Context, name: &ClaimName) -> Result<(), Error> {
    let Some(known) = context.view.claim(name) else { return Ok(()) };
    let Some(id) = &known.model.provider_id else { return Ok(()) };
    match cloud::call(context, NAME, "Get", context.provider.instance(id, Read::Consistent)).await {
        // The list lagged behind: a consistent read outweighs it.
        Ok(instance) if instance.state.exists() => return Ok(()),
        Ok(_) => {}
        Err(error) if error.not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let uid = known.object.metadata.uid.clone();
    if write::delete(&context.all::<NodeClaim>(), name.as_str(), uid).await? {
        disrupted(context, &known.object, DeletionCause::GarbageCollected.label(), None);
    }
    Ok(())
}

async fn terminate(context: &Context, machine: &Machine) -> Result<(), Error> {
    let id = &machine.provider_id;
    // The claim may have been written while the machines were listed.
    if context.view.is_claimed_machine(id) {
        return Ok(());
    }
    if let Some(name) = &machine.claim
        && let Some(object) = write::read(&context.all::<NodeClaim>(), name.as_str()).await?
    {
        // Unreadable parts of a claim are left out: one without a machine then speaks for any.
        if garbage::is_claimed(machine, &read::claim(&object, context.view.registry())) {
            return Ok(());
        }
    }
    cloud::call(context, NAME, "Delete", context.provider.terminate(id)).await?;
    tracing::info!("provider-id" = %id, "garbage collected cloudprovider instance");
    delete_nodes(context, id).await
}

/// Deletes the Nodes of a machine that was terminated; what else there is to do is done where Nodes are terminated.
async fn delete_nodes(context: &Context, id: &ProviderId) -> Result<(), Error> {
    for name in context.view.nodes_of(id).iter().map(|node| &node.name) {
        let uid = context.view.node(name).and_then(|known| known.object.metadata.uid.clone());
        if write::delete(&context.all::<Node>(), name.as_str(), uid).await? {
            tracing::info!(node = %name, "provider-id" = %id, "deleted node of terminated instance");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_cloud::memory::{Fault, Operation};
    use karpenter_cloud::{Instance, Kind, LaunchRequest};
    use serde_json::json;

    use super::*;
    use crate::fixture::World;

    fn claim(name: &str) -> NodeClaim {
        let class = json!({"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"});
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": name},
            "spec": {"nodeClassRef": class, "requirements": []},
        }))
        .unwrap()
    }

    /// A machine that was launched for a claim of this name.
    async fn launched(world: &World, name: &str) -> Instance {
        let model = read::claim(&claim(name), world.context.view.registry());
        let request = LaunchRequest {
            claim: model.name,
            uid: model.uid,
            created_at: model.created_at,
            attempt: 0,
            pool: model.pool,
            pool_hash: None,
            node_class: model.node_class,
            requirements: model.requirements,
            requests: model.requests,
            labels: model.labels,
            annotations: model.annotations,
            taints: Vec::new(),
            startup_taints: Vec::new(),
            instance_types: Vec::new(),
            overlays: None,
        };
        world.context.provider.launch(&request).await.unwrap()
    }

    /// A machine of no known claim, and what there is of its claim in the API server.
    async fn orphan(world: &World, provider_id: Option<&str>) -> Machine {
        let instance = launched(world, "web-1").await;
        world.server.load(&json!(claim("web-1"))).unwrap();
        if let Some(id) = provider_id {
            let id = if id == "own" { instance.provider_id.as_str() } else { id };
            // The status is a resource of its own.
            let (claims, status) = (world.context.all(), json!({"status": {"providerID": id}}));
            let _written: Option<NodeClaim> = write::merge_status(&claims, "web-1", &status).await.unwrap();
        }
        Machine {
            provider_id: instance.provider_id,
            claim: instance.claim,
            launched_at: instance.launched_at,
            ending: false,
        }
    }

    async fn is_terminated(world: &World, garbage: &Garbage) -> bool {
        give_up(&world.context, garbage).await.unwrap();
        let machines = world.context.provider.instances().await.unwrap();
        machines.iter().all(|machine| !machine.state.exists())
    }

    #[tokio::test(start_paused = true)]
    async fn no_machine_goes_while_the_api_server_has_claims_the_watch_does_not_show() {
        let world = World::with_definitions();
        let machine = Machine { claim: None, ..orphan(&world, None).await };
        let garbage = Garbage { machines: vec![machine], doubts_claims: true, ..Garbage::default() };
        assert!(!is_terminated(&world, &garbage).await);
        let claims = world.context.all::<NodeClaim>();
        assert!(write::delete(&claims, "web-1", None).await.unwrap());
        assert!(is_terminated(&world, &garbage).await, "there is none any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_stays_while_the_claim_it_was_started_for_may_have_it() {
        for (id, stays) in [(None, true), (Some("own"), true), (Some("memory:///another"), false)] {
            let world = World::with_definitions();
            let garbage = Garbage { machines: vec![orphan(&world, id).await], ..Garbage::default() };
            assert_eq!(is_terminated(&world, &garbage).await, !stays, "{id:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn orphans_that_cannot_be_terminated_hold_up_no_others() {
        let world = World::with_definitions();
        let mut orphans = Vec::new();
        for number in 0..=20 {
            orphans.push(launched(&world, &format!("web-{number:02}")).await.provider_id);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(garbage::PERIOD).await;
        assert!(world.context.view.load(&[]).is_empty());
        for _ in 0..20 {
            world.account.fail(Operation::Terminate, Fault::Refused(Kind::Denied));
        }
        let mut tried = Tried::default();
        assert!(pass(&world.context, &mut tried).await.is_err());
        let youngest = orphans.last().unwrap();
        let exists = async || {
            let machines = world.context.provider.instances().await.unwrap();
            machines.iter().any(|machine| machine.provider_id == *youngest && machine.state.exists())
        };
        assert!(exists().await, "no more than 20 are given up in one pass");
        pass(&world.context, &mut tried).await.unwrap();
        assert!(!exists().await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_of_a_collected_machine_goes_with_it() {
        let world = World::with_definitions();
        let machine = Machine { claim: None, ..orphan(&world, Some("memory:///another")).await };
        for (name, id) in [("own", machine.provider_id.as_str()), ("other", "memory:///other")] {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": id},
            });
            world.server.load(&node).unwrap();
        }
        let nodes = world.list::<Node>().await;
        crate::fixture::list(&world.context.view, nodes);
        let garbage = Garbage { machines: vec![machine], ..Garbage::default() };
        assert!(is_terminated(&world, &garbage).await);
        let left: Vec<String> = world.list::<Node>().await.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(left, ["other"]);
    }
}
