//! Offerings that recently had no capacity, so that launches go elsewhere (spec aws-provider 3.10).
//!
//! One typed key serves both the writer and the reader; nothing here is looked up by text. An entry lasts
//! three minutes. An offering that fails again soon after it came back is left alone for longer, up to half an
//! hour by default: a pool that is dry for hours then costs a handful of calls instead of one every three minutes.
//!
//! That is for what others can stand in for. Where nothing else would do, a pod waits for just this offering,
//! and a quota or a role is there again from the moment an operator has fixed it: both are tried every three
//! minutes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::id::{PlacementGroupId, SubnetId};
use karpenter_cloud::OfferingKey;
use karpenter_model::clock::later;
use karpenter_model::{CapacityType, Clock};
use parking_lot::Mutex;

/// Time for which the first failure keeps an offering out.
pub const FIRST: Duration = Duration::from_mins(3);
/// Time for which the offerings of a launch stay out when EC2 does not name those it lacks.
pub(crate) const BRIEF: Duration = Duration::from_secs(30);
/// A failure this long after the previous one starts from the beginning.
const FORGET: Duration = Duration::from_hours(1);

/// Subject that is out of capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// One type in one zone, bought in one way.
    Offering(OfferingKey),
    /// An offering, but only for instances in a placement group: elsewhere there may be room.
    Placed(OfferingKey, Place),
    /// A whole way of buying, for example spot without its service-linked role.
    CapacityType(CapacityType),
    /// A subnet without free addresses.
    Subnet(SubnetId),
}

/// Cause for which a subject is kept out, which decides for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// EC2 lacks it and has others instead: twice as long each time.
    Lacking,
    /// Nothing else would do, or an operator has to fix it: the same time each time.
    Wanted,
    /// It may be this one or another, or it was not tried beside others that lack capacity: briefly.
    Unnamed,
}

/// A placement group, or one partition of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub group: PlacementGroupId,
    /// Number of the partition, from 1; `None` is the whole group.
    pub partition: Option<u32>,
}

/// The memory of failures.
pub struct Unavailable {
    clock: Arc<dyn Clock>,
    longest: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Subject, Entry>,
    revision: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    until: Timestamp,
    strikes: u32,
    forget_at: Timestamp,
    /// True if the revision already reflects that the entry ran out.
    expired: bool,
}

impl Unavailable {
    /// An empty memory that keeps nothing out for more than `longest`.
    pub fn new(clock: Arc<dyn Clock>, longest: Duration) -> Self {
        Self { clock, longest, inner: Mutex::new(Inner::default()) }
    }

    /// Keeps a subject out from now on.
    ///
    /// Marking what is out already only starts its time again: parallel launches that fail together are one
    /// failure, not many.
    pub fn mark(&self, subject: Subject, cause: Cause) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        let known = inner.entries.get(&subject).copied();
        let strikes = match (cause, known) {
            (Cause::Lacking, Some(entry)) if entry.until <= now => entry.strikes.saturating_add(1),
            (_, Some(entry)) => entry.strikes,
            (_, None) => 0,
        };
        let span = match cause {
            // The bound keeps the shift from overflowing.
            Cause::Lacking => FIRST.saturating_mul(1 << strikes.min(8)),
            Cause::Wanted => FIRST,
            Cause::Unnamed => BRIEF,
        };
        // The end of a known entry stays if it is later: this failure may have been about another subject.
        let kept = known.map(|entry| entry.until).filter(|_| cause == Cause::Unnamed);
        let until = later(now, span.min(self.longest)).max(kept.unwrap_or(now));
        let entry = Entry { until, strikes, forget_at: later(until, FORGET), expired: false };
        inner.entries.insert(subject, entry);
        inner.revision += 1;
    }

    /// Lets a subject in again: EC2 reports that it has it.
    pub fn clear(&self, subject: &Subject) {
        let mut inner = self.inner.lock();
        if inner.entries.remove(subject).is_some() {
            inner.revision += 1;
        }
    }

    /// Returns whether a subject is out at the moment.
    pub fn contains(&self, subject: &Subject) -> bool {
        let now = self.clock.now();
        let inner = self.inner.lock();
        inner.entries.get(subject).is_some_and(|entry| entry.until > now)
    }

    /// Revision of a view taken now, without taking it.
    pub(crate) fn revision(&self) -> u64 {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        inner.revision
    }

    /// A frozen view for many questions at once.
    pub fn view(&self) -> View {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        inner.sweep(now);
        let subjects =
            inner.entries.iter().filter(|(_, entry)| entry.until > now).map(|(key, _)| key.clone()).collect();
        View { revision: inner.revision, subjects }
    }
}

impl Inner {
    /// Counts entries that ran out as a change and drops those that need not be remembered.
    fn sweep(&mut self, now: Timestamp) {
        for entry in self.entries.values_mut().filter(|entry| !entry.expired && entry.until <= now) {
            entry.expired = true;
            self.revision += 1;
        }
        self.entries.retain(|_, entry| entry.forget_at > now);
    }
}

/// Subjects that were out at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Changes whenever the set does, including by time.
    pub revision: u64,
    subjects: std::collections::BTreeSet<Subject>,
}

impl View {
    /// Returns whether nothing is out.
    pub fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    /// Returns whether an offering is out: by itself, in its placement group or partition, with its whole capacity type, or
    /// because no subnet of its zone has addresses left.
    pub fn excludes(&self, offering: &OfferingKey, place: Option<&Place>, subnets: &[SubnetId]) -> bool {
        self.subjects.contains(&Subject::Offering(offering.clone()))
            || place.is_some_and(|place| self.excludes_in(offering, place))
            || self.subjects.contains(&Subject::CapacityType(offering.capacity_type))
            || (!subnets.is_empty()
                && subnets.iter().all(|subnet| self.subjects.contains(&Subject::Subnet(subnet.clone()))))
    }

    fn excludes_in(&self, offering: &OfferingKey, place: &Place) -> bool {
        let whole = Place { partition: None, ..place.clone() };
        [whole, place.clone()]
            .into_iter()
            .any(|place| self.subjects.contains(&Subject::Placed(offering.clone(), place)))
    }
}

impl std::fmt::Debug for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unavailable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::ManualClock;

    fn offering(zone: &str, capacity_type: CapacityType) -> OfferingKey {
        OfferingKey { instance_type: "m5.large".into(), zone: zone.into(), capacity_type }
    }

    fn memory() -> (Arc<ManualClock>, Unavailable) {
        let clock = Arc::new(ManualClock::default());
        (Arc::clone(&clock), Unavailable::new(clock, Duration::from_mins(30)))
    }

    #[test]
    fn only_the_marked_offering_is_out_and_for_three_minutes() {
        let (clock, unavailable) = memory();
        unavailable.mark(Subject::Offering(offering("a", CapacityType::Spot)), Cause::Lacking);
        let view = unavailable.view();
        assert!(view.excludes(&offering("a", CapacityType::Spot), None, &[]));
        assert!(!view.excludes(&offering("b", CapacityType::Spot), None, &[]));
        assert!(!view.excludes(&offering("a", CapacityType::OnDemand), None, &[]));
        clock.advance(FIRST);
        assert!(!unavailable.view().excludes(&offering("a", CapacityType::Spot), None, &[]));
        assert_ne!(unavailable.revision(), view.revision, "running out is a change too");
        assert_eq!(unavailable.revision(), unavailable.view().revision);
    }

    #[test]
    fn a_full_placement_group_is_full_only_for_those_in_it() {
        let (_, unavailable) = memory();
        let place = |group: &str, partition| Place { group: group.into(), partition };
        let [a, b] = ["a", "b"].map(|zone| offering(zone, CapacityType::OnDemand));
        unavailable.mark(Subject::Placed(a.clone(), place("pg-1", None)), Cause::Lacking);
        unavailable.mark(Subject::Placed(b.clone(), place("pg-1", Some(2))), Cause::Lacking);
        let view = unavailable.view();
        for (offering, place, out) in [
            (&a, None, false),
            (&a, Some(place("pg-1", None)), true),
            (&a, Some(place("pg-1", Some(3))), true),
            (&a, Some(place("pg-2", None)), false),
            (&b, Some(place("pg-1", Some(2))), true),
            (&b, Some(place("pg-1", Some(1))), false),
            (&b, Some(place("pg-1", None)), false),
        ] {
            assert_eq!(view.excludes(offering, place.as_ref(), &[]), out, "{offering:?} {place:?}");
        }
    }

    #[test]
    fn a_capacity_type_takes_all_its_offerings_and_a_zone_needs_all_its_subnets() {
        let (_, unavailable) = memory();
        unavailable.mark(Subject::CapacityType(CapacityType::Spot), Cause::Lacking);
        unavailable.mark(Subject::Subnet("subnet-1".into()), Cause::Lacking);
        let view = unavailable.view();
        assert!(view.excludes(&offering("z", CapacityType::Spot), None, &[]));
        let on_demand = offering("a", CapacityType::OnDemand);
        assert!(view.excludes(&on_demand, None, &["subnet-1".into()]));
        assert!(!view.excludes(&on_demand, None, &["subnet-1".into(), "subnet-2".into()]));
        assert!(!view.excludes(&on_demand, None, &[]));
    }

    /// Returns the minutes for which it is out each time it fails as soon as it is back.
    fn minutes_out(clock: &ManualClock, unavailable: &Unavailable, cause: Cause) -> Vec<u64> {
        let subject = Subject::Offering(offering("a", CapacityType::Spot));
        let once = |_| {
            unavailable.mark(subject.clone(), cause);
            let mut out = 0;
            while unavailable.contains(&subject) {
                clock.advance(Duration::from_mins(1));
                out += 1;
            }
            out
        };
        (0..6).map(once).collect()
    }

    #[test]
    fn repeated_failures_keep_it_out_longer_and_quiet_time_forgives() {
        let (clock, unavailable) = memory();
        assert_eq!(minutes_out(&clock, &unavailable, Cause::Lacking), [3, 6, 12, 24, 30, 30]);
        clock.advance(FORGET);
        let subject = Subject::Offering(offering("a", CapacityType::Spot));
        unavailable.mark(subject.clone(), Cause::Lacking);
        clock.advance(FIRST);
        assert!(!unavailable.contains(&subject));
    }

    #[test]
    fn what_nothing_stands_in_for_is_tried_again_every_three_minutes() {
        let (clock, unavailable) = memory();
        assert_eq!(minutes_out(&clock, &unavailable, Cause::Wanted), [3; 6]);
        assert_eq!(minutes_out(&clock, &unavailable, Cause::Unnamed), [1; 6], "half a minute");
    }

    #[test]
    fn the_longest_time_is_a_setting() {
        for (longest, expected) in [(10, [3, 6, 10, 10, 10, 10]), (3, [3; 6]), (1, [1; 6])] {
            let clock = Arc::new(ManualClock::default());
            let unavailable = Unavailable::new(Arc::clone(&clock) as _, Duration::from_mins(longest));
            assert_eq!(minutes_out(&clock, &unavailable, Cause::Lacking), expected);
        }
    }

    #[test]
    fn a_failure_that_names_none_shortens_nothing_that_is_known() {
        let (clock, unavailable) = memory();
        let subject = Subject::Offering(offering("a", CapacityType::Spot));
        unavailable.mark(subject.clone(), Cause::Lacking);
        unavailable.mark(subject.clone(), Cause::Unnamed);
        clock.advance(BRIEF);
        assert!(unavailable.contains(&subject));
        clock.advance(FIRST);
        assert!(!unavailable.contains(&subject));
        unavailable.mark(subject.clone(), Cause::Unnamed);
        clock.advance(BRIEF);
        assert!(!unavailable.contains(&subject));
    }

    #[test]
    fn what_is_there_again_is_let_in_and_starts_from_the_beginning() {
        let (clock, unavailable) = memory();
        let subject = Subject::Subnet("subnet-1".into());
        for _ in 0..3 {
            unavailable.mark(subject.clone(), Cause::Lacking);
            clock.advance(Duration::from_mins(15));
        }
        unavailable.mark(subject.clone(), Cause::Lacking);
        let before = unavailable.view().revision;
        unavailable.clear(&subject);
        assert!(!unavailable.contains(&subject));
        assert_ne!(unavailable.view().revision, before);
        unavailable.clear(&subject);
        unavailable.mark(subject.clone(), Cause::Lacking);
        clock.advance(FIRST);
        assert!(!unavailable.contains(&subject));
    }

    #[test]
    fn failures_that_come_together_count_once() {
        let (clock, unavailable) = memory();
        let subject = Subject::Offering(offering("a", CapacityType::Spot));
        for _ in 0..5 {
            unavailable.mark(subject.clone(), Cause::Lacking);
        }
        clock.advance(FIRST);
        assert!(!unavailable.contains(&subject));
    }
}
