//! Node lookup, what is copied, hooks, and the taint that goes last.

use karpenter_model::{Effect as TaintEffect, LabelKey};

use super::*;
use crate::fixture::{claim, holding, node, with_condition};

fn joining() -> NodeObject {
    NodeObject { taints: vec![Taint::unregistered()], finalizers: Vec::new(), ..node() }
}

fn patch(step: &Step) -> &NodePatch {
    let patch = step.effects.iter().find_map(|effect| match effect {
        Effect::PatchNode(patch) => Some(patch),
        _ => None,
    });
    patch.expect("a node patch")
}

fn reason(step: &Step) -> &str {
    step.conditions[0].to.as_ref().map_or("", |verdict| verdict.reason.as_str())
}

fn hook(name: &str, state: HookState) -> Hook {
    Hook { name: name.to_owned(), state, labels: Labels::new() }
}

fn startup() -> Taint {
    Taint::new("starting", "", TaintEffect::NoSchedule)
}

fn tainted_claim() -> Claim {
    Claim {
        taints: vec![Taint::new("dedicated", "web", TaintEffect::NoSchedule)],
        startup_taints: vec![startup(), Taint::new("dedicated", "other", TaintEffect::NoSchedule)],
        ..claim()
    }
}

#[test]
fn without_a_node_waits_and_with_two_fails_for_good() {
    let none = step(&claim(), &[], &[]);
    assert_eq!((reason(&none), none.effects.len()), ("NodeNotFound", 0));
    let (one, two) = (joining(), joining());
    let many = step(&claim(), &[&one, &two], &[]);
    assert_eq!((reason(&many), many.effects.len()), ("MultipleNodesFound", 0));
    let failed = with_condition(claim(), ConditionType::Registered, ConditionStatus::False, 0);
    assert_eq!(step(&failed, &[&one], &[]).effects, [], "never looked at again");
}

#[test]
fn registers_in_one_pass() {
    let node = joining();
    let step = step(&tainted_claim(), &[&node], &[]);
    let patch = patch(&step);
    assert!(patch.add_finalizer);
    assert_eq!(patch.add_owner, Some(("web-1".into(), "uid-web-1".into())));
    assert_eq!(patch.labels.get(label::REGISTERED).map(karpenter_model::LabelValue::as_str), Some("true"));
    assert_eq!(patch.labels.get(label::NODE_POOL).map(karpenter_model::LabelValue::as_str), Some("web"));
    let added: Vec<String> = patch.add_taints.iter().map(ToString::to_string).collect();
    assert_eq!(added, ["dedicated=web:NoSchedule", "starting:NoSchedule"], "no duplicate key and effect");
    assert_eq!(patch.remove_taints, [Taint::unregistered()]);
    assert_eq!(step.conditions, [Change::holds(ConditionType::Registered)]);
    assert!(step.effects.contains(&Effect::RecordNode("node-1".into())));
    assert!(step.effects.contains(&Effect::RegistrationHealth(RegistrationOutcome::Success)));
    assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::Event(_))));
}

#[test]
fn claim_wins_over_node_and_nothing_is_removed() {
    let mut claim = claim();
    claim.labels.insert("team".into(), "a".into());
    claim.annotations.insert("note".to_owned(), "claim".to_owned());
    let mut node = joining();
    node.labels.insert("team".into(), "b".into());
    node.labels.insert("extra".into(), "kept".into());
    node.owners.insert("uid-web-1".into());
    node.finalizers = vec![karpenter_model::names::finalizer::TERMINATION.to_owned()];
    let step = step(&claim, &[&node], &[]);
    let patch = patch(&step);
    assert_eq!(patch.labels.get("team").map(karpenter_model::LabelValue::as_str), Some("a"));
    assert!(!patch.labels.contains_key(&LabelKey::from("extra")));
    assert_eq!(patch.annotations["note"], "claim");
    assert_eq!((patch.add_finalizer, &patch.add_owner), (false, &None), "present ones are not added twice");
}

#[test]
fn only_the_exact_opt_out_keeps_taints_away_and_the_unregistered_taint_goes_anyway() {
    for (value, synced) in [("true", 0), ("True", 2), ("false", 2), ("", 2)] {
        let mut node = joining();
        node.labels.insert(label::DO_NOT_SYNC_TAINTS.into(), value.into());
        let step = step(&tainted_claim(), &[&node], &[]);
        assert_eq!(patch(&step).add_taints.len(), synced, "`{value}`");
        assert_eq!(patch(&step).remove_taints, [Taint::unregistered()]);
    }
}

#[test]
fn a_missing_unregistered_taint_is_told_and_registration_goes_on() {
    let naked = NodeObject { taints: Vec::new(), ..joining() };
    let step = step(&claim(), &[&naked], &[]);
    assert!(
        matches!(&step.effects[0], Effect::Event(event)
            if event.reason == "UnregisteredTaintMissing" && event.about == About::Claim("web-1".into())),
        "{step:?}"
    );
    assert_eq!(step.conditions, [Change::holds(ConditionType::Registered)]);
    let mut labelled = naked.clone();
    labelled.labels.insert(label::REGISTERED.into(), "true".into());
    let again = super::step(&claim(), &[&labelled], &[]);
    assert!(
        !again.effects.iter().any(|effect| matches!(effect, Effect::Event(_))),
        "patched in an earlier pass"
    );
}

#[test]
fn hooks_hold_registration_up_but_not_the_rest_of_the_sync() {
    let node = joining();
    let hooks = [
        hook("zone", HookState::Ready),
        hook("partition", HookState::Pending(Some(Duration::from_secs(5)))),
        hook("rack", HookState::Pending(Some(Duration::from_secs(3)))),
    ];
    let step = step(&claim(), &[&node], &hooks);
    let verdict = step.conditions[0].to.clone().expect("a verdict");
    assert_eq!(
        (verdict.reason.as_str(), verdict.message.as_str()),
        ("RegistrationHookPending", "partition, rack")
    );
    assert_eq!(step.wake, Wake::After(Duration::from_secs(3)));
    assert!(patch(&step).remove_taints.is_empty(), "pods stay away");
    assert!(!patch(&step).labels.contains_key(label::REGISTERED));
    assert!(patch(&step).add_finalizer);
}

#[test]
fn a_failed_hook_is_retried_with_backoff() {
    let node = joining();
    let failed = [hook("zone", HookState::Failed), hook("rack", HookState::Pending(None))];
    let step = step(&claim(), &[&node], &failed);
    assert_eq!((reason(&step), step.wake), ("RegistrationHookPending", Wake::Backoff));
}

#[test]
fn nothing_is_synced_after_registration() {
    let registered = holding(tainted_claim(), &[ConditionType::Registered]);
    let step = step(&registered, &[&NodeObject { taints: Vec::new(), ..joining() }], &[]);
    assert_eq!(step.effects, [], "startup taints that were removed stay away");
    assert_eq!(step.conditions, [Change::holds(ConditionType::Registered)]);
}

#[test]
fn a_node_that_joins_anew_after_registration_is_made_ours_again() {
    let registered = holding(tainted_claim(), &[ConditionType::Registered, ConditionType::Initialized]);
    let again = step(&registered, &[&joining()], &[]);
    let patch = patch(&again);
    assert_eq!(patch.remove_taints, [Taint::unregistered()]);
    assert!(patch.add_finalizer);
    for key in [label::REGISTERED, label::INITIALIZED] {
        assert_eq!(patch.labels.get(key).map(karpenter_model::LabelValue::as_str), Some("true"), "{key}");
    }
    let leaving = NodeObject { deletion: Some(joining().created_at), ..joining() };
    assert_eq!(step(&registered, &[&leaving], &[]).effects, [], "one that is being deleted goes");
    assert_eq!(
        step(&registered, &[&joining(), &joining()], &[]).effects,
        [],
        "which one is ours is not known"
    );
}

#[test]
fn labels_a_hook_has_learnt_reach_claim_and_node() {
    let node = joining();
    let learnt = Labels::from([("cloud/partition".into(), "3".into())]);
    let hooks = [Hook { labels: learnt.clone(), ..hook("partition", HookState::Ready) }];
    let first = step(&claim(), &[&node], &hooks);
    assert_eq!(first.effects[0], Effect::LabelClaim("cloud/partition".into(), "3".into()));
    assert_eq!(patch(&first).labels.get("cloud/partition"), learnt.get("cloud/partition"));
    assert_eq!(first.conditions, [Change::holds(ConditionType::Registered)]);
    let mut labelled = claim();
    labelled.labels.extend(learnt);
    let again = step(&labelled, &[&node], &hooks);
    assert!(!again.effects.iter().any(|effect| matches!(effect, Effect::LabelClaim(..))), "{again:?}");
}

#[test]
fn hooks_are_asked_only_between_join_and_registration() {
    let (one, two) = (joining(), joining());
    let with = |status| with_condition(claim(), ConditionType::Registered, status, 0);
    assert!(asks_hooks(&claim(), &[&one]));
    assert!(asks_hooks(&with(ConditionStatus::Unknown), &[&one]));
    assert!(!asks_hooks(&claim(), &[]));
    assert!(!asks_hooks(&claim(), &[&one, &two]));
    assert!(!asks_hooks(&with(ConditionStatus::True), &[&one]));
    assert!(!asks_hooks(&with(ConditionStatus::False), &[&one]));
}
