//! Plays the events of a history: what people, other clients and bad luck do to the world, past every port.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::OfferingSelector;
use karpenter_kube_sim::kubelet::Behaviour;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::history::What;
use crate::world::World;

/// Plays every event at its time, and returns when the trouble is over.
pub(crate) async fn play(world: &Arc<World>) {
    let began = Instant::now();
    let events = world.history.events.clone();
    for event in events {
        sleep_until(began + event.at).await;
        world.trace.note("world", &format!("{:?}", event.what), "");
        happen(world, event.what).await;
    }
    sleep_until(began + world.history.trouble).await;
}

/// Ends every fault and all that lasts. Machines do not expire any more, or there would never be rest.
pub(crate) async fn calm_down(world: &World) {
    world.trace.note("world", "calm", "");
    for pool in world.history.pools.iter().filter(|pool| pool.expire_after.is_some()) {
        let change = json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}});
        patch::<NodePool>(Api::all(world.server.client()), &pool.name, change).await;
    }
    world.weather.calm_down();
    world.account.heal();
    world.account.doom_next_boots(0);
    for zone in 0..3 {
        for spot in [true, false] {
            world.account.unlimit_capacity(&offerings(world, zone, spot));
        }
    }
    world.agent.behave_all(Behaviour::Healthy);
    for instance in world.account.live_instances() {
        world.agent.behave(instance.id.as_str(), Behaviour::Healthy);
    }
}

async fn happen(world: &Arc<World>, what: What) {
    let (client, account) = (world.server.client(), &world.account);
    match what {
        What::Scale(name, replicas) => {
            patch::<Deployment>(
                Api::default_namespaced(client),
                &name,
                json!({"spec": {"replicas": replicas}}),
            )
            .await;
        }
        What::Arrive(workload) => {
            let _there_already = world.deploy(&workload);
        }
        What::Leave(name) => {
            let deployments: Api<Deployment> = Api::default_namespaced(client);
            let _gone_already = deployments.delete(&name, &DeleteParams::background()).await;
        }
        What::DriftPool(name, generation) => {
            let labels = json!({"example.com/generation": generation.to_string()});
            let change = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
            patch::<NodePool>(Api::all(client), &name, change).await;
        }
        What::Resize(name, replicas) => {
            patch::<NodePool>(Api::all(client), &name, json!({"spec": {"replicas": replicas}})).await;
        }
        What::Interrupt(pick) => {
            let spot = |instance: &Instance| instance.lifecycle == Some(Lifecycle::Spot);
            on_one(world, pick, spot, |id| ended(account.interrupt_spot(id)));
        }
        What::EndInstance(pick) => {
            on_one(world, pick, |_| true, |id| ended(account.terminate_behind_our_back(id)));
        }
        What::StopInstance(pick) => on_one(world, pick, |_| true, |id| ended(account.stop(id))),
        What::DeleteClaim(pick) => delete_one(&Api::<NodeClaim>::all(client), pick).await,
        What::DeleteNode(pick) => delete_one(&Api::<Node>::all(client), pick).await,
        What::Dry(zone, spot, lasts) => {
            account.limit_capacity(offerings(world, zone, spot), 0);
            later(world, lasts, move |world| world.account.unlimit_capacity(&offerings(world, zone, spot)));
        }
        What::NoImages(lasts) => {
            world.weather.hide_images(true);
            later(world, lasts, |world| world.weather.hide_images(false));
        }
        What::Doom(count) => account.doom_next_boots(count),
        What::NoJoin(lasts) => {
            world.agent.behave_all(Behaviour::NeverJoins);
            later(world, lasts, |world| world.agent.behave_all(Behaviour::Healthy));
        }
        What::Silence(pick) => {
            on_one(world, pick, |_| true, |id| world.agent.behave(id.as_str(), Behaviour::Silent));
        }
        What::Forget => {
            // What is forgotten can no longer be checked.
            world.truth.look();
            world.server.write(karpenter_kube_sim::apiserver::store::Store::compact);
            world.server.faults().break_watches("");
        }
        What::Crash(replica, boundaries) => {
            if let Some(life) = world.lives().get(&replica) {
                life.die_after(boundaries);
            }
        }
        What::Hold(replica, lasts) => {
            if let Some(life) = world.lives().get(&replica) {
                life.hold(Instant::now() + lasts);
            }
        }
    }
}

fn later(world: &Arc<World>, lasts: Duration, then: impl FnOnce(&World) + Send + 'static) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(lasts).await;
        then(&world);
    });
}

fn offerings(world: &World, zone: usize, spot: bool) -> OfferingSelector {
    let letter = ['a', 'b', 'c'][zone.min(2)];
    let zone = format!("{}{letter}", world.account.options().region);
    OfferingSelector { instance_type: None, zone: Some(zone.as_str().into()), spot: Some(spot) }
}

/// Does something to one of the machines there are.
fn on_one(world: &World, pick: usize, which: impl Fn(&Instance) -> bool, act: impl FnOnce(&InstanceId)) {
    let mut machines = world.account.live_instances();
    machines.retain(which);
    if let Some(machine) = machines.get(pick % machines.len().max(1)) {
        world.truth.struck(&machine.id);
        act(&machine.id);
    }
}

/// An instance that has ended meanwhile is none that anything can happen to.
fn ended(_meanwhile: karpenter_aws_api::Result<()>) {}

async fn delete_one<K>(api: &Api<K>, pick: usize)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let Ok(all) = api.list(&ListParams::default()).await else { return };
    if let Some(one) = all.items.get(pick % all.items.len().max(1)) {
        let _gone_already = api.delete(&one.name_any(), &DeleteParams::default()).await;
    }
}

async fn patch<K>(api: Api<K>, name: &str, change: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let _gone_already = api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await;
}
