//! Zones that are shifted, with and without answers.

use std::time::Duration;

use jiff::ToSpan;
use karpenter_aws_sim::{Account, Fault, Options};
use karpenter_model::ManualClock;

use super::*;

struct World {
    account: Account,
    clock: Arc<ManualClock>,
    shifts: ZonalShifts,
    cluster: Arn,
}

impl World {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let account = Account::with_clock(Options::default(), Arc::clone(&clock) as _);
        assert!(account.register_for_zonal_shifts("demo"));
        let shifts = ZonalShifts::new(account.clients().shifts, Arc::clone(&clock) as _);
        let cluster = account.clients().eks.describe_cluster("demo").await.unwrap().arn;
        Self { account, clock, shifts, cluster }
    }

    fn advance(&self, minutes: u64) {
        self.clock.advance(Duration::from_mins(minutes));
    }

    fn in_minutes(&self, minutes: i64) -> Timestamp {
        self.clock.now() + minutes.minutes()
    }

    async fn changes(&self) -> (Vec<String>, Vec<String>) {
        self.shifts.refresh(&self.cluster).await.unwrap();
        let changes = self.shifts.take_changes();
        let begun = changes.begun.keys().map(ToString::to_string).collect();
        (begun, changes.ended.iter().map(ToString::to_string).collect())
    }

    fn away(&self) -> Vec<String> {
        self.shifts.away().iter().map(ToString::to_string).collect()
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// The reference forgets shifts only when none is left, so a cancelled one lasts as long as another.
#[tokio::test]
async fn one_of_two_shifts_can_be_cancelled_and_each_change_is_told_once() {
    let world = World::new().await;
    world.account.shift_away(&"az1".into(), Some(world.in_minutes(60)));
    world.account.shift_away(&"az2".into(), None);
    assert_eq!(world.away(), names(&[]), "there was no request yet");
    assert_eq!(world.changes().await, (names(&["az1", "az2"]), names(&[])));
    assert_eq!(world.changes().await, (names(&[]), names(&[])));
    world.account.cancel_shift(&"az1".into());
    assert_eq!(world.changes().await, (names(&[]), names(&["az1"])));
    assert_eq!(world.away(), names(&["az2"]));
}

#[tokio::test]
async fn a_change_waits_for_whoever_tells_it_however_often_is_asked_before() {
    let world = World::new().await;
    assert!(!world.shifts.known());
    world.account.shift_away(&"az1".into(), None);
    for _ in 0..2 {
        world.shifts.refresh(&world.cluster).await.unwrap();
        assert_eq!((world.shifts.known(), world.away()), (true, names(&["az1"])));
    }
    assert_eq!(world.changes().await, (names(&["az1"]), names(&[])));
}

#[tokio::test]
async fn without_an_answer_shifts_last_until_their_end_and_no_longer() {
    let world = World::new().await;
    world.account.shift_away(&"az1".into(), Some(world.in_minutes(60)));
    world.account.shift_away(&"az2".into(), None);
    world.changes().await;
    world.account.inject(Fault::fail("GetManagedResource", "InternalServerException"));
    world.advance(59);
    assert!(world.shifts.refresh(&world.cluster).await.is_err());
    assert_eq!(world.away(), names(&["az1", "az2"]));
    world.advance(1);
    assert_eq!(world.away(), names(&["az2"]));
}

#[tokio::test]
async fn the_longest_of_several_shifts_of_a_zone_counts() {
    let world = World::new().await;
    world.account.shift_away(&"az1".into(), Some(world.in_minutes(10)));
    world.account.shift_away(&"az1".into(), Some(world.in_minutes(60)));
    world.shifts.refresh(&world.cluster).await.unwrap();
    let begun = world.shifts.take_changes().begun;
    assert_eq!(begun, BTreeMap::from([("az1".into(), Some(world.in_minutes(60)))]));
    world.account.shift_away(&"az1".into(), None);
    world.account.shift_away(&"az2".into(), None);
    world.shifts.refresh(&world.cluster).await.unwrap();
    let begun = world.shifts.take_changes().begun;
    assert_eq!(begun, BTreeMap::from([("az2".into(), None)]));
}

#[tokio::test]
async fn a_resource_that_is_not_registered_is_shifted_away_from_nothing() {
    let world = World::new().await;
    world.account.shift_away(&"az1".into(), None);
    world.changes().await;
    assert!(world.shifts.known());
    let error = world.shifts.refresh(&"arn:aws:eks:us-west-2:1:cluster/other".into()).await.unwrap_err();
    assert_eq!(error.kind, Kind::NotFound);
    assert_eq!(world.away(), names(&[]));
}
