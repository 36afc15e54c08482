//! Each stage of termination, alone and in its order.

use karpenter_model::{Effect as TaintEffect, PodKey, Taint};

use super::*;
use crate::fixture::{at, claim, holding, node, ready, with_condition};

fn deleted() -> NodeObject {
    let mut node = NodeObject { deletion: Some(at(100)), taints: vec![Taint::disrupted()], ..node() };
    node.labels.insert(label::EXCLUDE_FROM_LOAD_BALANCERS.into(), EXCLUDED_BY.into());
    node
}

fn ending() -> Claim {
    holding(Claim { deletion: Some(at(100)), ..claim() }, &[ConditionType::Registered])
}

fn drained() -> Claim {
    holding(ending(), &[ConditionType::Drained])
}

fn with_deadline(claim: Claim, seconds: i64) -> Claim {
    let mut claim = claim;
    claim.annotations.insert(annotation::TERMINATION_TIMESTAMP.to_owned(), at(seconds).to_string());
    claim
}

struct World {
    node: NodeObject,
    claim: Option<Claim>,
    pods: Vec<Pod>,
    presence: Presence,
    attachments: Vec<String>,
}

impl World {
    fn new(claim: Option<Claim>) -> Self {
        let (pods, attachments) = (Vec::new(), Vec::new());
        Self { node: deleted(), claim, pods, presence: Presence::Unknown, attachments }
    }

    fn step(&self, now: i64) -> Step {
        let pods: Vec<&Pod> = self.pods.iter().collect();
        step(Facts {
            node: &self.node,
            claim: self.claim.as_ref(),
            class_labels: &["karpenter.k8s.aws/ec2nodeclass".into()],
            pods: &pods,
            presence: self.presence,
            attachments: &self.attachments,
            now: at(now),
        })
        .expect("a readable deadline")
    }
}

fn web() -> Pod {
    Pod::pending(PodKey::new("ns", "web"), "uid", at(0))
}

fn finalizer_removed(step: &Step) -> bool {
    step.effects.iter().any(|effect| matches!(effect, Effect::RemoveNodeFinalizer(_)))
}

fn event<'a>(step: &'a Step, reason: &str) -> Option<&'a Event> {
    step.effects.iter().find_map(|effect| match effect {
        Effect::Event(event) if event.reason == reason => Some(event),
        _ => None,
    })
}

#[test]
fn only_deleted_nodes_of_ours_with_the_finalizer_are_touched() {
    let mut world = World::new(Some(ending()));
    world.node.deletion = None;
    assert_eq!(world.step(101), Step::idle());
    world.node = NodeObject { finalizers: Vec::new(), ..deleted() };
    assert_eq!(world.step(101), Step::idle());
    world.node = NodeObject { labels: karpenter_model::Labels::new(), ..deleted() };
    assert_eq!(world.step(101), Step::idle());
}

#[test]
fn deleting_the_node_deletes_its_claim_once() {
    let alive = World::new(Some(Claim { deletion: None, ..ending() }));
    assert_eq!(alive.step(101).effects[0], Effect::DeleteClaim(DeletionCause::NodeDeleted));
    assert_eq!(DeletionCause::NodeDeleted.label(), None, "counted where the deletion was decided");
    let going = World::new(Some(ending())).step(101);
    assert!(!going.effects.iter().any(|effect| matches!(effect, Effect::DeleteClaim(_))));
}

#[test]
fn a_gone_machine_frees_a_dead_node_at_once_and_not_a_ready_one() {
    let mut world = World::new(Some(ending()));
    world.pods = vec![web()];
    world.presence = Presence::Gone;
    assert!(!finalizer_removed(&world.step(101)), "a ready node is always drained");
    world.node = ready(deleted(), false);
    assert!(finalizer_removed(&world.step(101)), "though a pod remains");
    for presence in [Presence::Unknown, Presence::Exists] {
        world.presence = presence;
        assert!(!finalizer_removed(&world.step(101)), "{presence:?}");
    }
}

#[test]
fn the_machine_is_asked_about_only_while_the_kubelet_is_silent() {
    assert!(!asks_presence(&deleted()));
    assert!(asks_presence(&ready(deleted(), false)));
    assert!(!asks_presence(&NodeObject { provider_id: None, ..ready(deleted(), false) }));
}

#[test]
fn taints_once_and_replaces_other_effects_of_the_same_key() {
    let mut world = World::new(Some(ending()));
    world.node = NodeObject { deletion: Some(at(100)), ..node() };
    let old = Taint::new(karpenter_model::names::taint::DISRUPTED, "x", TaintEffect::NoExecute);
    world.node.taints = vec![old.clone()];
    let step = world.step(101);
    let Effect::PatchNode(patch) = &step.effects[0] else { panic!("{step:?}") };
    assert_eq!((&patch.remove_taints, &patch.add_taints), (&vec![old], &vec![Taint::disrupted()]));
    assert_eq!(
        patch.labels.get(label::EXCLUDE_FROM_LOAD_BALANCERS).map(karpenter_model::LabelValue::as_str),
        Some(EXCLUDED_BY)
    );
    assert_eq!(step.effects[1], Effect::Milestone(Milestone::Tainted("node-1".into())));
    world.node.taints =
        vec![Taint::new(karpenter_model::names::taint::DISRUPTED, "x", TaintEffect::NoSchedule)];
    let Effect::PatchNode(patch) = &world.step(101).effects[0] else { panic!("the label is missing") };
    assert!(patch.add_taints.is_empty(), "key and effect decide, not the value");
    world.node = deleted();
    assert!(!world.step(101).effects.iter().any(|effect| matches!(effect, Effect::PatchNode(_))));
}

#[test]
fn waits_for_pods_and_says_how_many() {
    let mut world = World::new(Some(ending()));
    world.pods = vec![
        web(),
        web().with(|pod| {
            pod.critical = true;
            pod.key = PodKey::new("ns", "dns");
        }),
    ];
    let step = world.step(101);
    assert!(event(&step, "FailedDraining").is_some_and(|event| event.message.contains("2 pods")));
    assert_eq!(step.conditions, [Change::unknown(ConditionType::Drained, "Draining", "Draining")]);
    assert_eq!(step.wake, Wake::After(POLL));
    assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::Terminate(_))));
}

#[test]
fn drains_for_five_seconds_at_least() {
    let draining = |since| with_condition(ending(), ConditionType::Drained, ConditionStatus::Unknown, since);
    let table = [(ending(), 200, false), (draining(100), 104, false), (draining(100), 105, true)];
    for (claim, now, over) in table {
        let step = World::new(Some(claim)).step(now);
        let terminates = step.effects.contains(&Effect::Terminate("cloud:///i-1".into()));
        assert_eq!(terminates, over, "at {now}");
        assert_eq!(step.conditions.contains(&Change::holds(ConditionType::Drained)), over);
        let told = step.effects.contains(&Effect::Milestone(Milestone::Drained("node-1".into())));
        assert_eq!(told, over);
    }
}

#[test]
fn a_pod_appearing_after_the_drain_holds_up_again_without_undoing_it() {
    let mut world = World::new(Some(drained()));
    world.pods = vec![web()];
    let step = world.step(200);
    assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::Terminate(_))));
    assert_eq!(step.conditions, [], "Drained stays true");
}

#[test]
fn waits_for_volumes_until_the_deadline() {
    let attached = |claim| World { attachments: vec!["a".to_owned()], ..World::new(Some(claim)) };
    let terminates = |step: &Step| step.effects.iter().any(|effect| matches!(effect, Effect::Terminate(_)));
    let waiting = attached(drained()).step(1_000_000);
    assert!(!terminates(&waiting), "for ever without a deadline");
    let awaiting = event(&waiting, "AwaitingVolumeDetachment").expect("an event");
    assert_eq!(awaiting.message, "Awaiting deletion of bound volumeattachments (a)");
    let kind = ConditionType::VolumesDetached;
    let reason = "AwaitingVolumeDetachment";
    assert_eq!(waiting.conditions, [Change::unknown(kind, reason, reason)]);
    assert!(!terminates(&attached(with_deadline(drained(), 300)).step(300)));
    let late = attached(with_deadline(drained(), 300)).step(301);
    assert!(terminates(&late));
    let reason = "TerminationGracePeriodElapsed";
    assert_eq!(late.conditions, [Change::fails(kind, reason, reason)]);
    assert_eq!(World::new(Some(drained())).step(300).conditions, [Change::holds(kind)]);
}

#[test]
fn at_most_five_attachments_are_named() {
    let names = |count: usize| (0..count).map(|number| format!("v{number}")).collect::<Vec<_>>();
    assert_eq!(listed(&names(5)), "v0, v1, v2, v3, v4");
    assert_eq!(listed(&names(7)), "v0, v1, v2, v3, v4 and 2 other(s)");
}

#[test]
fn the_node_stays_until_the_machine_is_gone() {
    let node = deleted();
    let started = terminated(&node, &Answer::Started, at(110));
    assert_eq!((started.effects.len(), started.wake), (0, Wake::After(TERMINATING_POLL)));
    assert_eq!(started.conditions, [Change::holds(ConditionType::InstanceTerminating)]);
    assert_eq!(
        terminated(&node, &Answer::Failed("x".to_owned()), at(110)),
        Step::idle().and_wake(Wake::Backoff)
    );
    let gone = terminated(&node, &Answer::Gone, at(130));
    assert_eq!(gone.effects[0], Effect::RemoveNodeFinalizer("node-1".into()));
    let told = Milestone::NodeDeleted {
        node: "node-1".into(),
        terminating: Duration::from_secs(30),
        lifetime: Duration::from_secs(130),
    };
    assert_eq!(gone.effects[1], Effect::Milestone(told));
}

#[test]
fn without_a_claim_drains_and_goes_with_no_minimum_and_no_provider() {
    let mut world = World::new(None);
    world.pods = vec![web()];
    let step = world.step(101);
    assert!(!finalizer_removed(&step));
    assert_eq!(step.conditions, []);
    world.pods.clear();
    world.attachments = vec!["a".to_owned()];
    assert!(!finalizer_removed(&world.step(101)), "volumes are awaited");
    world.attachments.clear();
    let step = world.step(101);
    assert!(finalizer_removed(&step));
    assert!(!step.effects.iter().any(|effect| matches!(effect, Effect::Terminate(_))));
}

#[test]
fn a_deadline_is_told_and_a_bad_one_is_an_error() {
    let world = World::new(Some(with_deadline(ending(), 300)));
    let step = world.step(101);
    let expiring = event(&step, "TerminationGracePeriodExpiring").expect("an event");
    assert_eq!(expiring.message, "All pods will be deleted by 2027-01-15T08:05:00Z");
    let mut bad = ending();
    bad.annotations.insert(annotation::TERMINATION_TIMESTAMP.to_owned(), "soon".to_owned());
    let error = deadline(Some(&bad)).expect_err("not a time");
    assert!(error.to_string().contains("`soon` of nodeclaim `web-1`"), "{error}");
}
