//! Notices about instances, from `EventBridge` or the status checks to the claims.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_aws::market::unavailable::Subject;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{CapacityReservation, Instance};
use karpenter_aws_api::events::{RuleSpec, Target};
use karpenter_aws_api::sqs::Attributes;
use karpenter_aws_sim::examples::capacity_reservation;
use karpenter_aws_sim::{Fault, Impairment};
use karpenter_cloud::OfferingKey;
use karpenter_kube_sim::apiserver::{Fault as ApiFault, Rule};
use karpenter_model::names::label::{self, aws};
use karpenter_model::{CapacityType, DisruptionSettings};
use kube::ResourceExt;
use serde_json::json;

use crate::workload::{self, claims, runs};
use crate::world::{QUEUE, World};

/// A world with a queue that gets every notice, and one spot instance with a pod on it.
async fn running() -> (World, Instance) {
    running_in(World::new().await).await
}

async fn running_in(world: World) -> (World, Instance) {
    let world = waiting_in(world).await;
    workload::until_running(&world).await;
    let instance = world.account.live_instances().remove(0);
    (world, instance)
}

/// Starts a world with a machine, in which recommendations to leave it are acted on.
async fn acting_on_recommendations() -> (World, Instance) {
    let disruption = DisruptionSettings { on_rebalance: true, ..DisruptionSettings::default() };
    let decisions = karpenter_model::Settings { disruption, ..karpenter_model::Settings::default() };
    running_in(World::deciding(decisions).await).await
}

/// A world with a queue that gets every notice, and a pod that needs a spot instance.
async fn waiting() -> World {
    waiting_in(World::new().await).await
}

async fn waiting_in(world: World) -> World {
    listen(&world).await;
    world.class("default", &json!({}));
    workload::pool(&world, &["spot"]);
    workload::replicas(&world, 1);
    world
}

pub(crate) async fn listen(world: &World) {
    let clients = world.account.clients();
    let queue = clients.sqs.create_queue(QUEUE, &Attributes::new(), &Tags::new()).await.unwrap();
    let arn = clients.sqs.get_queue_attributes(&queue).await.unwrap()["QueueArn"].clone();
    let policy = json!({"Statement": {
        "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
        "Resource": arn,
    }});
    let policy = Attributes::from([("Policy".to_owned(), policy.to_string())]);
    clients.sqs.set_queue_attributes(&queue, &policy).await.unwrap();
    let rule = RuleSpec {
        name: "all".into(),
        description: String::new(),
        pattern: r#"{"source":["aws.ec2","aws.health"]}"#.into(),
        tags: Tags::new(),
    };
    clients.events.put_rule(&rule).await.unwrap();
    clients.events.put_targets("all", &[Target { id: "queue".into(), arn: arn.into() }]).await.unwrap();
}

/// Messages left in the queue, whether the controller is handling them or not.
pub(crate) async fn left(world: &World) -> String {
    let sqs = &world.account.clients().sqs;
    let queue = sqs.get_queue_url(QUEUE).await.unwrap();
    sqs.get_queue_attributes(&queue).await.unwrap()["ApproximateNumberOfMessages"].clone()
}

/// The message of `EventBridge` that a spot instance is about to be taken.
pub(crate) fn spot_warning(instance: &str) -> String {
    let warning = json!({
        "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": "2026-01-01T12:00:00Z", "detail": {"instance-id": instance},
    });
    warning.to_string()
}

pub(crate) async fn send(world: &World, body: &str) {
    let sqs = &world.account.clients().sqs;
    let queue = sqs.get_queue_url(QUEUE).await.unwrap();
    sqs.send_message(&queue, body).await.unwrap();
}

fn is_healthy(world: &World) -> bool {
    world.metrics.render().lines().any(|line| line == "karpenter_interruption_queue_healthy 1")
}

async fn until_replaced(world: &World, old: &Instance) {
    world
        .until("the pod runs on another instance", async || {
            let live = world.account.live_instances();
            live.len() == 1 && live[0].id != old.id && claims(world).len() == 1 && runs(world)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_spot_warning_moves_the_pods_before_the_instance_is_gone_and_avoids_its_offering() {
    let (world, old) = running().await;
    world.account.interrupt_spot(&old.id).unwrap();
    workload::until_deleting(&world).await;
    let offering = Subject::Offering(OfferingKey {
        instance_type: old.instance_type.as_str().into(),
        zone: old.zone.as_str().into(),
        capacity_type: CapacityType::Spot,
    });
    assert!(world.aws.unavailable.contains(&offering));
    until_replaced(&world, &old).await;
    let new = world.account.live_instances().remove(0);
    assert_ne!((new.instance_type, new.zone), (old.instance_type, old.zone));
    assert_eq!(world.told("SpotInterrupted").len(), 2, "claim and Node");
    assert_eq!(world.told("TerminatingOnInterruption").len(), 2);
    assert_eq!(world.disrupted(["spot_interrupted", "web", "spot", "", "graceful"]), 1);
    assert_eq!(world.metrics.aws.interruption_received_messages_total.value(["spot_interrupted"]), 1);
    world.until("the queue is empty", async || left(&world).await == "0").await;
}

/// The instance is there, but the answer that says so was lost, and it cannot be looked up for half a minute.
#[tokio::test(start_paused = true)]
async fn a_warning_that_comes_before_its_claim_knows_the_instance_is_not_dropped() {
    let world = waiting().await;
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    let hidden = world.now() + Duration::from_secs(40);
    world.account.inject(Fault::fail("DescribeInstances", "InternalError").until(hidden));
    world.until("an instance is there", async || !world.account.live_instances().is_empty()).await;
    let old = world.account.live_instances().remove(0);
    world.account.interrupt_spot(&old.id).unwrap();
    workload::until_deleting(&world).await;
    let lives = world.account.live_instances().iter().any(|instance| instance.id == old.id);
    assert!(lives, "told by the warning, not by the end of the instance");
    until_replaced(&world, &old).await;
}

#[tokio::test(start_paused = true)]
async fn a_rebalance_recommendation_is_only_an_event() {
    let (world, old) = running().await;
    world.account.recommend_rebalance(&old.id).unwrap();
    world.until("events are published", async || world.told("SpotRebalanceRecommendation").len() == 2).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(claims(&world).iter().all(|claim| claim.metadata.deletion_timestamp.is_none()));
    assert!(claims(&world).iter().all(|claim| drift_of(claim).is_none()));
    assert_eq!(left(&world).await, "0");
}

/// Opt-in: the pod has its new machine before the old one goes, and a second recommendation changes nothing.
#[tokio::test(start_paused = true)]
async fn a_machine_to_be_rebalanced_is_replaced_first_where_that_is_asked_for() {
    let (world, old) = acting_on_recommendations().await;
    world.account.recommend_rebalance(&old.id).unwrap();
    world.account.recommend_rebalance(&old.id).unwrap();
    let drifted = async || claims(&world).iter().any(|claim| drift_of(claim) == Some("RebalanceRecommended"));
    world.until("the claim drifts", drifted).await;
    let lives = async || world.account.live_instances().iter().any(|instance| instance.id == old.id);
    world
        .until("the replacement is ready", async || {
            assert!(lives().await, "the old machine stays until there is another one");
            world.nodes() == 2 && world.all::<Node>().iter().all(is_ready)
        })
        .await;
    until_replaced(&world, &old).await;
    assert_eq!(world.disrupted(["drifted", "web", "spot", "", "graceful"]), 1);
    assert_eq!(world.disrupted(["rebalance_recommendation", "web", "spot", "", "graceful"]), 0);
    assert!(claims(&world).iter().all(|claim| drift_of(claim).is_none()), "the new one is left alone");
    assert_eq!(left(&world).await, "0");
}

/// Another client changes the claim just then; the notice comes again.
#[tokio::test(start_paused = true)]
async fn a_recommendation_that_meets_a_conflict_is_not_lost() {
    let (world, old) = acting_on_recommendations().await;
    let refused = Rule::on("patch").resource("nodeclaims").times(1);
    world.server.faults().inject(refused, ApiFault::Conflict);
    world.account.recommend_rebalance(&old.id).unwrap();
    until_replaced(&world, &old).await;
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn drift_of(claim: &NodeClaim) -> Option<&str> {
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.kind == "Drifted").map(|condition| condition.reason.as_str())
}

#[tokio::test(start_paused = true)]
async fn messages_that_cannot_be_read_or_concern_others_are_dropped_and_block_nothing() {
    let (world, old) = running().await;
    for body in ["not json", "[]", "", "{\"version\":\"0\",\"source\":\"aws.ec2\",\"detail-type\":\"new\"}"] {
        send(&world, body).await;
    }
    send(&world, &spot_warning("i-of-somebody-else")).await;
    world.until("the queue is empty", async || left(&world).await == "0").await;
    assert!(world.told("TerminatingOnInterruption").is_empty());
    let received = &world.metrics.aws.interruption_received_messages_total;
    assert!(received.value(["no_op"]) >= 4);
    assert_eq!(received.value(["spot_interrupted"]), 1);
    world.account.schedule_event(&old.id, "instance-retirement", world.now()).unwrap();
    until_replaced(&world, &old).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_nothing_can_be_done_about_hold_up_no_others() {
    const POISONED: usize = 20;
    let (world, old) = running().await;
    let refused = Rule::on("delete").resource("nodeclaims");
    world.server.faults().inject(refused, ApiFault::InternalError);
    let warning = spot_warning(old.id.as_str());
    // One in every batch.
    for _ in 0..POISONED {
        send(&world, &warning).await;
        for _ in 0..9 {
            send(&world, "{}").await;
        }
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(left(&world).await, POISONED.to_string(), "the others are done");
    assert!(is_healthy(&world), "the queue is read");
    let failed = world.metrics.runtime.reconcile_errors_total.value(["interruption"]);
    assert!(failed > 0, "and it is said");

    world.account.forget_calls();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(is_healthy(&world), "it still is, though nothing can be done about what is left");
    let polls = world.account.calls().count("ReceiveMessage");
    assert!(polls <= 100, "{polls} polls in ten minutes");
    world.server.faults().clear();
    until_replaced(&world, &old).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_read_is_tried_again_and_said_to_be_unhealthy() {
    let (world, old) = running().await;
    world.until("the queue is read", async || is_healthy(&world)).await;
    world.account.inject(Fault::fail("ReceiveMessage", "AccessDenied").times(5));
    world.until("it is not", async || !is_healthy(&world)).await;
    world.account.interrupt_spot(&old.id).unwrap();
    until_replaced(&world, &old).await;
    assert!(is_healthy(&world));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_stopped_by_hand_is_replaced() {
    let (world, old) = running().await;
    world.account.stop(&old.id).unwrap();
    until_replaced(&world, &old).await;
    assert_eq!(world.disrupted(["instance_stopped", "web", "spot", "", "graceful"]), 1);
}

#[tokio::test(start_paused = true)]
async fn an_impaired_instance_is_given_up_at_once_and_counted_once() {
    let (world, old) = running().await;
    world.account.impair(&old.id, Impairment::System).unwrap();
    world
        .until("its deadline is set", async || {
            claims(&world).iter().any(|claim| {
                claim.annotations().contains_key("karpenter.sh/nodeclaim-termination-timestamp")
                    && claim.metadata.deletion_timestamp.is_some()
            })
        })
        .await;
    until_replaced(&world, &old).await;
    assert_eq!(world.metrics.aws.interruption_instance_status_unhealthy_total.value(["SystemStatus"]), 1);
    assert_eq!(world.disrupted(["system_status", "web", "spot", "", "graceful"]), 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_terminated_by_hand_is_replaced() {
    let (world, old) = running().await;
    world.account.terminate_behind_our_back(&old.id).unwrap();
    let terminated = world.now();
    workload::until_deleting(&world).await;
    assert!(world.now().duration_since(terminated).as_secs() <= 60);
    until_replaced(&world, &old).await;
    assert_eq!(world.disrupted(["instance_terminated", "web", "spot", "", "graceful"]), 1);
    assert!(world.metrics.aws.interruption_received_messages_total.value(["instance_terminated"]) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_health_message_by_itself_replaces_the_instance() {
    let (world, old) = running().await;
    // No status of the instance says it: only the message does.
    let message = json!({
        "version": "0", "source": "aws.health", "detail-type": "AWS Health Event",
        "time": "2026-01-01T12:00:00Z",
        "detail": {
            "service": "EC2", "eventTypeCategory": "scheduledChange",
            "affectedEntities": [{"entityValue": old.id.as_str()}],
        },
    });
    send(&world, &message.to_string()).await;
    until_replaced(&world, &old).await;
    assert_eq!(world.disrupted(["scheduled_change", "web", "spot", "", "graceful"]), 1);
    assert_eq!(left(&world).await, "0");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_goes_back_into_its_interruptible_reservation_is_replaced() {
    let world = World::new().await;
    listen(&world).await;
    world.account.put_capacity_reservation(CapacityReservation {
        interruptible: Some(true),
        ..capacity_reservation("cr-1")
    });
    world.class("default", &json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    workload::pool(&world, &["reserved", "on-demand"]);
    workload::replicas(&world, 1);
    workload::until_running(&world).await;
    let old = world.account.live_instances().remove(0);
    let node = world.all::<Node>().remove(0);
    for (key, value) in [
        (label::CAPACITY_TYPE, "reserved"),
        (aws::CAPACITY_RESERVATION_ID, "cr-1"),
        (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, "true"),
    ] {
        assert_eq!(node.labels()[key], value, "{key}");
    }
    // The reservation is reduced to nothing.
    world.account.put_capacity_reservation(CapacityReservation {
        interruptible: Some(true),
        total: 0,
        available: 0,
        ..capacity_reservation("cr-1")
    });
    world.account.interrupt_reservation(&old.id).unwrap();
    let warned = world.now();
    workload::until_deleting(&world).await;
    assert!(world.now().duration_since(warned).as_secs() <= 60);
    until_replaced(&world, &old).await;
    let node = world.all::<Node>().remove(0);
    assert_eq!(node.labels()[label::CAPACITY_TYPE], "on-demand");
}
