//! Selection of reservations, and the form they have in the status.

use karpenter_api::ec2nodeclass::{AmiFamily, ReservationState, ReservationType};
use karpenter_aws_sim::examples::capacity_reservation as reservation;
use karpenter_aws_sim::{Account, Fault, Options};
use karpenter_model::ManualClock;
use karpenter_model::clock::later;

use super::*;

fn tagged(id: &str, criteria: &str, owner: &str) -> CapacityReservation {
    CapacityReservation {
        match_criteria: criteria.to_owned(),
        owner: owner.to_owned(),
        tags: [("team".to_owned(), "web".to_owned())].into(),
        ..reservation(id)
    }
}

fn world() -> (Account, Arc<ManualClock>, Reservations) {
    let account = Account::with_clock(Options::default(), Arc::new(ManualClock::default()));
    let clock = Arc::new(ManualClock::default());
    let reservations = Reservations::new(account.clients().ec2, clock.clone());
    (account, clock, reservations)
}

fn selecting(terms: &[CapacityReservationSelectorTerm]) -> EC2NodeClass {
    let mut class = EC2NodeClass::new("a", Default::default());
    class.spec.capacity_reservation_selector_terms = Some(terms.to_vec());
    class
}

fn by_id(id: &str) -> CapacityReservationSelectorTerm {
    CapacityReservationSelectorTerm { id: Some(id.to_owned()), ..Default::default() }
}

#[tokio::test]
async fn terms_are_joined_by_or_their_parts_by_and_and_only_active_ones_count() {
    let (account, _, reservations) = world();
    account.put_capacity_reservation(reservation("cr-1"));
    account.put_capacity_reservation(tagged("cr-2", "open", "123456789012"));
    account.put_capacity_reservation(tagged("cr-3", "targeted", "123456789012"));
    account.put_capacity_reservation(tagged("cr-4", "targeted", "999999999999"));
    account.put_capacity_reservation(CapacityReservation {
        state: "expired".to_owned(),
        ..tagged("cr-5", "targeted", "123456789012")
    });
    let tags = || Some([("team".to_owned(), "web".to_owned())].into());
    let term = |criteria: Option<ReservationMatch>, owner: Option<&str>| CapacityReservationSelectorTerm {
        tags: tags(),
        owner_id: owner.map(str::to_owned),
        instance_match_criteria: criteria,
        id: None,
    };
    let targeted = Some(ReservationMatch::Targeted);
    for (terms, expected) in [
        (vec![], &[][..]),
        (vec![CapacityReservationSelectorTerm::default()], &[]),
        (vec![by_id("cr-1"), by_id("cr-1"), by_id("cr-none"), by_id("cr-5")], &["cr-1"]),
        (vec![term(None, None)], &["cr-2", "cr-3", "cr-4"]),
        (vec![term(targeted, None)], &["cr-3", "cr-4"]),
        (vec![term(targeted, Some("123456789012"))], &["cr-3"]),
        (vec![by_id("cr-3"), by_id("cr-1"), term(None, Some("999999999999"))], &["cr-1", "cr-3", "cr-4"]),
    ] {
        let found = reservations.select(&selecting(&terms)).await.unwrap();
        let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, expected, "{terms:?}");
    }
}

#[tokio::test]
async fn every_answer_counts_and_an_error_is_not_an_empty_answer() {
    let (account, clock, reservations) = world();
    account.put_capacity_reservation(reservation("cr-1"));
    let class = selecting(&[by_id("cr-1")]);
    reservations.select(&class).await.unwrap();
    let left = || reservations.availability().left().of("cr-1");
    assert_eq!(left(), 2);
    reservations.availability().exhausted("cr-1");
    reservations.select(&class).await.unwrap();
    assert_eq!((left(), account.calls().count("DescribeCapacityReservations")), (0, 1), "remembered");
    clock.advance(FRESH);
    account.inject(Fault::fail("DescribeCapacityReservations", "InternalError"));
    assert!(reservations.select(&class).await.is_err());
    account.heal();
    reservations.select(&class).await.unwrap();
    assert_eq!(left(), 2, "counted again");
}

#[tokio::test]
async fn what_has_ended_is_not_selected_even_from_memory() {
    let (account, clock, reservations) = world();
    let end = later(clock.now(), Duration::from_secs(30));
    account.put_capacity_reservation(CapacityReservation { ends_at: Some(end), ..reservation("cr-1") });
    let class = selecting(&[by_id("cr-1")]);
    assert_eq!(reservations.select(&class).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(30));
    assert_eq!(reservations.select(&class).await.unwrap().len(), 0);
}

#[test]
fn capacity_blocks_expire_forty_minutes_early_and_nothing_else_does() {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let block = Some("capacity-block");
    for (kind, ends_in, expiring) in [
        (None, Some(1), false),
        (Some("default"), Some(1), false),
        (block, None, false),
        (block, Some(41), false),
        (block, Some(40), true),
        (block, Some(1), true),
    ] {
        let reservation = CapacityReservation {
            kind: kind.map(str::to_owned),
            ends_at: ends_in.map(|minutes| later(now, Duration::from_mins(minutes))),
            ..reservation("cr-1")
        };
        let entry = status::to_status(&[reservation], &selecting(&[]), false, now).remove(0);
        assert_eq!(entry.state == ReservationState::Expiring, expiring, "{kind:?} ends in {ends_in:?}");
        let of_block = entry.reservation_type == ReservationType::CapacityBlock;
        assert_eq!(of_block, kind == block);
        assert!(!entry.interruptible, "nothing said is no");
    }
}

#[test]
fn reservations_of_unknown_kinds_are_left_out() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let all = [
        reservation("cr-1"),
        CapacityReservation { match_criteria: "new".to_owned(), ..reservation("cr-2") },
        CapacityReservation { kind: Some("new".to_owned()), ..reservation("cr-3") },
        CapacityReservation { kind: Some(String::new()), interruptible: Some(true), ..reservation("cr-4") },
    ];
    let status = status::to_status(&all, &selecting(&[]), false, now);
    let told: Vec<_> = status.iter().map(|one| (one.id.as_str(), one.interruptible)).collect();
    assert_eq!(told, [("cr-1", false), ("cr-4", true)]);
}

#[test]
fn reservations_that_no_launch_of_the_class_goes_into_are_left_out() {
    use AmiFamily::{AL2023, Bottlerocket, Custom, Windows2022};
    let (linux, windows) = ("Linux/UNIX", "Windows with SQL Server");
    for (family, platform, tenancy, dedicated, kept) in [
        (AL2023, Some(linux), Some("default"), false, true),
        (AL2023, Some("Red Hat Enterprise Linux"), Some("default"), true, true),
        (AL2023, None, None, false, true),
        (AL2023, Some("new"), Some("new"), false, true),
        (AL2023, Some(windows), Some("default"), false, false),
        (Bottlerocket, Some("Windows"), None, true, false),
        (Custom, Some(windows), None, false, true),
        (Windows2022, Some(windows), None, false, true),
        (Windows2022, Some("new"), None, false, true),
        (Windows2022, Some(linux), None, false, false),
        (Windows2022, Some("SUSE Linux"), None, false, false),
        (AL2023, Some(linux), Some("dedicated"), false, false),
        (AL2023, Some(linux), Some("dedicated"), true, true),
    ] {
        let mut class = selecting(&[]);
        class.spec.ami_family = Some(family);
        let reservation = CapacityReservation {
            platform: platform.map(str::to_owned),
            tenancy: tenancy.map(str::to_owned),
            ..reservation("cr-1")
        };
        let status = status::to_status(&[reservation], &class, dedicated, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(!status.is_empty(), kept, "{family:?}: {platform:?}, {tenancy:?}");
    }
}
