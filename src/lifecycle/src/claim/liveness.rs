//! Liveness: claims that do not get a machine, whose machine never joins, or whose Node is gone for as long, are given up
//! so that a fresh decision can be made (spec disruption 1.6).
//!
//! The clocks start at the last transition of the condition, which for a condition that was never written is the claim's
//! creation. Unlike the reference, a claim given up for its launch is not given up a second time for its registration in the
//! same pass (spec disruption 9.16), and a claim whose Node is never initialized, or is lost, is given up as well: the
//! reference waits for either without end or message.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, reason};
use karpenter_model::{Claim, ConditionStatus, ConditionType, Node, NodeObject, Pool, Snapshot, Target};

use crate::step::{
    About, Change, DeletionCause, Effect, Event, Milestone, PodRef, RegistrationOutcome, Step, Wake,
};

/// Longest time of a launch.
const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);
/// Period between looks at a Node that is overdue.
const OVERDUE_POLL: Duration = Duration::from_mins(2);

/// Facts that the end of a claim depends on, besides itself.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Longest time until its Node has registered, and for which it may be gone.
    pub registration: Duration,
    /// Longest time from there until it is initialized; `None` waits as long as pods need it.
    pub initialization: Option<Duration>,
    /// All Nodes with the claim's provider id.
    pub nodes: &'a [&'a NodeObject],
    /// There is none, by a consistent read.
    pub lost: bool,
    /// Demand for it, if it is overdue by [`is_overdue`].
    pub demand: &'a Demand,
}

/// Demand for a Node that is not initialized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demand {
    /// Pods that were promised a place there.
    pub waiting: Vec<PodRef>,
    /// True if the Node would be removed as empty, were it initialized: no pod, nomination or buffer needs it.
    pub unwanted: bool,
}

impl Demand {
    /// Demand for the Node of `claim` in `snapshot`.
    pub fn of(claim: &Claim, snapshot: &Snapshot) -> Self {
        let own = |node: &&Node| node.claim.as_ref().is_some_and(|other| other.name == claim.name);
        let Some(machine) = snapshot.nodes.iter().map(AsRef::as_ref).find(own) else {
            return Self::default();
        };
        let here = |target: &Target| match target {
            Target::Claim(name) => *name == claim.name,
            Target::Node(name) => machine.name.as_ref() == Some(name),
        };
        let promised =
            snapshot.pending.iter().filter(|pod| snapshot.promises.get(&pod.key).is_some_and(here));
        let waiting: Vec<PodRef> =
            promised.filter(|pod| !pod.is_virtual()).map(|pod| PodRef::of(pod)).collect();
        let removes_empty =
            |pool: &Pool| pool.replicas.is_none() && pool.disruption.consolidate_after.is_some();
        let pool = machine.pool().and_then(|name| snapshot.pools.iter().find(|pool| pool.name == name));
        let annotations = machine.effective_annotations();
        let needed = machine.pods.iter().any(|pod| pod.is_reschedulable())
            || machine.buffer_pods > 0
            || machine.is_nominated(snapshot.now)
            || annotations.get(annotation::DO_NOT_DISRUPT).is_some_and(|value| value == "true");
        let unwanted = waiting.is_empty() && !needed && pool.is_some_and(|pool| removes_empty(pool));
        Self { waiting, unwanted }
    }
}

/// Returns whether the Node of `claim` has registered longer than `registration` ago and is not initialized.
pub fn is_overdue(claim: &Claim, registration: Duration, now: Timestamp) -> bool {
    !claim.is_true(ConditionType::Initialized)
        && starting_since(claim).is_some_and(|at| since(at, now) >= registration)
}

/// Returns since when the Node of `claim` could be initialized: its registration, or the end of a reboot. `None` during one,
/// which has deadlines of its own.
fn starting_since(claim: &Claim) -> Option<Timestamp> {
    let registered = claim.true_since(ConditionType::Registered)?;
    let rebooting = claim.is_true(ConditionType::Rebooting);
    (!rebooting).then(|| claim.rebooted_at().map_or(registered, |at| at.max(registered)))
}

/// Gives the claim up when its launch has not succeeded within five minutes, its Node not registered in time, when the
/// Node is gone for as long, or is not initialized and not needed.
pub fn step(claim: &Claim, facts: Facts<'_>, now: Timestamp) -> Step {
    if claim.is_true(ConditionType::Registered) {
        return joined(claim, facts, now);
    }
    let registration = facts.registration;
    // The condition is unknown from the creation on, so the launch is part of this time (spec disruption
    // 1.6).
    let mut left = registration.saturating_sub(waiting(claim, ConditionType::Registered, now));
    if !claim.is_true(ConditionType::Launched) {
        let to_launch = LAUNCH_TIMEOUT.saturating_sub(waiting(claim, ConditionType::Launched, now));
        if to_launch.is_zero() {
            return given_up(claim, DeletionCause::LaunchTimeout, LAUNCH_TIMEOUT);
        }
        left = left.min(to_launch);
    }
    if left.is_zero() {
        return given_up(claim, DeletionCause::RegistrationTimeout, registration);
    }
    Step::idle().and_wake(Wake::After(left))
}

/// A claim whose Node has registered: since when it is gone is kept in a condition, so that a change of leader does not
/// start the clock again.
fn joined(claim: &Claim, facts: Facts<'_>, now: Timestamp) -> Step {
    let (kind, registration) = (ConditionType::NodeMissing, facts.registration);
    if !facts.lost {
        // Not lost and yet without a Node: no consistent read has confirmed it in this pass, so the clock
        // runs on.
        let back = !facts.nodes.is_empty() && claim.conditions.contains_key(&kind);
        return initializing(claim, facts, now).and_condition(back.then(|| Change::removed(kind)));
    }
    let Some(missing) = claim.true_since(kind) else {
        return Step::idle().and_condition(Change::holds(kind)).and_wake(Wake::After(registration));
    };
    match registration.saturating_sub(since(missing, now)) {
        Duration::ZERO => ended(DeletionCause::RegistrationTimeout, registration),
        left => Step::idle().and_condition(Change::restamp(claim, kind)).and_wake(Wake::After(left)),
    }
}

/// A Node that is not initialized long after it has registered is reported, and removed when no pod needs it, or when the
/// settings do not let it wait any longer.
fn initializing(claim: &Claim, facts: Facts<'_>, now: Timestamp) -> Step {
    let Some(registered) = starting_since(claim).filter(|_| !claim.is_true(ConditionType::Initialized))
    else {
        return Step::idle();
    };
    let waited = since(registered, now);
    let end = facts.initialization.map(|limit| (limit, limit.saturating_sub(waited)));
    if let Some((limit, Duration::ZERO)) = end {
        return ended(DeletionCause::InitializationTimeout, limit);
    }
    let until_end = end.map_or(Wake::OnEvent, |(_, left)| Wake::After(left));
    let until_overdue = facts.registration.saturating_sub(waited);
    if !until_overdue.is_zero() {
        return Step::idle().and_wake(until_end).and_wake(Wake::After(until_overdue));
    }
    // Emptiness would remove it, were it initialized; it never is, and is paid for.
    if facts.demand.unwanted {
        return ended(DeletionCause::InitializationTimeout, facts.registration);
    }
    let overdue = overdue(claim, facts);
    Step::of(overdue).and_wake(until_end).and_wake(Wake::After(OVERDUE_POLL))
}

/// The warnings about a Node that is not initialized: on it, its claim, and the pods that wait for it.
fn overdue(claim: &Claim, facts: Facts<'_>) -> Vec<Effect> {
    let why = claim.conditions.get(&ConditionType::Initialized).map(|condition| condition.message.as_str());
    let message = format!(
        "Not initialized {}m after the node has registered: {}",
        facts.registration.as_secs() / 60,
        why.filter(|why| !why.is_empty()).unwrap_or("no reason is known")
    );
    let nodes = facts.nodes.iter().map(|node| About::Node(node.name.clone()));
    let machine = nodes.chain([About::Claim(claim.name.clone())]).map(|about| (about, message.clone()));
    let pods = facts.demand.waiting.iter().map(|pod| {
        let node = facts.nodes.first().map_or(claim.name.as_str(), |node| node.name.as_str());
        (About::Pod(pod.clone()), format!("Node {node}, which this pod waits for: {message}"))
    });
    let event = |(about, message)| Effect::Event(Event::new(about, reason::NODE_NOT_INITIALIZED, message));
    machine.chain(pods).map(event).collect()
}

fn ended(cause: DeletionCause, timeout: Duration) -> Step {
    // Not an outcome for the registration health of the pool: the Node had registered.
    Step::of([Effect::DeleteClaim(cause), Effect::Milestone(Milestone::TimedOut(cause, timeout))])
}

fn waiting(claim: &Claim, kind: ConditionType, now: Timestamp) -> Duration {
    let start = claim.conditions.get(&kind).map_or(claim.created_at, |condition| condition.last_transition);
    since(start, now)
}

fn given_up(claim: &Claim, cause: DeletionCause, timeout: Duration) -> Step {
    Step::of([
        // First: where it fails, the step is tried again, and one claim must not count twice.
        Effect::DeleteClaim(cause),
        Effect::RegistrationHealth(failure(claim)),
        Effect::Milestone(Milestone::TimedOut(cause, timeout)),
    ])
}

/// A claim that had a machine failed to register; one that had none shows why it could not launch.
fn failure(claim: &Claim) -> RegistrationOutcome {
    match claim.conditions.get(&ConditionType::Launched) {
        Some(launched) if launched.status != ConditionStatus::True => RegistrationOutcome::Failure {
            reason: launched.reason.clone(),
            message: launched.message.clone(),
        },
        _ => RegistrationOutcome::Failure {
            reason: reason::REGISTRATION_FAILED.to_owned(),
            message: "Failed to register node".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim, holding, with_condition};

    const QUARTER: Duration = Duration::from_mins(15);
    const NO_DEMAND: &Demand = &Demand { waiting: Vec::new(), unwanted: false };

    fn facts(registration: Duration) -> Facts<'static> {
        Facts { registration, initialization: None, nodes: &[], lost: false, demand: NO_DEMAND }
    }

    fn registered() -> Claim {
        holding(claim(), &[ConditionType::Launched, ConditionType::Registered])
    }

    #[test]
    fn a_reboot_has_deadlines_of_its_own_and_starts_the_clock_again() {
        let unwanted = Demand { unwanted: true, ..Demand::default() };
        let facts = Facts { demand: &unwanted, ..facts(QUARTER) };
        let kind = ConditionType::Rebooting;
        assert!(!step(&registered(), facts, at(5_000)).effects.is_empty(), "registered long ago");
        let rebooting = with_condition(registered(), kind, ConditionStatus::True, 4_000);
        assert_eq!(step(&rebooting, facts, at(5_000)), Step::idle());
        assert!(!is_overdue(&rebooting, QUARTER, at(5_000)));
        let over = with_condition(registered(), kind, ConditionStatus::False, 4_500);
        assert_eq!(step(&over, facts, at(5_399)).effects, []);
        assert!(!step(&over, facts, at(5_400)).effects.is_empty());
        assert!(!is_overdue(&over, QUARTER, at(5_399)) && is_overdue(&over, QUARTER, at(5_400)));
    }

    #[test]
    fn a_node_that_is_gone_ends_its_claim_and_one_that_comes_back_does_not() {
        let kind = ConditionType::NodeMissing;
        let lost = Facts { lost: true, ..facts(QUARTER) };
        let first = step(&registered(), lost, at(5_000));
        assert_eq!(first.effects, []);
        assert_eq!(first.conditions, [Change::holds(kind)]);
        assert_eq!(first.wake, Wake::After(QUARTER));
        let missing = with_condition(registered(), kind, ConditionStatus::True, 5_000);
        assert_eq!(step(&missing, lost, at(5_899)).effects, []);
        let cause = DeletionCause::RegistrationTimeout;
        assert_eq!(step(&missing, lost, at(5_900)).effects[0], Effect::DeleteClaim(cause));
        // Conditions stay as they are until the Node is known to be gone.
        assert_eq!(step(&missing, facts(QUARTER), at(9_000)).conditions, []);
        let node = NodeObject::bare("n", at(0));
        let back = Facts { nodes: &[&node], ..facts(QUARTER) };
        assert_eq!(step(&missing, back, at(9_000)).conditions, [Change::removed(kind)]);
    }

    /// Step for a claim that registered at 0 and is not initialized, seen at `now`.
    fn uninitialized(initialization: Option<u64>, demand: &Demand, now: i64) -> Step {
        let node = NodeObject::bare("n", at(0));
        let claim = with_condition(registered(), ConditionType::Registered, ConditionStatus::True, 0);
        let initialization = initialization.map(Duration::from_mins);
        step(&claim, Facts { initialization, nodes: &[&node], demand, ..facts(QUARTER) }, at(now))
    }

    #[test]
    fn a_node_that_is_never_initialized_is_reported_and_goes_when_no_pod_wants_it() {
        let (wanted, unwanted) = (Demand::default(), Demand { unwanted: true, ..Demand::default() });
        let pod = PodRef { key: karpenter_model::PodKey::new("default", "web"), uid: "u".into() };
        let promised = Demand { waiting: vec![pod.clone()], unwanted: false };
        assert_eq!(
            uninitialized(None, &unwanted, 899),
            Step::idle().and_wake(Wake::After(Duration::from_secs(1)))
        );
        let end = Effect::DeleteClaim(DeletionCause::InitializationTimeout);
        assert_eq!(uninitialized(None, &unwanted, 900).effects[0], end);
        assert_eq!(uninitialized(Some(60), &promised, 3_600).effects[0], end);
        assert_eq!(uninitialized(Some(5), &promised, 300).effects[0], end);
        assert_eq!(uninitialized(Some(5), &promised, 299).effects, []);
        let about = |demand: &Demand| -> Vec<About> {
            let effects = uninitialized(None, demand, 90_000).effects.into_iter();
            let about = effects.map(|effect| match effect {
                Effect::Event(event) => event.about,
                other => panic!("{other:?}"),
            });
            about.collect()
        };
        let machine = [About::Node("n".into()), About::Claim(registered().name)];
        assert_eq!(about(&wanted), machine);
        assert_eq!(about(&promised), [&machine[..], &[About::Pod(pod)]].concat());
        assert_eq!(uninitialized(None, &wanted, 90_000).wake, Wake::After(OVERDUE_POLL));
    }

    fn cause(claim: &Claim, now: i64) -> Option<DeletionCause> {
        cause_within(QUARTER, claim, now)
    }

    fn cause_within(registration: Duration, claim: &Claim, now: i64) -> Option<DeletionCause> {
        step(claim, facts(registration), at(now)).effects.iter().find_map(|effect| match effect {
            Effect::DeleteClaim(cause) => Some(*cause),
            _ => None,
        })
    }

    #[test]
    fn timeouts_count_from_the_transition_else_from_creation() {
        use ConditionStatus::Unknown;
        let unlaunched = |since| with_condition(claim(), ConditionType::Launched, Unknown, since);
        let launched = || holding(claim(), &[ConditionType::Launched]);
        let joining = |since| with_condition(launched(), ConditionType::Registered, Unknown, since);
        let launch = Some(DeletionCause::LaunchTimeout);
        let registration = Some(DeletionCause::RegistrationTimeout);
        let table = [
            (claim(), 299, None),
            (claim(), 300, launch),
            (unlaunched(100), 300, None),
            (unlaunched(100), 400, launch),
            (launched(), 899, None),
            (launched(), 900, registration),
            (joining(100), 900, None),
            (joining(100), 1000, registration),
            (unlaunched(0), 2000, launch),
            (registered(), 100_000, None),
        ];
        for (claim, now, expected) in table {
            assert_eq!(cause(&claim, now), expected, "{:?} at {now}", claim.conditions);
        }
    }

    #[test]
    fn a_node_has_as_long_to_register_as_the_settings_say() {
        let launched = holding(claim(), &[ConditionType::Launched]);
        let registration = Some(DeletionCause::RegistrationTimeout);
        for (minutes, now, expected) in
            [(40, 2_399, None), (40, 2_400, registration), (3, 179, None), (3, 180, registration)]
        {
            assert_eq!(
                cause_within(Duration::from_mins(minutes), &launched, now),
                expected,
                "{minutes} {now}"
            );
        }
        // The launch has its own time, unless registration has less.
        assert_eq!(cause_within(Duration::from_mins(40), &claim(), 300), Some(DeletionCause::LaunchTimeout));
        assert_eq!(cause_within(Duration::from_mins(3), &claim(), 180), registration);
    }

    #[test]
    fn an_outcome_counts_after_the_deletion_that_may_fail() {
        let effects = step(&claim(), facts(QUARTER), at(300)).effects;
        let deleted = effects.iter().position(|effect| matches!(effect, Effect::DeleteClaim(_)));
        let counted = effects.iter().position(|effect| matches!(effect, Effect::RegistrationHealth(_)));
        assert_eq!((deleted, counted), (Some(0), Some(1)));
    }

    #[test]
    fn several_nodes_of_one_machine_end_the_claim_fifteen_minutes_later() {
        let launched = holding(claim(), &[ConditionType::Launched]);
        let ambiguous = with_condition(launched, ConditionType::Registered, ConditionStatus::False, 60);
        assert_eq!(cause(&ambiguous, 959), None);
        assert_eq!(cause(&ambiguous, 960), Some(DeletionCause::RegistrationTimeout));
    }

    #[test]
    fn wakes_at_the_nearest_timeout() {
        assert_eq!(step(&claim(), facts(QUARTER), at(100)).wake, Wake::After(Duration::from_secs(200)));
        let launched = holding(claim(), &[ConditionType::Launched]);
        assert_eq!(step(&launched, facts(QUARTER), at(100)).wake, Wake::After(Duration::from_secs(800)));
    }

    #[test]
    fn health_tells_why_it_could_not_launch_or_that_it_did_not_register() {
        let reason = |claim: &Claim, now| match &step(claim, facts(QUARTER), at(now)).effects[1] {
            Effect::RegistrationHealth(RegistrationOutcome::Failure { reason, .. }) => reason.clone(),
            other => panic!("{other:?}"),
        };
        let mut failing = with_condition(claim(), ConditionType::Launched, ConditionStatus::Unknown, 0);
        failing.conditions.get_mut(&ConditionType::Launched).expect("set above").reason =
            "LaunchFailed".to_owned();
        assert_eq!(reason(&failing, 300), "LaunchFailed");
        assert_eq!(reason(&holding(claim(), &[ConditionType::Launched]), 900), reason::REGISTRATION_FAILED);
    }
}
