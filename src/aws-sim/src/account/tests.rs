//! The account behaves as AWS does where the product depends on it.

mod capacity;
mod eventual;
mod faults;
mod interruption;
mod members;
mod support;

use std::sync::Arc;

use crate::examples;
use crate::{Account, Fault, Options};
use karpenter_aws_api::Tags;
use karpenter_aws_api::conformance::{self, Reserved, Subject};
use karpenter_aws_api::ec2::{CapacityReservation, PlacementGroup, PlacementStrategy};
use karpenter_model::{Clock, ManualClock};

/// A fresh account; of the two types the first is said to be the cheaper one.
async fn subject(types: [&str; 2]) -> (Account, Subject) {
    let clock = Arc::new(ManualClock::default());
    let account = Account::with_clock(Options::default(), Arc::clone(&clock) as Arc<dyn Clock>);
    let clients = account.clients();
    let subject = Subject {
        subnet: support::subnet(&account, 0),
        security_group: support::group(&account),
        image: support::image(&clients).await,
        types: types.map(Into::into),
        cluster: Some("demo".to_owned()),
        reserved: Some(reserved(&account, types[0])),
        clients,
        prefix: "conformance".to_owned(),
        pass_time: Box::new(move || {
            clock.advance(std::time::Duration::from_secs(5));
            Box::pin(std::future::ready(()))
        }),
    };
    (account, subject)
}

/// One instance of `instance_type` in the first zone, and a group of three partitions.
fn reserved(account: &Account, instance_type: &str) -> Reserved {
    let reservation = CapacityReservation {
        instance_type: instance_type.into(),
        total: 1,
        available: 1,
        ..examples::capacity_reservation("cr-1")
    };
    account.put_capacity_reservation(reservation);
    account.put_placement_group(PlacementGroup {
        id: "pg-1".into(),
        name: "rack".to_owned(),
        strategy: PlacementStrategy::Partition,
        state: "available".to_owned(),
        partitions: Some(3),
        tags: Tags::new(),
    });
    Reserved { reservation: "cr-1".into(), placement_group: "rack".to_owned() }
}

#[tokio::test]
async fn the_account_conforms() {
    let (account, subject) = subject(["m5.large", "m5.xlarge"]).await;
    assert_eq!(conformance::run(&subject, &[]).await, []);
    account.assert_no_leaks("demo");
}

#[tokio::test]
async fn conformance_finds_what_is_wrong_and_can_leave_checks_out() {
    let (account, subject) = subject(["m5.xlarge", "m5.large"]).await;
    account.inject(Fault::fail("UpdateAssumeRolePolicy", "InternalError"));
    let names = |found: Vec<(&'static str, conformance::Violation)>| -> Vec<&'static str> {
        found.into_iter().map(|(name, _)| name).collect()
    };
    let pricing = "launch.lowest_price_takes_the_cheaper_type";
    assert_eq!(names(conformance::run(&subject, &[]).await), ["identity.roles_live_and_die", pricing]);
    let (_, subject) = self::subject(["m5.xlarge", "m5.large"]).await;
    assert_eq!(conformance::run(&subject, &[pricing]).await, []);
}

#[tokio::test]
async fn live_instances_are_described_anew_when_one_has_changed() {
    let world = support::World::new(Options::default()).await;
    let launched = world.launch(support::SPOT, 2, &[("m5.large", 0)]).await;
    let first = world.account.live();
    assert!(Arc::ptr_eq(&first, &world.account.live()), "nothing has changed");
    let tags = Tags::from([("a".to_owned(), "b".to_owned())]);
    let ids: Vec<String> = first.iter().map(|instance| instance.id.to_string()).collect();
    assert!(ids.len() == 2 && launched.errors.is_empty(), "{launched:?}");
    world.clients.ec2.create_tags(&ids[..1], &tags).await.unwrap();
    let tagged = world.account.live();
    assert_eq!(tagged[0].tags.get("a").map(String::as_str), Some("b"));
    assert!(Arc::ptr_eq(&first[1], &tagged[1]), "the other one is as it was");
    world.clients.ec2.terminate_instances(&[first[0].id.clone()]).await.unwrap();
    world.pass(60);
    let left = world.account.live();
    assert_eq!(left.iter().map(|instance| instance.id.to_string()).collect::<Vec<_>>(), ids[1..]);
    let truth = world.account.live_instances();
    assert!(left.iter().map(AsRef::as_ref).eq(truth.iter()), "as they are described one by one");
}
