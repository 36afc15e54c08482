//! Each phase, its deadlines, and what a process that starts in it does.

use karpenter_model::repair::RepairAction;
use karpenter_model::{Condition, PodKey, PodPhase};

use super::*;
use crate::fixture::{at, claim, holding, node, ready};

fn repair(drain: Option<u64>) -> Repair {
    Repair {
        condition: "Gpu".to_owned(),
        status: ConditionStatus::False,
        reason: "XID48".to_owned(),
        pattern: None,
        action: RepairAction::Reboot,
        eligible_at: at(0),
        drain: drain.map(Duration::from_secs),
    }
}

fn condition(reason: &str, status: ConditionStatus, since: i64) -> Condition {
    Condition::since(at(since), status, reason)
}

/// A claim whose reboot was requested at 100, with these annotations.
fn requested(annotations: &[(&str, &str)]) -> Claim {
    let mut claim = holding(claim(), &[ConditionType::Registered, ConditionType::Initialized]);
    let condition = condition(reason::REBOOT_REQUESTED, ConditionStatus::True, 100);
    claim.conditions.insert(ConditionType::Rebooting, condition);
    claim.annotations.extend(annotations.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())));
    claim
}

/// A claim whose reboot was requested at 100 and issued at 160, before which the boot id was `before`.
fn issued_claim() -> Claim {
    let mut claim = requested(&[(annotation::PRE_BOOT_ID, "before")]);
    let rebooting = condition(reason::REBOOT_ISSUED, ConditionStatus::True, 100);
    claim.conditions.insert(ConditionType::Rebooting, rebooting);
    let initialized = condition(reason::REBOOTING, ConditionStatus::Unknown, 160);
    claim.conditions.insert(ConditionType::Initialized, initialized);
    claim
}

/// The Node with this boot id, fenced.
fn fenced_node(boot: &str) -> NodeObject {
    NodeObject { boot_id: Some(boot.to_owned()), taints: vec![Taint::rebooting()], ..node() }
}

fn web() -> Pod {
    let mut pod = Pod::pending(PodKey::new("default", "web"), "web", at(0));
    pod.node_name = Some("node-1".into());
    pod.phase = PodPhase::Running;
    pod
}

fn facts<'a>(node: Option<&'a NodeObject>, pods: &'a [&'a Pod], now: i64) -> Facts<'a> {
    Facts { node, pods, now: at(now) }
}

fn reason_of(step: &Step) -> Option<&str> {
    let change = step.conditions.iter().find(|change| change.kind == ConditionType::Rebooting)?;
    change.to.as_ref().map(|value| value.reason.as_str())
}

fn before_of(step: &Step) -> Option<&str> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::AnnotateClaim(annotations) => annotations.get(annotation::PRE_BOOT_ID).map(String::as_str),
        _ => None,
    })
}

fn ended(step: &Step) -> Option<RebootResult> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::Milestone(Milestone::Rebooted { result, .. }) => Some(*result),
        _ => None,
    })
}

fn patched(step: &Step) -> Option<&NodePatch> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::PatchNode(patch) => Some(patch),
        _ => None,
    })
}

fn deletes(step: &Step) -> bool {
    step.effects.contains(&Effect::DeleteClaim(DeletionCause::Unhealthy))
}

fn has_event(step: &Step, wanted: &str) -> bool {
    step.effects.iter().any(|effect| matches!(effect, Effect::Event(event) if event.reason == wanted))
}

#[test]
fn a_request_is_on_the_claim_and_made_once() {
    let step = request(&claim(), &repair(Some(300))).unwrap();
    let annotated = Effect::annotate_claim(annotation::REBOOT_GRACE_PERIOD, "300s".to_owned());
    assert!(step.effects.contains(&annotated), "{step:?}");
    assert_eq!(step.effects[0], forget(), "what an earlier one left goes first");
    let said: Vec<_> = step
        .conditions
        .iter()
        .map(|change| {
            (change.kind, change.to.as_ref().map(|to| (to.status, to.reason.as_str(), to.message.as_str())))
        })
        .collect();
    let yes = ConditionStatus::True;
    assert_eq!(
        said,
        [
            (ConditionType::DisruptionReason, Some((yes, "Unhealthy", "Unhealthy"))),
            (ConditionType::Rebooting, Some((yes, "RebootRequested", "rebooting for Gpu/XID48"))),
        ]
    );
    let unbounded = request(&claim(), &repair(None)).unwrap();
    assert_eq!(unbounded.effects, [forget()]);
    assert_eq!(request(&requested(&[]), &repair(None)), None);
    assert_eq!(request(&Claim { deletion: Some(at(1)), ..claim() }, &repair(None)), None);
}

#[test]
fn a_node_is_fenced_and_drains_at_least_five_seconds() {
    let (open, fenced) = (NodeObject { boot_id: Some("before".to_owned()), ..node() }, fenced_node("before"));
    for grace in [&[][..], &[(annotation::REBOOT_GRACE_PERIOD, "0s")]] {
        let claim = requested(grace);
        let first = step(&claim, facts(Some(&open), &[], 101));
        assert_eq!(patched(&first).unwrap().add_taints, [Taint::rebooting()]);
        assert_eq!((before_of(&first), first.wake), (None, Wake::After(termination::POLL)));
        let later = step(&claim, facts(Some(&fenced), &[], 104));
        assert_eq!((patched(&later), before_of(&later)), (None, None));
        assert_eq!(before_of(&step(&claim, facts(Some(&fenced), &[], 105))), Some("before"));
    }
}

#[test]
fn pods_are_evicted_until_the_bound_and_none_is_deleted() {
    let (node, pod) = (fenced_node("before"), web());
    let bound = requested(&[(annotation::REBOOT_GRACE_PERIOD, "1m30s")]);
    for (claim, now, goes_on) in
        [(&bound, 189, false), (&bound, 190, true), (&requested(&[]), 100_000, false)]
    {
        let pods = [&pod];
        let step = step(claim, facts(Some(&node), &pods, now));
        assert!(step.effects.contains(&Effect::Evict(crate::step::PodRef::of(&pod))), "{step:?}");
        assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::DeletePod(..))));
        assert_eq!(before_of(&step).is_some(), goes_on, "at {now}");
        assert_eq!(has_event(&step, reason::FAILED_DRAINING), !goes_on, "at {now}");
    }
}

#[test]
fn the_provider_is_asked_once_the_boot_id_is_written() {
    let node = fenced_node("before");
    assert!(!asks_provider(&requested(&[]), &node));
    let claim = requested(&[(annotation::PRE_BOOT_ID, "before")]);
    assert!(asks_provider(&claim, &node));
    let step = answered(&claim, facts(Some(&node), &[], 110), &Answer::Accepted, at(110));
    assert_eq!(reason_of(&step), Some(reason::REBOOT_ISSUED));
    let initialized =
        step.conditions.iter().find(|change| change.kind == ConditionType::Initialized).unwrap();
    assert_eq!(initialized.to.as_ref().unwrap().status, ConditionStatus::Unknown);
    assert_eq!(patched(&step).unwrap().remove_labels, [label::INITIALIZED]);
    assert_eq!(step.wake, Wake::After(POLL));
}

#[test]
fn a_machine_that_has_booted_is_not_asked_for_again() {
    let claim = requested(&[(annotation::PRE_BOOT_ID, "before")]);
    let booted = fenced_node("after");
    assert!(!asks_provider(&claim, &booted));
    assert_eq!(reason_of(&step(&claim, facts(Some(&booted), &[], 110))), Some(reason::REBOOT_ISSUED));
}

#[test]
fn a_call_that_fails_is_repeated_for_five_minutes_and_one_that_is_refused_not_at_all() {
    let claim = requested(&[(annotation::PRE_BOOT_ID, "before")]);
    let node = fenced_node("before");
    let failed = Answer::Failed("throttled".to_owned());
    let answered = |answer: &Answer, now| answered(&claim, facts(Some(&node), &[], now), answer, at(110));
    let again = answered(&failed, 409);
    assert_eq!((again.wake, again.effects.len()), (Wake::Backoff, 0));
    for over in [answered(&failed, 410), answered(&Answer::Refused("no such machine".to_owned()), 111)] {
        assert_eq!((deletes(&over), ended(&over)), (true, Some(RebootResult::ProviderError)));
        assert!(has_event(&over, reason::REBOOT_FAILED));
    }
}

#[test]
fn a_node_takes_pods_again_once_it_has_booted_and_is_over_once_it_is_ready() {
    let claim = issued_claim();
    let booting = step(&claim, facts(Some(&fenced_node("before")), &[], 200));
    assert_eq!((booting.effects.len(), booting.wake), (0, Wake::After(POLL)));
    let booted = step(&claim, facts(Some(&ready(fenced_node("after"), false)), &[], 200));
    assert_eq!(patched(&booted).unwrap().remove_taints, [Taint::rebooting()]);
    assert!(has_event(&booted, reason::REBOOT_OBSERVED));
    assert_eq!(reason_of(&booted), None);
    let back = NodeObject { taints: Vec::new(), ..fenced_node("after") };
    let over = step(&claim, facts(Some(&back), &[], 260));
    assert_eq!(
        (reason_of(&over), ended(&over)),
        (Some(reason::REBOOT_SUCCEEDED), Some(RebootResult::Succeeded))
    );
    assert!(!has_event(&over, reason::REBOOT_OBSERVED), "told before");
    assert!(over.effects.contains(&forget()));
    assert!(over.conditions.contains(&Change::removed(ConditionType::DisruptionReason)));
    let took = Milestone::Rebooted {
        result: RebootResult::Succeeded,
        took: Duration::from_secs(160),
        recovery: Some(Duration::from_secs(100)),
    };
    assert!(over.effects.contains(&Effect::Milestone(took)));
}

#[test]
fn a_node_that_does_not_come_back_within_twenty_minutes_is_given_up() {
    let claim = issued_claim();
    let silent = ready(fenced_node("after"), false);
    for node in [Some(&fenced_node("before")), Some(&silent), None] {
        let last = step(&claim, facts(node, &[], 160 + 1199));
        assert_eq!((deletes(&last), last.wake), (false, Wake::After(Duration::from_secs(1))));
        let over = step(&claim, facts(node, &[], 160 + 1200));
        assert_eq!((deletes(&over), ended(&over)), (true, Some(RebootResult::RecoveryTimeout)));
    }
}

#[test]
fn a_node_that_never_was_initialized_has_its_twenty_minutes_from_the_request() {
    let mut claim = issued_claim();
    let waiting = condition(reason::NODE_NOT_READY, ConditionStatus::Unknown, -9_000);
    claim.conditions.insert(ConditionType::Initialized, waiting);
    let node = fenced_node("before");
    assert!(!deletes(&step(&claim, facts(Some(&node), &[], 100 + 1199))));
    assert!(deletes(&step(&claim, facts(Some(&node), &[], 100 + 1200))));
}

#[test]
fn a_node_that_is_gone_before_the_call_is_waited_for_five_minutes() {
    let claim = requested(&[]);
    assert!(!deletes(&step(&claim, facts(None, &[], 399))));
    assert!(deletes(&step(&claim, facts(None, &[], 400))));
}

#[test]
fn an_annotation_that_cannot_be_read_ends_the_reboot_and_keeps_the_node() {
    for text in ["soon", "-5m"] {
        let claim = requested(&[(annotation::REBOOT_GRACE_PERIOD, text)]);
        let over = step(&claim, facts(Some(&fenced_node("before")), &[], 101));
        assert_eq!((deletes(&over), ended(&over)), (false, Some(RebootResult::InvalidRequest)));
        assert_eq!(reason_of(&over), Some(reason::REBOOT_FAILED));
        assert_eq!(patched(&over).unwrap().remove_taints, [Taint::rebooting()]);
        assert!(over.effects.contains(&forget()));
    }
}

#[test]
fn a_claim_that_is_not_being_rebooted_or_is_deleted_is_left_alone() {
    let node = fenced_node("before");
    assert_eq!(step(&claim(), facts(Some(&node), &[], 101)), Step::idle());
    let deleted = Claim { deletion: Some(at(100)), ..requested(&[]) };
    assert_eq!(step(&deleted, facts(Some(&node), &[], 101)), Step::idle());
    assert!(!drains(&deleted) && drains(&requested(&[])) && !drains(&issued_claim()));
}
