//! Faults, throttling, the call log, and what is left behind.

use super::support::{ON_DEMAND, World};
use crate::{Fault, Options};
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::InstanceQuery;
use karpenter_aws_api::sqs::{Attributes, ReceiveOptions};
use karpenter_aws_api::{Result, Tags};

async fn list(world: &World) -> Result<usize> {
    Ok(world.clients.ec2.describe_instances(&InstanceQuery::default()).await?.len())
}

#[tokio::test]
async fn a_fault_hits_the_calls_it_was_made_for() {
    let world = World::new(Options::default()).await;
    world.account.inject(Fault::fail("DescribeInstances", "InternalError").after(1).times(2));
    assert_eq!(list(&world).await, Ok(0));
    assert_eq!(list(&world).await.unwrap_err().kind, Kind::Transient);
    assert_eq!(list(&world).await.unwrap_err().kind, Kind::Transient);
    assert_eq!(list(&world).await, Ok(0));
    world.account.inject(Fault::fail("*", "UnauthorizedOperation").saying("permissions boundary"));
    let denied = list(&world).await.unwrap_err();
    assert_eq!((denied.kind, denied.message.as_str()), (Kind::Denied, "permissions boundary"));
    world.account.heal();
    assert_eq!(list(&world).await, Ok(0));
}

#[tokio::test]
async fn a_fault_can_be_narrowed_by_subject_and_by_time() {
    let world = World::new(Options::default()).await;
    let end = world.account.now() + std::time::Duration::from_secs(10);
    world.account.inject(Fault::fail("GetRole", "Throttling").about("node").until(end));
    let role = |name: &'static str| world.clients.iam.get_role(name);
    assert_eq!(role("node-role").await.unwrap_err().kind, Kind::Throttled);
    assert_eq!(role("other").await.unwrap_err().kind, Kind::NotFound);
    world.pass(10);
    assert_eq!(role("node-role").await.unwrap_err().kind, Kind::NotFound);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_instance_and_a_repeat_with_the_token_finds_it() {
    let world = World::new(Options::default()).await;
    world.account.inject(Fault::lose_answer("CreateFleet").times(1));
    let mut request = world.request(ON_DEMAND, 1, &[("m5.large", 0)]);
    request.client_token = Some("uid-1".to_owned());
    let error = world.clients.ec2.create_fleet(&request).await.unwrap_err();
    assert_eq!(error.kind, Kind::Transient);
    assert_eq!(world.account.live_instances().len(), 1, "it was launched all the same");
    let fleet = world.clients.ec2.create_fleet(&request).await.unwrap();
    assert_eq!(fleet.instance_ids().next(), Some(&world.account.live_instances()[0].id));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_takes_its_time() {
    let world = World::new(Options::default()).await;
    world.account.inject(Fault::delay("DescribeInstances", std::time::Duration::from_secs(30)));
    let before = tokio::time::Instant::now();
    assert_eq!(list(&world).await, Ok(0));
    assert_eq!(before.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn throttling_refills_with_time() {
    let world = World::new(Options::default()).await;
    world.account.throttle("DescribeInstances", 2, 1);
    assert!(list(&world).await.is_ok() && list(&world).await.is_ok());
    let error = list(&world).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_deref()), (Kind::Throttled, Some("RequestLimitExceeded")));
    world.pass(1);
    assert!(list(&world).await.is_ok());
    assert!(list(&world).await.is_err());
}

#[tokio::test]
async fn every_call_is_logged_with_its_outcome() {
    let world = World::new(Options::default()).await;
    world.account.forget_calls();
    let _ = world.clients.iam.get_role("missing").await;
    world.launch_one(ON_DEMAND, "m5.large").await;
    let calls = world.account.calls();
    assert_eq!(calls.count("CreateFleet"), 1);
    assert_eq!(calls.counts().into_iter().collect::<Vec<_>>(), [("CreateFleet", 1), ("GetRole", 1)]);
    assert_eq!((calls.0[0].subject.as_str(), calls.0[0].failure), ("missing", Some(Kind::NotFound)));
}

#[tokio::test]
async fn what_a_cluster_left_behind_is_listed() {
    let world = World::new(Options::default()).await;
    let id = world.launch_one(ON_DEMAND, "m5.large").await;
    assert_eq!(world.account.remains_of("demo").instances, [id.to_string()]);
    assert!(world.account.remains_of("other").is_empty());
    world.terminate(&[id]).await;
    world.pass(30);
    world.account.assert_no_leaks("demo");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_waits_for_the_first_message() {
    let world = World::new(Options::default()).await;
    let sqs = world.clients.sqs.clone();
    let queue = sqs.create_queue("demo", &Attributes::new(), &Tags::new()).await.unwrap();
    let before = tokio::time::Instant::now();
    assert!(sqs.receive_messages(&queue, ReceiveOptions::default()).await.unwrap().is_empty());
    assert_eq!(before.elapsed().as_secs(), 20);
    let send = async {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        sqs.send_message(&queue, "hello").await.unwrap();
    };
    let (received, ()) = tokio::join!(sqs.receive_messages(&queue, ReceiveOptions::default()), send);
    assert_eq!(received.unwrap()[0].body, "hello");
    assert_eq!(before.elapsed().as_secs(), 23);
}

#[tokio::test]
async fn messages_return_after_their_visibility_and_vanish_after_their_retention() {
    let world = World::new(Options::default()).await;
    let sqs = &world.clients.sqs;
    let retention = Attributes::from([("MessageRetentionPeriod".to_owned(), "300".to_owned())]);
    let queue = sqs.create_queue("demo", &retention, &Tags::new()).await.unwrap();
    sqs.send_message(&queue, "hello").await.unwrap();
    let at_once = ReceiveOptions { wait: std::time::Duration::ZERO, ..ReceiveOptions::default() };
    let first = sqs.receive_messages(&queue, at_once).await.unwrap();
    assert!(sqs.receive_messages(&queue, at_once).await.unwrap().is_empty());
    world.pass(20);
    let second = sqs.receive_messages(&queue, at_once).await.unwrap();
    assert_eq!(second[0].id, first[0].id);
    assert_ne!(second[0].receipt, first[0].receipt);
    world.pass(280);
    assert!(sqs.receive_messages(&queue, at_once).await.unwrap().is_empty());
    sqs.delete_queue(&queue).await.unwrap();
    let error = sqs.create_queue("demo", &retention, &Tags::new()).await.unwrap_err();
    assert_eq!(error.kind, Kind::Conflict, "AWS keeps the name for a minute");
    world.pass(60);
    sqs.create_queue("demo", &retention, &Tags::new()).await.unwrap();
}
