//! The order of finalization, its deadline, and what must not be touched.

use karpenter_model::Resources;

use super::*;
use crate::fixture::{at, claim, holding, node};

fn deleted() -> Claim {
    Claim { deletion: Some(at(100)), ..claim() }
}

fn registered() -> Claim {
    holding(deleted(), &[ConditionType::Launched, ConditionType::Registered])
}

fn terminate() -> Effect {
    Effect::Terminate("cloud:///i-1".into())
}

#[test]
fn ignores_claims_not_deleted_or_without_our_finalizer() {
    assert_eq!(step(&claim(), &[]), Step::idle());
    let foreign = Claim { finalizers: vec!["other".to_owned()], ..registered() };
    assert_eq!(step(&foreign, &[&node()]), Step::idle());
}

#[test]
fn every_node_of_the_machine_is_deleted_and_awaited_first() {
    let going = karpenter_model::NodeObject { name: "node-2".into(), deletion: Some(at(50)), ..node() };
    let step = step(&registered(), &[&node(), &going]);
    assert_eq!(step.effects, [Effect::DeleteNode("node-1".into())]);
    assert_eq!(step.wake, Wake::OnEvent);
}

#[test]
fn an_unregistered_claim_does_not_delete_nodes() {
    let step = step(&deleted(), &[&node()]);
    assert_eq!(step.effects, [terminate()]);
}

#[test]
fn a_node_that_says_it_is_registered_is_drained_though_the_claim_does_not_know() {
    let mut registered = node();
    registered.labels.insert(label::REGISTERED.into(), "true".into());
    let step = step(&deleted(), &[&registered]);
    assert_eq!(step.effects, [Effect::DeleteNode("node-1".into())]);
}

#[test]
fn the_machine_goes_after_the_nodes_and_the_finalizer_after_the_machine() {
    assert_eq!(step(&registered(), &[]).effects, [terminate()]);
    let started = terminated(&registered(), &Answer::Started, at(101));
    assert_eq!(started.effects, []);
    assert_eq!(started.conditions, [Change::holds(ConditionType::InstanceTerminating)]);
    assert_eq!(started.wake, Wake::After(TERMINATING_POLL));
    let failed = terminated(&registered(), &Answer::Failed("x".to_owned()), at(101));
    assert_eq!(failed, Step::idle().and_wake(Wake::Backoff), "the finalizer stays");
    let refused = terminated(&registered(), &Answer::Refused("no right".to_owned()), at(101));
    assert_eq!(refused.wake, Wake::Backoff);
    let [Effect::Event(event)] = refused.effects.as_slice() else { panic!("{refused:?}") };
    assert_eq!(event.message, "Instance is not terminated, tried again: no right");
    let gone = terminated(&registered(), &Answer::Gone, at(130));
    assert_eq!(gone.effects[1], Effect::RemoveFinalizer);
    assert_eq!(gone.effects[2], Effect::Milestone(Milestone::ClaimDeleted(Duration::from_secs(30))));
}

#[test]
fn a_claim_that_knows_no_machine_goes_only_when_the_provider_knows_none_either() {
    let unlaunched = Claim { provider_id: None, ..deleted() };
    assert_eq!(step(&unlaunched, &[]).effects, [Effect::LookUp]);
    let nothing = looked_up(&unlaunched, &Found::Nothing, at(130));
    let deleted = Milestone::ClaimDeleted(Duration::from_secs(30));
    assert_eq!(nothing.effects, [Effect::RemoveFinalizer, Effect::Milestone(deleted)]);
    let failed = looked_up(&unlaunched, &Found::Failed("x".to_owned()), at(130));
    assert_eq!(failed, Step::idle().and_wake(Wake::Backoff), "the finalizer stays");
    let machine = looked_up(&unlaunched, &Found::Machine("cloud:///i-1".into()), at(130));
    assert_eq!(machine.effects, [Effect::RecordMachine("cloud:///i-1".into())]);
    assert_eq!(machine.wake, Wake::After(Duration::ZERO), "and then goes the usual way");
}

#[test]
fn the_deadline_is_fixed_once_from_the_deletion() {
    let graceful = Claim { termination_grace_period: Some(Duration::from_mins(5)), ..registered() };
    let first = step(&graceful, &[]);
    let Effect::AnnotateClaim(annotations) = &first.effects[0] else { panic!("{first:?}") };
    let text = &annotations[annotation::TERMINATION_TIMESTAMP];
    assert_eq!(text.parse::<Timestamp>().ok(), Some(at(400)));
    assert_eq!(first.effects[1], Effect::Milestone(Milestone::DeadlineSet(at(400))));
    let mut set = graceful.clone();
    set.annotations.insert(annotation::TERMINATION_TIMESTAMP.to_owned(), "2030-01-01T00:00:00Z".to_owned());
    assert_eq!(step(&set, &[]).effects, [terminate()], "never overwritten");
    assert_eq!(step(&registered(), &[]).effects, [terminate()], "none without a grace period");
}

#[test]
fn a_grace_period_of_zero_is_a_deadline_at_the_deletion() {
    let at_once = Claim { termination_grace_period: Some(Duration::ZERO), ..registered() };
    let step = step(&at_once, &[]);
    assert!(step.effects.contains(&Effect::Milestone(Milestone::DeadlineSet(at(100)))), "{step:?}");
}

#[test]
fn conditions_follow_the_generation_and_the_root_is_left_to_the_engine() {
    let claim = holding(registered(), &[ConditionType::Ready, ConditionType::Initialized]);
    let kinds: Vec<_> = step(&claim, &[]).conditions.into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ConditionType::Launched, ConditionType::Registered, ConditionType::Initialized]);
}

#[test]
fn quantities_play_no_part_in_finalization() {
    let sized = Claim { capacity: Resources::one_pod(), requests: Resources::one_pod(), ..registered() };
    assert_eq!(step(&sized, &[]), step(&registered(), &[]));
}
