//! The condition rules as tables: what is there, what is set, what must be there afterwards.

use karpenter_model::names::condition::{DRIFTED, INITIALIZED, LAUNCHED, READY, REGISTERED};
use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn metadata(generation: i64) -> ObjectMeta {
    ObjectMeta { generation: Some(generation), creation_timestamp: Some(Time(at(100))), ..Default::default() }
}

/// `type status reason since@generation`, the root's message in brackets.
fn render(list: &[Condition]) -> Vec<String> {
    list.iter()
        .map(|c| {
            let generation = c.observed_generation.unwrap_or_default();
            let since = c.last_transition_time.0.as_second();
            let message = if c.kind == READY { format!(" [{}]", c.message) } else { String::new() };
            format!("{} {} {} {since}@{generation}{message}", c.kind, c.status.as_str(), c.reason)
        })
        .collect()
}

fn open(list: &mut Vec<Condition>, generation: i64, now: i64) -> Conditions<'_> {
    Conditions::open(Dependents::NODE_CLAIM, list, &metadata(generation), at(now))
}

fn launched_and_registered() -> Vec<Condition> {
    let mut list = Vec::new();
    open(&mut list, 1, 110).set_true(LAUNCHED);
    open(&mut list, 1, 120).set_true(REGISTERED);
    list
}

#[test]
fn missing_dependents_count_from_creation_and_the_root_from_now() {
    let mut list = Vec::new();
    assert!(open(&mut list, 1, 150).changed());
    assert_eq!(
        render(&list),
        [
            "Launched Unknown AwaitingReconciliation 100@1",
            "Registered Unknown AwaitingReconciliation 100@1",
            "Initialized Unknown AwaitingReconciliation 100@1",
            "Ready Unknown AwaitingReconciliation 150@1 [object is awaiting reconciliation]",
        ]
    );
    assert!(!open(&mut list, 1, 160).changed(), "opening again changes nothing");
}

#[test]
fn root_follows_dependents_step_by_step() {
    let mut list = Vec::new();
    let steps: [(&str, i64, &str); 3] = [
        (
            LAUNCHED,
            110,
            "Ready Unknown ReconcilingDependents 110@1 [Registered=Unknown, Initialized=Unknown]",
        ),
        (REGISTERED, 120, "Ready Unknown ReconcilingDependents 110@1 [Initialized=Unknown]"),
        (INITIALIZED, 130, "Ready True Ready 130@1 []"),
    ];
    for (kind, now, root) in steps {
        assert!(open(&mut list, 1, now).set_true(kind));
        assert_eq!(render(&list).last().map(String::as_str), Some(root));
    }
    assert_eq!(
        render(&list)[..3],
        [
            "Launched True Launched 110@1",
            "Registered True Registered 120@1",
            "Initialized True Initialized 130@1"
        ],
        "ordered by transition time"
    );
}

#[test]
fn one_false_dependent_makes_the_root_false_and_lists_the_newest_transition_first() {
    let mut list = launched_and_registered();
    open(&mut list, 1, 130).set_false(REGISTERED, "MultipleNodesFound", "two nodes");
    assert_eq!(
        render(&list).last().map(String::as_str),
        Some("Ready False UnhealthyDependents 130@1 [Registered=False, Initialized=Unknown]")
    );
}

/// The pass decides validation last, from all others: the order the reference has, and scripts match on.
#[test]
fn refused_in_the_same_second_what_follows_from_the_others_comes_first() {
    let class = Dependents::ec2_node_class(false);
    for (refused, message) in [
        (condition::aws::AMIS_READY, "ValidationSucceeded=False, AMIsReady=False"),
        (condition::aws::SUBNETS_READY, "ValidationSucceeded=False, SubnetsReady=False"),
        (condition::aws::SECURITY_GROUPS_READY, "ValidationSucceeded=False, SecurityGroupsReady=False"),
    ] {
        let mut list = Vec::new();
        let mut conditions = Conditions::open(class, &mut list, &metadata(1), at(100));
        for kind in class.0 {
            conditions.set_true(kind);
        }
        // Any later pass over the same refusal says the same.
        for now in [200, 260] {
            let mut conditions = Conditions::open(class, &mut list, &metadata(1), at(now));
            conditions.set_false(refused, "NotFound", "none");
            conditions.set_false(condition::VALIDATION_SUCCEEDED, "DependenciesNotReady", "");
            assert_eq!(conditions.get(READY).map(|root| root.message.as_str()), Some(message));
        }
    }
}

#[test]
fn transition_time_moves_only_with_status() {
    let mut list = launched_and_registered();
    let mut conditions = open(&mut list, 1, 140);
    assert!(conditions.set(LAUNCHED, ConditionStatus::True, "Launched", "changed text"));
    assert_eq!(conditions.get(LAUNCHED).map(|c| c.last_transition_time.0), Some(at(110)));
    assert!(conditions.set_unknown(LAUNCHED, "LaunchFailed", "no capacity"));
    assert_eq!(conditions.get(LAUNCHED).map(|c| c.last_transition_time.0), Some(at(140)));
}

#[test]
fn setting_the_same_again_changes_nothing() {
    let mut list = launched_and_registered();
    let before = list.clone();
    let mut conditions = open(&mut list, 1, 500);
    assert!(!conditions.set_true(LAUNCHED));
    assert!(!conditions.changed());
    assert_eq!(list, before);
}

#[test]
fn a_dependent_of_an_older_generation_is_not_healthy() {
    let mut list = launched_and_registered();
    open(&mut list, 1, 130).set_true(INITIALIZED);
    open(&mut list, 2, 140).set_true(LAUNCHED);
    assert_eq!(
        render(&list).last().map(String::as_str),
        Some("Ready Unknown ReconcilingDependents 140@2 [Initialized=True, Registered=True]")
    );
    open(&mut list, 2, 150).set_true(REGISTERED);
    open(&mut list, 2, 160).set_true(INITIALIZED);
    assert_eq!(render(&list).last().map(String::as_str), Some("Ready True Ready 160@2 []"));
}

#[test]
fn a_refusal_of_an_older_generation_leaves_the_root_unknown() {
    let mut list = launched_and_registered();
    open(&mut list, 1, 130).set_false(INITIALIZED, "X", "");
    open(&mut list, 2, 140).set_true(LAUNCHED);
    assert_eq!(
        render(&list).last().map(String::as_str),
        Some("Ready Unknown ReconcilingDependents 140@2 [Initialized=False, Registered=True]")
    );
}

#[test]
fn independent_conditions_do_not_touch_the_root_and_can_be_cleared() {
    let mut list = launched_and_registered();
    open(&mut list, 1, 130).set_true(INITIALIZED);
    let mut conditions = open(&mut list, 1, 140);
    assert!(conditions.set(DRIFTED, ConditionStatus::True, "NodePoolDrifted", "NodePoolDrifted"));
    assert_eq!(conditions.get(READY).map(|c| c.status), Some(ConditionStatus::True));
    assert_eq!(conditions.clear(DRIFTED), Ok(true));
    assert_eq!(conditions.clear(DRIFTED), Ok(false));
    for kind in [LAUNCHED, READY] {
        assert_eq!(conditions.clear(kind), Err(NotClearable { kind: kind.to_owned() }));
    }
}

#[test]
fn deleting_objects_have_every_condition_stamped_with_the_current_generation() {
    let mut list = launched_and_registered();
    let deleting = ObjectMeta { deletion_timestamp: Some(Time(at(200))), ..metadata(2) };
    assert!(Conditions::open(Dependents::NODE_CLAIM, &mut list, &deleting, at(210)).changed());
    assert!(list.iter().all(|c| c.observed_generation == Some(2)), "{:?}", render(&list));
}

#[test]
fn times_carry_no_fraction_of_a_second() {
    let mut list = Vec::new();
    let now = Timestamp::from_millisecond(110_750).unwrap();
    Conditions::open(Dependents::NODE_CLAIM, &mut list, &metadata(1), now).set_true(LAUNCHED);
    let launched = list.iter().find(|c| c.kind == LAUNCHED).unwrap();
    assert_eq!(launched.last_transition_time.0, at(110));
}

#[test]
fn reservations_decide_readiness_only_with_their_gate() {
    let with = Dependents::ec2_node_class(true).0;
    let without = Dependents::ec2_node_class(false).0;
    assert_eq!(with.len(), without.len() + 1);
    assert!(with.contains(&condition::aws::CAPACITY_RESERVATIONS_READY));
}

/// One thing a controller does: at which second, at which generation, which condition, what.
type Move = (u8, u8, usize, u8);

/// Does the move the way a controller would, opening the conditions again.
fn make(list: &mut Vec<Condition>, (second, generation, kind, what): Move) {
    const KINDS: [&str; 4] = [LAUNCHED, REGISTERED, INITIALIZED, DRIFTED];
    let mut conditions = open(list, i64::from(generation), 200 + i64::from(second));
    let kind = KINDS[kind];
    match what {
        0 => conditions.set_true(kind),
        1 => conditions.set_false(kind, "Bad", "m"),
        2 => conditions.set_unknown(kind, "Waiting", "m"),
        _ => conditions.clear(kind).unwrap_or_default(),
    };
}

fn healthy(list: &[Condition], generation: i64) -> bool {
    Dependents::NODE_CLAIM.0.iter().all(|kind| {
        let found = list.iter().find(|c| c.kind == *kind);
        found.is_some_and(|c| c.status == ConditionStatus::True && c.observed_generation == Some(generation))
    })
}

proptest! {
    /// Whatever controllers do and in whatever order: everything exists once, the order holds, the root says
    /// what its dependents say, and times move with the status only.
    #[test]
    fn rules_hold_after_every_move(
        mut moves in proptest::collection::vec((0u8..50, 1u8..3, 0usize..4, 0u8..4), 1..20),
    ) {
        moves.sort_by_key(|(second, ..)| *second);
        let mut list: Vec<Condition> = Vec::new();
        for step in moves {
            let before = list.clone();
            make(&mut list, step);
            let mut kinds: Vec<&str> = list.iter().map(|c| c.kind.as_str()).collect();
            prop_assert_eq!(kinds.last(), Some(&READY));
            kinds.sort_unstable();
            kinds.dedup();
            prop_assert_eq!(kinds.len(), list.len());
            prop_assert!(Dependents::NODE_CLAIM.0.iter().all(|kind| kinds.contains(kind)));
            let (root, others) = list.split_last().unwrap();
            prop_assert!(others.is_sorted_by_key(|c| c.last_transition_time.0));
            if list != before && step.3 != 3 {
                let generation = i64::from(step.1);
                prop_assert_eq!(root.status == ConditionStatus::True, healthy(&list, generation));
            }
            for old in &before {
                let same = list.iter().find(|c| c.kind == old.kind && c.status == old.status);
                prop_assert!(same.is_none_or(|c| c.last_transition_time == old.last_transition_time));
            }
        }
    }
}

#[test]
fn a_kind_without_root_has_only_what_was_set() {
    let mut list = Vec::new();
    let metadata = ObjectMeta { generation: Some(3), ..ObjectMeta::default() };
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut conditions = Conditions::without_root(&mut list, &metadata, at(5));
    assert!(!conditions.changed());
    assert!(conditions.set_false("Provisioning", "BufferEmpty", "none"));
    assert!(conditions.set_false("Provisioning", "RequiresNewCapacity", "some"));
    assert!(!conditions.set_false("Provisioning", "RequiresNewCapacity", "some"));
    let mut later = Conditions::without_root(&mut list, &metadata, at(9));
    assert!(later.set_true("Provisioning"));
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].last_transition_time.0, at(9));
    assert_eq!(list[0].observed_generation, Some(3));
}
