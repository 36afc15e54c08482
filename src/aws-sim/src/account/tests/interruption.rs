//! Notices reach the queue when rule, target and queue policy are in place, and only then.

use std::time::Duration;

use karpenter_aws_api::events::{RuleSpec, Target};
use karpenter_aws_api::id::QueueUrl;
use karpenter_aws_api::sqs::{Attributes, ReceiveOptions};
use karpenter_aws_api::{Filter, Tags};
use serde_json::Value;

use super::support::{ON_DEMAND, SPOT, World};
use crate::{Impairment, Options};

/// Creates queue, policy (if wanted) and one rule for everything of EC2 and Health.
async fn listen(world: &World, policy: bool) -> QueueUrl {
    let sqs = &world.clients.sqs;
    let queue = sqs.create_queue("demo", &Attributes::new(), &Tags::new()).await.unwrap();
    let arn = sqs.get_queue_attributes(&queue).await.unwrap()["QueueArn"].clone();
    if policy {
        let document = format!(
            r#"{{"Statement":{{"Effect":"Allow","Principal":{{"Service":"events.amazonaws.com"}},"Action":"sqs:SendMessage","Resource":"{arn}"}}}}"#
        );
        let attributes = Attributes::from([("Policy".to_owned(), document)]);
        sqs.set_queue_attributes(&queue, &attributes).await.unwrap();
    }
    let rule = RuleSpec {
        name: "all".into(),
        description: String::new(),
        pattern: r#"{"source":["aws.ec2","aws.health"]}"#.into(),
        tags: Tags::new(),
    };
    world.clients.events.put_rule(&rule).await.unwrap();
    let target = Target { id: "KarpenterInterruptionQueueTarget".into(), arn: arn.into() };
    world.clients.events.put_targets("all", &[target]).await.unwrap();
    queue
}

async fn received(world: &World, queue: &QueueUrl) -> Vec<Value> {
    let options = ReceiveOptions { wait: Duration::ZERO, ..ReceiveOptions::default() };
    let messages = world.clients.sqs.receive_messages(queue, options).await.unwrap();
    for message in &messages {
        world.clients.sqs.delete_message(queue, &message.receipt).await.unwrap();
    }
    messages.iter().map(|message| serde_json::from_str(&message.body).unwrap()).collect()
}

fn states(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["detail"]["state"].as_str()).collect()
}

#[tokio::test]
async fn a_spot_instance_is_warned_two_minutes_before_its_end() {
    let world = World::new(Options::default()).await;
    let queue = listen(&world, true).await;
    let id = world.launch_one(SPOT, "m5.large").await;
    world.pass(10);
    assert_eq!(states(&received(&world, &queue).await), ["pending", "running"]);

    world.account.interrupt_spot(&id).unwrap();
    let warning = received(&world, &queue).await.remove(0);
    assert_eq!(warning["detail-type"], "EC2 Spot Instance Interruption Warning");
    assert_eq!(warning["detail"]["instance-id"], id.as_str());
    assert_eq!(warning["version"], "0");
    assert_eq!(warning["account"], "123456789012");
    world.pass(119);
    assert!(received(&world, &queue).await.is_empty());
    world.pass(1 + 30);
    let events = received(&world, &queue).await;
    assert_eq!(states(&events), ["shutting-down", "terminated"]);
    assert_eq!(events[0]["time"], "2026-01-01T00:02:10Z", "announced with the time it happened");
}

#[tokio::test]
async fn without_a_queue_policy_nothing_arrives() {
    let world = World::new(Options::default()).await;
    let queue = listen(&world, false).await;
    let id = world.launch_one(SPOT, "m5.large").await;
    world.account.interrupt_spot(&id).unwrap();
    assert!(received(&world, &queue).await.is_empty());
}

#[tokio::test]
async fn health_rebalance_and_stop_have_their_own_notices() {
    let world = World::new(Options::default()).await;
    let queue = listen(&world, true).await;
    let id = world.launch_one(SPOT, "m5.large").await;
    world.pass(10);
    received(&world, &queue).await;
    world.account.recommend_rebalance(&id).unwrap();
    world.account.schedule_event(&id, "instance-retirement", world.account.now()).unwrap();
    world.account.stop(&id).unwrap();
    let events = received(&world, &queue).await;
    let kinds: Vec<_> = events.iter().map(|event| event["detail-type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "EC2 Instance Rebalance Recommendation",
            "AWS Health Event",
            "EC2 Instance State-change Notification"
        ]
    );
    assert_eq!(events[1]["detail"]["eventTypeCategory"], "scheduledChange");
    assert_eq!(events[1]["detail"]["affectedEntities"][0]["entityValue"], id.as_str());
    assert_eq!(states(&events), ["stopping"]);
}

#[tokio::test]
async fn impaired_instances_and_scheduled_events_are_found_by_filter() {
    let world = World::new(Options::default()).await;
    let sick = world.launch_one(ON_DEMAND, "m5.large").await;
    let retiring = world.launch_one(ON_DEMAND, "m5.large").await;
    world.pass(10);
    world.account.impair(&sick, Impairment::System).unwrap();
    let failed_at = world.account.now();
    world.account.schedule_event(&retiring, "instance-retirement", failed_at).unwrap();
    world.pass(60);
    let ec2 = &world.clients.ec2;
    let impaired = [Filter::new("system-status.status", ["impaired"])];
    let found = ec2.describe_instance_status(&impaired).await.unwrap();
    assert_eq!(found.iter().map(|health| &health.id).collect::<Vec<_>>(), [&sick]);
    assert_eq!(found[0].system.impaired_since, Some(failed_at));
    let events = [Filter::new("event.code", ["instance-stop", "instance-retirement"])];
    let found = ec2.describe_instance_status(&events).await.unwrap();
    assert_eq!(found.iter().map(|health| &health.id).collect::<Vec<_>>(), [&retiring]);
    world.account.recover(&sick).unwrap();
    assert!(ec2.describe_instance_status(&impaired).await.unwrap().is_empty());
}
