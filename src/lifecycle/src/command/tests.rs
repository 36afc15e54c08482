//! Spec disruption 8.9 and 9.3 to 9.5, and every combination of what one look can find.

use std::time::Duration;

use karpenter_model::plan::command::Candidate;
use karpenter_model::{
    BinId, CapacityType, DisruptionReason, LabelRegistry, Launch, Method, Nomination, PodKey, Price,
    RemovalTarget, Settings, Target,
};
use proptest::prelude::*;

use super::*;
use crate::fixture::{at, pool};

/// Machines `node-0..` of claims `claim-0..`, one pod each, and their replacements.
pub(super) fn command(candidates: usize, replacements: usize) -> Command {
    Command {
        repair: None,
        method: Method::SingleNode,
        reason: DisruptionReason::Underutilized,
        candidates: (0..candidates).map(candidate).collect(),
        replacements: (0..replacements).map(launch).collect(),
        nominations: (0..candidates)
            .map(|index| Nomination { pod: pod(index), target: Target::Node("other".into()) })
            .collect(),
        savings: Price::ZERO,
        terminate_first: false,
        not_before: at(0),
    }
}

fn candidate(index: usize) -> Candidate {
    Candidate {
        target: RemovalTarget {
            id: format!("id-{index}").as_str().into(),
            claim: claim(index),
            node: format!("node-{index}").as_str().into(),
        },
        pool: "web".into(),
        instance_type: Some("m5.large".into()),
        zone: Some("a".into()),
        capacity_type: Some(CapacityType::OnDemand),
        price: Price::ZERO,
        pods: vec![pod(index)],
        workloads: Vec::new(),
    }
}

fn claim(index: usize) -> ClaimName {
    format!("claim-{index}").as_str().into()
}

fn new(index: usize) -> ClaimName {
    format!("new-{index}").as_str().into()
}

fn pod(index: usize) -> PodKey {
    PodKey { namespace: "default".into(), name: format!("pod-{index}").as_str().into() }
}

fn launch(index: usize) -> Launch {
    let template = Launch::from_template(&pool(), &Settings::default(), &LabelRegistry::core());
    let bin = BinId(u32::try_from(index).unwrap());
    Launch { bin, instance_types: ["m5.large".into()].into(), ..template }
}

/// The facts when every replacement is in this state and no candidate has left by itself.
fn facts(seconds: i64, states: &[Replacement]) -> Facts {
    Facts {
        now: at(seconds),
        leaving: BTreeSet::new(),
        replacements: states.iter().enumerate().map(|(index, state)| (new(index), *state)).collect(),
        queued: 1,
    }
}

/// A command whose replacements have just been created, at 0.
fn waiting(candidates: usize, replacements: usize) -> Running {
    let mut running = Running::new(command(candidates, replacements), at(0));
    assert_eq!(running.look(&facts(0, &[])).next, Next::Mark);
    assert!(running.marked(BTreeSet::new()).is_empty());
    assert_eq!(running.look(&facts(0, &[])).next, Next::Confirm);
    assert!(running.confirmed(command(candidates, replacements)).is_empty());
    assert_eq!(running.look(&facts(0, &[])).next, Next::Create);
    running.created((0..replacements).map(new));
    running
}

fn reasons(look: &Look) -> Vec<(&'static str, String)> {
    let about = |event: &Event| match &event.about {
        crate::step::About::Claim(name) => name.to_string(),
        other => panic!("{other:?}"),
    };
    look.events.iter().map(|event| (event.reason, about(event))).collect()
}

use Replacement::{Failed, GivenUp, Initialized, Joining, Launching, Missing};

#[test]
fn the_timeout_grows_with_the_queue() {
    let minutes = Duration::from_mins;
    let table = [
        (0, minutes(10)),
        (100, minutes(10)),
        (4000, minutes(10)),
        (10_000, Duration::from_secs(800)),
        (40_000, Duration::from_secs(3200)),
        (80_000, minutes(60)),
        (100_000, minutes(60)),
        (usize::MAX, minutes(60)),
    ];
    for (queued, expected) in table {
        assert_eq!(timeout(queued), expected, "{queued}");
    }
}

#[test]
fn without_replacements_candidates_go_at_once() {
    let mut running = waiting(2, 0);
    assert_eq!(running.look(&facts(0, &[])).next, Next::Delete(vec![claim(0), claim(1)]));
    running.deleted([claim(0), claim(1)]);
    assert_eq!(running.look(&facts(0, &[])).next, Next::Done { came_up: true });
    assert_eq!(running.left().count(), 0);
}

#[test]
fn candidates_go_only_when_every_replacement_is_initialized() {
    let mut running = waiting(1, 2);
    assert_eq!(running.look(&facts(1, &[Launching, Launching])).next, Next::Wait(POLL));
    assert_eq!(running.look(&facts(2, &[Initialized, Launching])).next, Next::Wait(POLL));
    assert_eq!(running.missing_replacements(), 1);
    assert_eq!(running.look(&facts(3, &[Initialized, Initialized])).next, Next::Delete(vec![claim(0)]));
    assert_eq!(running.missing_replacements(), 0);
}

#[test]
fn what_was_initialized_once_stays_so() {
    let mut running = waiting(1, 2);
    running.look(&facts(1, &[Initialized, Launching]));
    assert_eq!(running.look(&facts(2, &[Launching, Initialized])).next, Next::Delete(vec![claim(0)]));
}

#[test]
fn people_hear_of_each_replacement_until_it_is_ready() {
    let mut running = waiting(1, 2);
    let look = running.look(&facts(1, &[Initialized, Launching]));
    let expected = [
        ("DisruptionLaunching", "new-0".to_owned()),
        ("DisruptionLaunching", "new-1".to_owned()),
        ("DisruptionWaitingReadiness", "new-1".to_owned()),
    ];
    assert_eq!(reasons(&look), expected);
    assert_eq!(look.events[0].message, "Launching NodeClaim: Underutilized");
    assert_eq!(reasons(&running.look(&facts(2, &[Initialized, Launching]))), expected[1..]);
    assert_eq!(reasons(&running.look(&facts(3, &[Initialized, Initialized]))), expected[1..2]);
    assert_eq!(reasons(&running.look(&facts(4, &[Initialized, Initialized]))), []);
}

#[test]
fn a_deleted_replacement_rolls_back_even_when_it_was_ready_before() {
    for gone in [Missing, Failed] {
        let mut running = waiting(1, 2);
        running.look(&facts(1, &[Initialized, Launching]));
        let next = running.look(&facts(2, &[gone, Launching])).next;
        assert_eq!(next, Next::RollBack(Failure::ReplacementGone(new(0))));
        assert_eq!(running.left().count(), 1);
    }
}

#[test]
fn a_replacement_that_never_had_a_machine_says_nothing_about_machines() {
    let table = [
        (vec![Launching, GivenUp], false),
        (vec![Launching, Missing], false),
        (vec![Missing], false),
        (vec![Launching, Failed], true),
        (vec![Joining, Missing], true),
        (vec![Joining, GivenUp], true),
        (vec![Failed], true),
    ];
    for (states, blames) in table {
        let mut running = waiting(1, 1);
        let looks =
            states.iter().zip(1..).map(|(state, second)| running.look(&facts(second, &[*state])).next);
        let Some(Next::RollBack(failure)) = looks.last() else { panic!("{states:?} goes on") };
        assert_eq!((failure.blames_machines(), failure.is_late()), (blames, true), "{states:?}");
    }
}

#[test]
fn time_is_over_after_the_limit_and_a_late_success_is_one() {
    let mut running = waiting(1, 1);
    assert_eq!(running.look(&facts(600, &[Launching])).next, Next::Wait(POLL));
    let over = Next::RollBack(Failure::TimedOut(Duration::from_mins(10)));
    assert_eq!(running.clone().look(&facts(601, &[Launching])).next, over);
    assert_eq!(running.look(&facts(601, &[Initialized])).next, Next::Delete(vec![claim(0)]));
}

#[test]
fn deletions_that_fail_are_repeated_alone_until_time_is_over() {
    let mut running = waiting(3, 0);
    running.look(&facts(0, &[]));
    running.deleted([claim(1)]);
    assert_eq!(running.look(&facts(1, &[])).next, Next::Delete(vec![claim(0), claim(2)]));
    running.deleted([claim(0)]);
    let next = running.look(&facts(601, &[])).next;
    assert_eq!(next, Next::RollBack(Failure::TimedOut(Duration::from_mins(10))));
    let left: Vec<_> = running.left().map(|candidate| candidate.target.claim.clone()).collect();
    assert_eq!(left, [claim(2)], "what was deleted is not taken back");
}

#[test]
fn a_candidate_that_vanishes_holds_up_no_other() {
    for vanished in 0..2 {
        let mut running = waiting(2, 1);
        let mut facts = facts(1, &[Launching]);
        facts.leaving.insert(claim(vanished));
        assert_eq!(running.look(&facts).next, Next::Wait(POLL));
        facts.replacements.insert(new(0), Initialized);
        assert_eq!(running.look(&facts).next, Next::Delete(vec![claim(1 - vanished)]));
        running.deleted([claim(1 - vanished)]);
        assert_eq!(running.look(&facts).next, Next::Done { came_up: true });
    }
}

#[test]
fn with_all_candidates_gone_there_is_nothing_left_to_do() {
    let mut running = waiting(2, 1);
    let mut facts = facts(1, &[Missing]);
    facts.leaving.extend([claim(0), claim(1)]);
    assert_eq!(running.look(&facts).next, Next::Done { came_up: false });
}

#[test]
fn a_pure_delete_goes_on_without_those_it_could_not_mark() {
    let mut running = Running::new(command(3, 0), at(0));
    let dropped = running.marked(BTreeSet::from([claim(1)]));
    assert_eq!(dropped, [candidate(1)]);
    assert_eq!(running.command().candidates, [candidate(0), candidate(2)]);
    let pods: Vec<_> = running.command().nominations.iter().map(|nomination| &nomination.pod).collect();
    assert_eq!(pods, [&pod(0), &pod(2)]);
    assert_eq!(running.look(&facts(0, &[])).next, Next::Confirm);
}

#[test]
fn nothing_marked_or_replacements_for_all_roll_back_as_a_whole() {
    for (candidates, replacements, failed) in [(2, 0, vec![0, 1]), (2, 1, vec![0]), (1, 0, vec![0])] {
        let mut running = Running::new(command(candidates, replacements), at(0));
        let failed: BTreeSet<_> = failed.into_iter().map(claim).collect();
        assert!(running.marked(failed.clone()).is_empty());
        assert_eq!(running.look(&facts(0, &[])).next, Next::RollBack(Failure::NotMarked(failed)));
        assert_eq!(running.left().count(), candidates, "all are taken back");
        assert_eq!(running.missing_replacements(), replacements);
    }
}

#[test]
fn what_came_before_the_taint_may_call_the_command_off() {
    for method in Method::ALL {
        let mut running = Running::new(Command { method, ..command(1, 1) }, at(0));
        assert!(running.marked(BTreeSet::new()).is_empty());
        assert_eq!(running.look(&facts(0, &[])).next, Next::Confirm, "{method:?}");
        running.rejected("a pod came");
        let Next::RollBack(failure) = running.look(&facts(0, &[])).next else { panic!("goes on") };
        assert!(failure.is_change_of_mind());
        assert!(!failure.is_late());
        assert_eq!(failure.to_string(), "no longer wanted, a pod came");
    }
}

#[test]
fn empty_machines_that_no_longer_are_leave_the_command() {
    let mut running = Running::new(command(3, 0), at(0));
    assert!(running.marked(BTreeSet::new()).is_empty());
    let rest = Command { candidates: vec![candidate(0), candidate(2)], ..command(0, 0) };
    assert_eq!(running.confirmed(rest), [candidate(1)]);
    assert_eq!(running.look(&facts(0, &[])).next, Next::Create);
    running.created([]);
    assert_eq!(running.look(&facts(0, &[])).next, Next::Delete(vec![claim(0), claim(2)]));
}

#[test]
fn a_replacement_that_cannot_be_created_rolls_back() {
    let mut running = Running::new(command(1, 2), at(0));
    assert!(running.marked(BTreeSet::new()).is_empty());
    running.not_created("pool `web` is at its limits");
    let Next::RollBack(failure) = running.look(&facts(0, &[])).next else { panic!("goes on") };
    assert_eq!(failure.to_string(), "cannot create replacement, pool `web` is at its limits");
    assert!(!failure.is_change_of_mind());
    assert_eq!(running.missing_replacements(), 2);
}

/// Two candidates and two replacements: every state of each, early and late, with and without failed deletions.
#[test]
fn every_look_at_two_and_two_keeps_the_rules() {
    let states = [Missing, Launching, Joining, Initialized, GivenUp, Failed];
    let mut looks = 0;
    for (first, second) in states.iter().flat_map(|one| states.iter().map(move |two| (*one, *two))) {
        for bits in 0..16_u32 {
            let bit = |index: u32| bits >> index & 1 == 1;
            let (tried, late) = (bit(2), bit(3));
            let mut facts = facts(if late { 601 } else { 1 }, &[first, second]);
            facts.leaving.extend((0..2).filter(|index| bit(*index)).map(|index| claim(index as usize)));
            let mut running = waiting(2, 2);
            if tried {
                running.deleted([]);
            }
            let next = running.look(&facts).next;
            let both = |state| first == state && second == state;
            let broken = [first, second].iter().any(|state| matches!(state, Missing | GivenUp | Failed));
            let expected = if bit(0) && bit(1) {
                "done"
            } else if broken {
                "back"
            } else if both(Initialized) {
                if late && tried { "back" } else { "delete" }
            } else if late {
                "back"
            } else {
                "wait"
            };
            let actual = match next {
                Next::Done { .. } => "done",
                Next::RollBack(_) => "back",
                Next::Delete(claims) => {
                    assert!(claims.iter().all(|claim| !facts.leaving.contains(claim)) && !claims.is_empty());
                    "delete"
                }
                Next::Wait(POLL) => "wait",
                other => panic!("{other:?}"),
            };
            assert_eq!(actual, expected, "{first:?} {second:?} {bits:04b}");
            looks += 1;
        }
    }
    assert_eq!(looks, 576);
}

proptest! {
    /// Whatever happens around it, in whatever order: a command ends in time, deletes nothing twice and nothing
    /// before its replacements are ready.
    #[test]
    fn every_history_ends_and_deletes_each_candidate_at_most_once(
        candidates in 1_usize..4,
        replacements in 0_usize..4,
        not_marked in proptest::collection::btree_set(0_usize..4, 0..2),
        happenings in proptest::collection::vec((0_usize..4, 0_u8..5), 0..60),
        refusals in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut running = Running::new(command(candidates, replacements), at(0));
        let mut facts = facts(0, &vec![Launching; replacements]);
        let mut asked: BTreeMap<ClaimName, usize> = BTreeMap::new();
        let mut happenings = happenings.into_iter();
        let mut refusals = refusals.into_iter().cycle();
        let mut ready = BTreeSet::new();
        let mut looks = 0;
        loop {
            looks += 1;
            prop_assert!(looks < 2000, "does not end");
            let states = facts.replacements.iter();
            ready.extend(states.filter(|(_, state)| **state == Initialized).map(|(name, _)| name.clone()));
            match running.look(&facts).next {
                Next::Mark => {
                    let failed = not_marked.iter().copied().filter(|index| *index < candidates).map(claim);
                    let _taken_back = running.marked(failed.collect());
                }
                Next::Confirm => {
                    let now = running.command().clone();
                    prop_assert!(running.confirmed(now).is_empty());
                }
                Next::Create => running.created((0..replacements).map(new)),
                Next::Delete(claims) => {
                    prop_assert_eq!(ready.len(), replacements);
                    let accepted: Vec<_> =
                        claims.into_iter().filter(|_| refusals.next() == Some(true)).collect();
                    for claim in &accepted {
                        *asked.entry(claim.clone()).or_default() += 1;
                    }
                    running.deleted(accepted);
                }
                Next::Wait(_) => {}
                Next::Done { .. } | Next::RollBack(_) => break,
            }
            facts.now += Duration::from_secs(1);
            match happenings.next() {
                Some((index, 0)) => { facts.leaving.insert(claim(index)); }
                Some((index, kind)) if index < replacements => {
                    let state = [Joining, Initialized, Initialized, Failed][usize::from(kind) - 1];
                    facts.replacements.insert(new(index), state);
                }
                _ => {}
            }
        }
        prop_assert!(asked.values().all(|times| *times == 1), "{:?}", asked);
        prop_assert!(running.left().all(|left| !asked.contains_key(&left.target.claim)));
    }
}
