//! Plays the events of a history: what people, other clients and bad luck do to the world, past every port.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_aws_api::ec2::{Instance, Lifecycle};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::OfferingSelector;
use karpenter_kube_sim::kubelet::{Behaviour, Change, Difference, Flaps};
use karpenter_model::names::annotation;
use karpenter_model::taint::{Effect, Taint};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::fault_injector::Hidden;
use crate::history::{Odd, What};
use crate::machines::Rule;
use crate::timed_fault::TimedFault;
use crate::world::World;

/// A taint that some machines join with.
const ODD_TAINT: &str = "example.com/odd";

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
    end_differences(world).await;
    world.agent.behave_all(Behaviour::Healthy);
    let broken = world.broken();
    for instance in world.account.live_instances().iter().filter(|one| !broken.contains(&one.id)) {
        world.agent.behave(instance.id.as_str(), Behaviour::Healthy);
    }
}

/// Machines are as foreseen from now on. What was learnt of those that were not is no use any more, and a person says so
/// (docs/promises.md).
async fn end_differences(world: &World) {
    world.alike();
    let nodes = Api::<Node>::all(world.server.client());
    for node in nodes.list(&ListParams::default()).await.into_iter().flatten() {
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let all = taints.len();
        taints.retain(|taint| taint.key != ODD_TAINT);
        if taints.len() < all {
            patch(nodes.clone(), &node.name_any(), json!({"spec": {"taints": taints}})).await;
        }
    }
    for pool in &world.history.pools {
        let change = json!({"metadata": {"annotations": {annotation::UNSERVED_WORKLOADS: null}}});
        patch::<NodePool>(Api::all(world.server.client()), &pool.name, change).await;
    }
}

async fn apply_event(world: &Arc<World>, what: What) {
    let (client, account) = (world.server.client(), &world.account);
    match what {
        What::Scale(name, replicas) => scale(&client, &name, replicas).await,
        What::Arrive(workload) => {
            let _there_already = world.deploy(&workload);
        }
        What::Leave(name) => leave(&client, &name).await,
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
        What::LoseNode(pick, stops) => lose_node(world, pick, stops).await,
        What::Differ(odd, left) => {
            world.differ(Rule { means: Box::new(|_| true), left, difference: difference(odd) });
        }
        What::Dry(zone, spot, lasts) => {
            world.begin(TimedFault::CapacityLoss(offerings(world, zone, spot)), Some(lasts));
        }
        What::NoImages(lasts) => world.begin(TimedFault::Hidden(Hidden::Images), Some(lasts)),
        What::NoReservations(lasts) => world.begin(TimedFault::Hidden(Hidden::Reservations), Some(lasts)),
        What::NoSubnets(zone, lasts) => {
            world.begin(TimedFault::Hidden(Hidden::Subnets(world.zone(zone))), Some(lasts));
        }
        What::Doom(count) => account.doom_next_boots(count),
        What::NoJoin(lasts) => world.begin(TimedFault::NeverJoin, Some(lasts)),
        What::Silence(pick) => {
            on_one(world, pick, |_| true, |id| world.agent.behave(id.as_str(), Behaviour::Silent));
        }
        What::Forget => {
            // Forgotten changes can no longer be checked.
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

/// A workload gets another number of pods.
async fn scale(client: &kube::Client, name: &str, replicas: u32) {
    let change = json!({"spec": {"replicas": replicas}});
    // One of them is there. Jobs end as they began.
    patch::<Deployment>(Api::default_namespaced(client.clone()), name, change.clone()).await;
    patch::<StatefulSet>(Api::default_namespaced(client.clone()), name, change).await;
}

/// A workload goes with its pods.
async fn leave(client: &kube::Client, name: &str) {
    let how = DeleteParams::background();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let stateful: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let _another_kind = deployments.delete(name, &how).await;
    let _another_kind = stateful.delete(name, &how).await;
    let _another_kind = jobs.delete(name, &how).await;
}

/// Returns the difference of machines that are odd in this way.
fn difference(odd: Odd) -> Difference {
    let seconds = Duration::from_secs;
    match odd {
        Odd::Room(name, percent) => Difference {
            room: [(name.to_owned(), Change::Percent(-percent))].into(),
            ..Difference::default()
        },
        Odd::Taint => Difference {
            taints: vec![Taint::new(ODD_TAINT, "", Effect::NoSchedule)],
            ..Difference::default()
        },
        Odd::Late(joins, ready) => {
            Difference { joins_later: seconds(joins), ready_later: seconds(ready), ..Difference::default() }
        }
        Odd::Flaps(every, lasts) => {
            let flaps = Flaps { every: seconds(every), lasts: seconds(lasts) };
            Difference { flaps: Some(flaps), ..Difference::default() }
        }
    }
}

/// Removes a Node whatever keeps it; its instance stops, or its kubelet joins again.
async fn lose_node(world: &World, pick: usize, stops: bool) {
    let nodes = Api::<Node>::all(world.server.client());
    let Ok(all) = nodes.list(&ListParams::default()).await else { return };
    let Some(node) = all.items.get(pick % all.items.len().max(1)) else { return };
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    let id = InstanceId::from(id.rsplit('/').next().unwrap_or_default());
    world.truth.struck(&id);
    if stops {
        ignore_already_gone(world.account.stop(&id));
    }
    let name = node.name_any();
    patch(nodes.clone(), &name, json!({"metadata": {"finalizers": null}})).await;
    let _gone_already = nodes.delete(&name, &DeleteParams::default()).await;
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
