//! A node that is not used three times is not bought a fourth time at once.

use std::sync::Arc;

use karpenter_model::{Claim, ConditionStatus, Effect, Labels, Pool, Resources, Taint, VolumeClaim};

use super::*;
use crate::fixture::{at, claim, with_condition};

fn pod(name: &str) -> Pod {
    Pod::pending(PodKey::new("ns", name), name, at(0))
}

fn up(since: i64) -> Claim {
    with_condition(claim(), ConditionType::Initialized, ConditionStatus::True, since)
}

/// The node of a claim, registered, with these taints.
fn node_of(claim: &Claim, taints: &[Taint]) -> Node {
    let name = format!("node-of-{}", claim.name);
    let labels = Labels::from([("karpenter.sh/registered".into(), "true".into())]);
    let node = Node::new(name.as_str().into(), at(0));
    let (claim, taints) = (Some(claim.clone().into()), taints.to_vec());
    Node { name: Some(name.as_str().into()), claim, labels, taints, ..node }
}

/// A world of these nodes and waiting pods, and the pool `web` with a template of this hash.
fn world(nodes: Vec<Node>, pods: Vec<Pod>, template: &str, second: i64) -> Snapshot {
    let (bound, pending): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(|pod| pod.node_name.is_some());
    let bound_to =
        Node { pods: bound.into_iter().map(Arc::new).collect(), ..Node::new("busy".into(), at(0)) };
    let pool = Pool { hash: template.to_owned(), ..Pool::bare("web") };
    Snapshot {
        nodes: nodes.into_iter().chain([bound_to]).map(Arc::new).collect(),
        pending: pending.into_iter().map(Arc::new).collect(),
        pools: vec![Arc::new(pool)],
        ..Snapshot::empty(at(second))
    }
}

/// Looks at one claim and one pod.
fn judge(state: &mut Contradictions, claim: Option<&Claim>, pod: Option<&Pod>, second: i64) -> usize {
    let nodes = claim.map(|claim| node_of(claim, &[])).into_iter().collect();
    state.judge(&world(nodes, pod.cloned().into_iter().collect(), "1", second))
}

fn until(state: &Contradictions, pod: &Pod, second: i64) -> Option<Timestamp> {
    state.held(pod, at(second)).map(|held| held.until)
}

/// A state in which the workload of `web` is held since second 180.
fn held() -> Contradictions {
    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    for second in [60, 120, 180] {
        assert_eq!(judge(&mut state, Some(&up(0)), Some(&pod("web")), second), 1);
    }
    state
}

#[test]
fn after_three_disagreements_the_workload_is_held_and_let_go_again() {
    let mut state = Contradictions::default();
    let web = pod("web");
    state.promised(&"web-1".into(), &web, at(0));
    assert_eq!(judge(&mut state, Some(&claim()), Some(&web), 500), 0, "the node is not up yet");
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 559), 0, "the scheduler has a minute");
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 560), 1);
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 620), 1);
    assert_eq!(until(&state, &web, 620), None);
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 680), 1);
    assert_eq!(until(&state, &web, 680), Some(at(800)));
    assert_eq!(until(&state, &pod("web-of-the-same-shape"), 680), Some(at(800)));
    let other = pod("other").with(|pod| pod.scheduler_name = "other".to_owned());
    assert_eq!(until(&state, &other, 680), None);
    assert_eq!(until(&state, &web, 800), None, "one more try");
    let second = Claim { name: "web-2".into(), ..up(810) };
    state.promised(&second.name, &web, at(800));
    assert_eq!(judge(&mut state, Some(&second), Some(&web), 870), 1);
    assert_eq!(until(&state, &web, 870), Some(at(1110)), "twice as long");
}

fn taint(key: &str) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect: Effect::NoSchedule }
}

/// A machine of this claim with a taint.
fn machine(claim: &Claim, key: &str) -> Node {
    node_of(claim, &[taint(key)])
}

#[test]
fn a_young_machine_with_a_taint_nobody_announced_is_still_expected_to_be_used() {
    let (mut state, web) = (Contradictions::default(), pod("web"));
    let expected = |state: &Contradictions, machine: Option<&Node>, second| {
        state.is_expected(&web, |_| machine, at(second))
    };
    let tainted = |claim: &Claim| machine(claim, "agent-not-ready");
    assert!(!expected(&state, Some(&tainted(&up(0))), 1), "nothing was promised");
    state.promised(&"web-1".into(), &web, at(0));
    assert!(!expected(&state, Some(&tainted(&claim())), 1), "it is not up");
    assert!(expected(&state, Some(&tainted(&up(10))), 69));
    assert!(!expected(&state, Some(&tainted(&up(10))), 70));
    let registered = with_condition(claim(), ConditionType::Registered, ConditionStatus::True, 10);
    assert!(expected(&state, Some(&tainted(&registered)), 69));
    assert!(!expected(&state, Some(&tainted(&registered)), 70), "it may never be initialized");
    assert!(!expected(&state, None, 20), "it is gone");
    let leaving = Node { marked_for_deletion: true, ..tainted(&up(10)) };
    assert!(!expected(&state, Some(&leaving), 20));
    assert!(!expected(&state, Some(&machine(&up(10), "node.kubernetes.io/unschedulable")), 20), "cordoned");
    let announced = Claim { taints: tainted(&up(10)).taints, ..up(10) };
    assert!(!expected(&state, Some(&tainted(&announced)), 20), "it is there to stay");
    let bare = Node { taints: Vec::new(), ..tainted(&up(10)) };
    assert!(!expected(&state, Some(&bare), 20), "what keeps the pod away is no taint");
    let anew = Pod { uid: "another".into(), ..pod("web") };
    assert!(!state.is_expected(&anew, |_| None, at(20)));
}

#[test]
fn the_hold_has_an_upper_bound() {
    let (mut state, web) = (held(), pod("web"));
    let mut now = 180;
    for _ in 0..10 {
        let until = until(&state, &web, now).unwrap();
        assert!(until <= at(now) + HOLD_MAX);
        now = until.as_second() - at(0).as_second();
        let next = Claim { name: format!("web-{now}").as_str().into(), ..up(0) };
        state.promised(&next.name, &web, at(now));
        now += 60;
        assert_eq!(judge(&mut state, Some(&next), Some(&web), now), 1);
    }
    assert_eq!(until(&state, &web, now), Some(at(now) + HOLD_MAX), "it has grown to the bound");
}

#[test]
fn a_bound_pod_settles_the_matter() {
    let mut state = held();
    let bound = Pod { node_name: Some("n".into()), ..pod("another") };
    state.bound(&bound);
    assert_eq!(until(&state, &pod("web"), 181), None);

    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    judge(&mut state, Some(&up(0)), Some(&pod("web")), 60);
    let bound = Pod { node_name: Some("n".into()), ..pod("web") };
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&bound), 120), 0);
    assert!(state.open.is_empty() && state.workloads.is_empty());
}

#[test]
fn one_plan_with_many_nodes_is_one_disagreement() {
    let mut state = Contradictions::default();
    let pods: Vec<Pod> = (0..5).map(|number| pod(&format!("web-{number}"))).collect();
    for (number, pod) in pods.iter().enumerate() {
        state.promised(&format!("claim-{number}").as_str().into(), pod, at(0));
    }
    let nodes: Vec<Claim> = (0..5)
        .map(|second| Claim { name: format!("claim-{second}").as_str().into(), ..up(second) })
        .collect();
    let found: usize = (58..70)
        .map(|second| {
            let nodes = nodes.iter().map(|claim| node_of(claim, &[])).collect();
            state.judge(&world(nodes, pods.clone(), "1", second))
        })
        .sum();
    assert_eq!(found, 1);
}

#[test]
fn a_new_promise_while_the_old_node_is_up_or_gone_unused_counts() {
    let (mut state, web) = (Contradictions::default(), pod("web"));
    state.promised(&"web-1".into(), &web, at(0));
    judge(&mut state, Some(&up(0)), Some(&web), 1);
    state.promised(&"web-2".into(), &web, at(2));
    assert_eq!(state.workloads.values().next().unwrap().strikes, 1, "the node turned out too small");
    let second = Claim { name: "web-2".into(), ..up(40) };
    judge(&mut state, Some(&second), Some(&web), 41);
    assert_eq!(judge(&mut state, None, Some(&web), 50), 1, "removed unused");
    state.promised(&"web-3".into(), &web, at(90));
    assert_eq!(judge(&mut state, None, Some(&web), 91), 0, "never came up: not the scheduler's fault");
}

#[test]
fn pods_that_went_are_forgotten_and_volumes_take_longer() {
    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    assert_eq!(judge(&mut state, Some(&up(0)), None, 100), 0);
    assert!(state.open.is_empty());
    let db = pod("db").with(|pod| pod.volumes = vec![VolumeClaim { name: "data".into() }]);
    state.promised(&"web-1".into(), &db, at(0));
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&db), 599), 0);
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&db), 600), 1);
}

#[test]
fn another_owner_is_another_workload_however_alike_the_pods_are() {
    let of = |owner: &str, name: &str| pod(name).with(|pod| pod.owner_uid = Some(owner.into()));
    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &of("rs-1", "web"), at(0));
    for second in [60, 120, 180] {
        assert_eq!(judge(&mut state, Some(&up(0)), Some(&of("rs-1", "web")), second), 1);
    }
    assert!(state.held(&of("rs-1", "another-replica"), at(181)).is_some());
    assert_eq!(state.held(&of("rs-2", "new-rollout-or-other-deployment"), at(181)), None);
    state.bound(&Pod { node_name: Some("n".into()), ..of("rs-2", "other") });
    assert!(state.held(&of("rs-1", "web"), at(181)).is_some(), "what happens to others settles nothing");
}

/// The state of [`held`], and what stands in the world when its next pass looks.
fn held_beside(node: Node, template: &str, second: i64) -> Contradictions {
    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    let quarantined = node_of(&up(0), &[taint("quarantine")]);
    for second in [60, 120, 180, 190] {
        state.judge(&world(vec![quarantined.clone()], vec![pod("web")], "1", second));
    }
    assert_eq!(until(&state, &pod("web"), 191), Some(at(300)));
    state.judge(&world(vec![node], vec![pod("web")], template, second));
    state
}

#[test]
fn a_hold_ends_when_what_it_rests_on_has_changed() {
    let quarantined = || node_of(&up(0), &[taint("quarantine")]);
    let state = held_beside(quarantined(), "1", 200);
    assert!(state.held(&pod("web"), at(201)).is_some(), "nothing has changed");
    let drifted = with_condition(up(0), ConditionType::Drifted, ConditionStatus::True, 195);
    let more = [taint("quarantine"), taint("karpenter.sh/disrupted")];
    for (what, node, template, ends) in [
        ("the pool has another template", quarantined(), "2", true),
        ("node class or image changed", node_of(&drifted, &[taint("quarantine")]), "1", true),
        ("the taint was taken away", node_of(&up(0), &[]), "1", true),
        ("one more taint", node_of(&up(0), &more), "1", false),
    ] {
        let state = held_beside(node, template, 200);
        assert_eq!(state.held(&pod("web"), at(201)).is_none(), ends, "{what}");
        assert_eq!(state.workloads.is_empty(), ends, "{what}: what was counted is forgotten");
    }
}

/// A state that has been held several times, and the second and claim of its last disagreement.
fn held_for_long() -> (Contradictions, i64, Claim) {
    let (mut state, mut now, mut last) = (held(), 180, up(0));
    for number in 2..5 {
        now = until(&state, &pod("web"), now).unwrap().as_second() - at(0).as_second();
        last = Claim { name: format!("web-{number}").as_str().into(), ..up(0) };
        state.promised(&last.name, &pod("web"), at(now));
        now += 60;
        assert_eq!(judge(&mut state, Some(&last), Some(&pod("web")), now), 1);
    }
    assert_eq!(until(&state, &pod("web"), now), Some(at(now + 16 * 60)));
    (state, now, last)
}

#[test]
fn once_somebody_has_taken_the_nodes_away_the_next_try_is_soon_but_not_at_once() {
    let (mut state, now, _) = held_for_long();
    judge(&mut state, None, Some(&pod("web")), now + 10);
    assert_eq!(until(&state, &pod("web"), now + 11), Some(at(now) + HOLD_MIN));
    assert_eq!(until(&state, &pod("web"), now + 120), None);
}

#[test]
fn that_we_remove_what_is_not_used_is_no_reason_to_buy_it_again() {
    let (mut state, now, last) = held_for_long();
    let empty = with_condition(last, ConditionType::DisruptionReason, ConditionStatus::True, now);
    judge(&mut state, Some(&empty), Some(&pod("web")), now + 10);
    judge(&mut state, None, Some(&pod("web")), now + 20);
    assert_eq!(until(&state, &pod("web"), now + 21), Some(at(now + 16 * 60)));
}

#[test]
fn who_is_held_is_told_the_node_and_what_it_has_that_was_not_announced() {
    let why = |node: Node| {
        let mut state = Contradictions::default();
        state.promised(&"web-1".into(), &pod("web"), at(0));
        for second in [60, 120, 180, 190] {
            state.judge(&world(vec![node.clone()], vec![pod("web")], "1", second));
        }
        let held = state.held(&pod("web"), at(191)).unwrap();
        assert_eq!(held.pool.as_ref().map(PoolName::as_str), Some("web"));
        held.why
    };
    assert_eq!(
        why(node_of(&up(0), &[taint("quarantine")])),
        "node `node-of-web-1` came up and was not used; it has taint `quarantine:NoSchedule`, which was not announced"
    );
    let announced = Claim { taints: vec![taint("quarantine")], ..up(0) };
    assert_eq!(
        why(node_of(&announced, &[taint("quarantine")])),
        "node `node-of-web-1` came up and was not used; although it is what was announced: the events of the \
         scheduler say why"
    );
    let big = Resources::default().with("memory", "8Gi".parse().unwrap());
    let small = Resources::default().with("memory", "7Gi".parse().unwrap());
    let claim = Claim { allocatable: big, ..up(0) };
    assert_eq!(
        why(Node { allocatable: small, ..node_of(&claim, &[]) }),
        "node `node-of-web-1` came up and was not used; it has memory 7Gi instead of 8Gi, which was not announced"
    );
}
