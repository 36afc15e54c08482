//! Plays the events of a history: what people, other clients and bad luck do to the world, past every port.

use std::sync::Arc;

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
use tokio::time::{Instant, sleep_until};

use crate::history::What;
use crate::lasting::Lasting;
use crate::weather::Hidden;
use crate::world::World;

/// Plays every event at its time, and returns when the trouble is over.
pub(crate) async fn play(world: &Arc<World>) {
    let began = Instant::now();
    let events = world.history.events.clone();
    for event in events {
        sleep_until(began + event.at).await;
        world.trace.note("world", &format!("{:?}", event.what), "");
        apply_event(world, event.what).await;
    }
    sleep_until(began + world.history.trouble).await;
}

/// Ends every fault and all that lasts. Machines do not expire any more, or there would never be rest.
pub(crate) async fn end_all_faults(world: &World) {
    world.trace.note("world", "calm", "");
    for pool in world.history.pools.iter().filter(|pool| pool.expire_after.is_some()) {
        let change = json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}});
        patch::<NodePool>(Api::all(world.server.client()), &pool.name, change).await;
    }
    world.weather.clear();
    world.account.heal();
    world.account.doom_next_boots(0);
    for zone in 0..3 {
        for spot in [true, false] {
            world.account.unlimit_capacity(&offerings(world, zone, spot));
        }
    }
    world.agent.behave_all(Behaviour::Healthy);
    let broken = world.broken();
    for instance in world.account.live_instances().iter().filter(|one| !broken.contains(&one.id)) {
        world.agent.behave(instance.id.as_str(), Behaviour::Healthy);
    }
}

async fn apply_event(world: &Arc<World>, what: What) {
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
        What::Reserve(reservation) => world.reserve(&reservation),
        What::CancelReservation(id) => account.end_reservation(&id.as_str().into()),
        What::Break(pick) => {
            let how = if pick % 2 == 0 { Behaviour::Silent } else { Behaviour::NotReady };
            on_one(world, pick, |_| true, |id| world.break_machine(id, how));
        }
        What::Interrupt(pick) => {
            let spot = |instance: &Instance| instance.lifecycle == Some(Lifecycle::Spot);
            on_one(world, pick, spot, |id| ignore_already_gone(account.interrupt_spot(id)));
        }
        What::EndInstance(pick) => {
            on_one(world, pick, |_| true, |id| ignore_already_gone(account.terminate_behind_our_back(id)));
        }
        What::StopInstance(pick) => on_one(world, pick, |_| true, |id| ignore_already_gone(account.stop(id))),
        What::DeleteClaim(pick) => delete_one(&Api::<NodeClaim>::all(client), pick).await,
        What::DeleteNode(pick) => delete_one(&Api::<Node>::all(client), pick).await,
        What::Dry(zone, spot, lasts) => {
            world.begin(Lasting::CapacityLoss(offerings(world, zone, spot)), Some(lasts));
        }
        What::NoImages(lasts) => world.begin(Lasting::Hidden(Hidden::Images), Some(lasts)),
        What::NoReservations(lasts) => world.begin(Lasting::Hidden(Hidden::Reservations), Some(lasts)),
        What::NoSubnets(zone, lasts) => {
            world.begin(Lasting::Hidden(Hidden::Subnets(world.zone(zone))), Some(lasts));
        }
        What::Doom(count) => account.doom_next_boots(count),
        What::NoJoin(lasts) => world.begin(Lasting::NeverJoin, Some(lasts)),
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
        What::Hold(replica, lasts) => world.cut_off(replica, lasts),
    }
}

fn offerings(world: &World, zone: usize, spot: bool) -> OfferingSelector {
    OfferingSelector { instance_type: None, zone: Some(world.zone(zone)), spot: Some(spot) }
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

/// The only error is that the instance has ended since it was picked, and then nothing can happen to it any more.
fn ignore_already_gone(_outcome: karpenter_aws_api::Result<()>) {}

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
