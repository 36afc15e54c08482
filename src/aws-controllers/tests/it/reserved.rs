//! Capacity reservations, from the selector of a node class to the end of a reservation.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::ConditionStatus::True;
use karpenter_api::ec2nodeclass::ReservationState;
use karpenter_aws_api::ec2::CapacityReservation;
use karpenter_aws_sim::Fault;
use karpenter_aws_sim::examples::capacity_reservation;
use karpenter_model::names::label::{self, aws};
use karpenter_testkit::objects::{one_of, pod};
use kube::ResourceExt;
use serde_json::json;

use crate::workload;
use crate::world::World;

fn reservation() -> CapacityReservation {
    capacity_reservation("cr-1")
}

fn an_hour_after_the_start() -> jiff::Timestamp {
    "2026-01-01T13:00:00Z".parse().unwrap()
}

/// A pod that runs in the reservation.
async fn running(reservation: CapacityReservation) -> World {
    let world = World::new().await;
    world.account.put_capacity_reservation(reservation);
    world.class("default", &json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    workload::run(&world, &["reserved", "on-demand"]).await;
    world
}

fn node(world: &World) -> Node {
    world.all::<Node>().remove(0)
}

#[tokio::test(start_paused = true)]
async fn reservations_are_in_the_status_and_used_first() {
    let world = running(reservation()).await;
    let ready = world.condition("default", "CapacityReservationsReady").await;
    assert_eq!(ready.map(|(status, _)| status), Some(True));
    let shown = world.status().await.capacity_reservations;
    assert_eq!(shown.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["cr-1"]);
    for labels in [workload::claims(&world)[0].labels(), node(&world).labels()] {
        assert_eq!(labels[label::CAPACITY_TYPE], "reserved");
        assert_eq!(labels[aws::CAPACITY_RESERVATION_ID], "cr-1");
    }
    world.account.inject(Fault::fail("DescribeCapacityReservations", "InternalError"));
    tokio::time::sleep(Duration::from_mins(10)).await;
    let still = world.status().await.capacity_reservations;
    assert_eq!(still, shown, "no answer is not an empty answer");
}

#[tokio::test(start_paused = true)]
async fn what_outlives_its_reservation_is_called_on_demand_and_stays() {
    let world = running(reservation()).await;
    let before = world.account.live_instances();
    world.account.end_reservation(&"cr-1".into());
    world
        .until("claim and Node say so", async || {
            let (claims, node) = (workload::claims(&world), node(&world));
            [claims[0].labels(), node.labels()].into_iter().all(|labels| {
                labels[label::CAPACITY_TYPE] == "on-demand"
                    && aws::RESERVED_CAPACITY.iter().all(|key| !labels.contains_key(*key))
            })
        })
        .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let ids = |instances: &[karpenter_aws_api::ec2::Instance]| -> Vec<String> {
        instances.iter().map(|one| one.id.to_string()).collect()
    };
    assert_eq!(ids(&world.account.live_instances()), ids(&before), "nothing is replaced for it");
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_reserved_capacity_only_drifts_once_its_reservation_has_ended() {
    let world = World::new().await;
    world.account.put_capacity_reservation(reservation());
    world.class("default", &json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    workload::run(&world, &["reserved"]).await;
    let condition = |kind: &str| {
        let conditions = workload::claims(&world).remove(0).status.unwrap().conditions;
        conditions.into_iter().find(|one| one.kind == kind).map(|one| one.reason)
    };
    world.account.end_reservation(&"cr-1".into());
    let ended = world.now();
    let demoted = async || workload::claims(&world)[0].labels()[label::CAPACITY_TYPE] == "on-demand";
    world.until("the claim is called on-demand", demoted).await;
    assert!(world.now().duration_since(ended).as_secs() <= 75);
    world.until("it has drifted", async || condition("Drifted").is_some()).await;
    assert_eq!(condition("Drifted").as_deref(), Some("RequirementsDrifted"));
    // There is nothing to replace it by, so it stays.
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(workload::runs(&world));
}

#[tokio::test(start_paused = true)]
async fn a_capacity_block_is_left_forty_minutes_before_it_ends() {
    let end = an_hour_after_the_start();
    let block =
        CapacityReservation { kind: Some("capacity-block".to_owned()), ends_at: Some(end), ..reservation() };
    let world = running(block).await;
    assert_eq!(workload::claims(&world)[0].labels()[aws::CAPACITY_RESERVATION_TYPE], "capacity-block");
    workload::until_deleting(&world).await;
    let left = end.duration_since(world.now());
    assert!((37..=40).contains(&left.as_mins()), "{left}");
    let shown = world.status().await.capacity_reservations;
    assert_eq!(shown[0].state, ReservationState::Expiring);
    let counter = &world.metrics.nodeclaims.disrupted_total;
    assert_eq!(counter.value(["capacity_block_ends", "web", "reserved", "", "graceful"]), 1);
    world
        .until("the pod runs elsewhere", async || {
            let claims = workload::claims(&world);
            claims.len() == 1
                && claims[0].labels().get(label::CAPACITY_TYPE).is_some_and(|kind| kind == "on-demand")
                && workload::runs(&world)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_reservation_that_ends_is_not_left_early() {
    let end = an_hour_after_the_start();
    let world = running(CapacityReservation { ends_at: Some(end), ..reservation() }).await;
    tokio::time::sleep(Duration::from_mins(50)).await;
    assert!(workload::claims(&world)[0].metadata.deletion_timestamp.is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_may_ask_for_a_reservation_by_its_id_and_by_its_kind() {
    for (key, value) in [
        (aws::CAPACITY_RESERVATION_ID, "cr-2"),
        (aws::CAPACITY_RESERVATION_TYPE, "default"),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, "false"),
    ] {
        let world = World::new().await;
        let tags = std::collections::BTreeMap::from([("team".to_owned(), "web".to_owned())]);
        for (id, instance_type, total) in [("cr-1", "m5.large", 1), ("cr-2", "m5.xlarge", 2)] {
            world.account.put_capacity_reservation(CapacityReservation {
                instance_type: instance_type.into(),
                total,
                available: total,
                tags: tags.clone(),
                ..capacity_reservation(id)
            });
        }
        world.class("default", &json!({"capacityReservationSelectorTerms": [{"tags": {"team": "web"}}]}));
        workload::pool(&world, &["reserved", "on-demand"]);
        world.load(&pod("one", "1", &json!({"spec": {"nodeSelector": {key: value}}})));
        workload::until_running(&world).await;
        for labels in [workload::claims(&world)[0].labels(), node(&world).labels()] {
            assert_eq!(labels[key], value);
            assert_eq!(labels[label::CAPACITY_TYPE], "reserved");
        }
        let instance = world.account.live_instances().remove(0);
        let id = instance.reservation.unwrap().to_string();
        assert_eq!(node(&world).labels()[aws::CAPACITY_RESERVATION_ID], id);
        if key == aws::CAPACITY_RESERVATION_ID {
            assert_eq!(id, value);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn on_demand_nodes_move_into_a_reservation_that_comes() {
    let world = World::new().await;
    world.class("default", &json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    let requirements = [one_of(label::CAPACITY_TYPE, &["reserved", "on-demand"])];
    let eager = json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    workload::pool_with(&world, "web", &requirements, &json!({"disruption": eager}));
    workload::replicas(&world, 1);
    workload::until_running(&world).await;
    assert_eq!(node(&world).labels()[label::CAPACITY_TYPE], "on-demand");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(node(&world).labels()[label::CAPACITY_TYPE], "on-demand", "it is the cheapest there is");
    world.account.put_capacity_reservation(reservation());
    world
        .until("the pod runs in the reservation, and nothing else is left", async || {
            let live = world.account.live_instances();
            live.len() == 1
                && live[0].reservation.as_ref().is_some_and(|id| id.as_str() == "cr-1")
                && workload::runs(&world)
        })
        .await;
    assert_eq!(node(&world).labels()[label::CAPACITY_TYPE], "reserved");
}
