//! A node that is not used three times is not bought a fourth time at once.

use karpenter_model::{ConditionStatus, Effect, VolumeClaim};

use super::*;
use crate::fixture::{at, claim, with_condition};

fn pod(name: &str) -> Pod {
    Pod::pending(PodKey::new("ns", name), name, at(0))
}

fn up(since: i64) -> Claim {
    with_condition(claim(), ConditionType::Initialized, ConditionStatus::True, since)
}

/// Looks at one claim and one pod.
fn judge(state: &mut Contradictions, claim: Option<&Claim>, pod: Option<&Pod>, second: i64) -> usize {
    state.judge(|_| claim, |_| pod, at(second))
}

/// A state in which the class of `web` is held since second 180.
fn held() -> Contradictions {
    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    for second in [60, 120, 180] {
        assert_eq!(judge(&mut state, Some(&up(0)), Some(&pod("web")), second), 1);
    }
    state
}

#[test]
fn after_three_disagreements_the_class_is_held_and_let_go_again() {
    let mut state = Contradictions::default();
    let web = pod("web");
    state.promised(&"web-1".into(), &web, at(0));
    assert_eq!(judge(&mut state, Some(&claim()), Some(&web), 500), 0, "the node is not up yet");
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 559), 0, "the scheduler has a minute");
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 560), 1);
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 620), 1);
    assert_eq!(state.held(&web, at(620)), None);
    assert_eq!(judge(&mut state, Some(&up(500)), Some(&web), 680), 1);
    assert_eq!(state.held(&web, at(680)), Some(at(980)));
    assert_eq!(state.held(&pod("web-of-the-same-shape"), at(680)), Some(at(980)));
    let other = Pod { scheduler_name: "other".to_owned(), ..pod("other") };
    assert_eq!(state.held(&other, at(680)), None);
    assert_eq!(state.held(&web, at(980)), None, "one more try");
    state.promised(&"web-2".into(), &web, at(980));
    assert_eq!(judge(&mut state, Some(&up(990)), Some(&web), 1050), 1);
    assert_eq!(state.held(&web, at(1050)), Some(at(1650)), "twice as long");
}

/// A machine of this claim with a taint.
fn machine(claim: Claim, key: &str) -> Node {
    let taint = Taint { key: key.to_owned(), value: String::new(), effect: Effect::NoSchedule };
    let labels = [("karpenter.sh/registered".into(), "true".into())].into();
    let node = Node::new("web-1".into(), at(0));
    Node { name: Some("n".into()), claim: Some(claim.into()), labels, taints: vec![taint], ..node }
}

#[test]
fn a_young_machine_with_a_taint_nobody_announced_is_still_expected_to_be_used() {
    let (mut state, web) = (Contradictions::default(), pod("web"));
    let expected = |state: &Contradictions, machine: Option<&Node>, second| {
        state.is_expected(&web, |_| machine, at(second))
    };
    let tainted = |claim| machine(claim, "agent-not-ready");
    assert!(!expected(&state, Some(&tainted(up(0))), 1), "nothing was promised");
    state.promised(&"web-1".into(), &web, at(0));
    assert!(!expected(&state, Some(&tainted(claim())), 1), "it is not up");
    assert!(expected(&state, Some(&tainted(up(10))), 69));
    assert!(!expected(&state, Some(&tainted(up(10))), 70));
    let registered = with_condition(claim(), ConditionType::Registered, ConditionStatus::True, 10);
    assert!(expected(&state, Some(&tainted(registered.clone())), 69));
    assert!(!expected(&state, Some(&tainted(registered)), 70), "it may never be initialized");
    assert!(!expected(&state, None, 20), "it is gone");
    let leaving = Node { marked_for_deletion: true, ..tainted(up(10)) };
    assert!(!expected(&state, Some(&leaving), 20));
    assert!(!expected(&state, Some(&machine(up(10), "node.kubernetes.io/unschedulable")), 20), "cordoned");
    let announced = Claim { taints: tainted(up(10)).taints, ..up(10) };
    assert!(!expected(&state, Some(&tainted(announced)), 20), "it is there to stay");
    let bare = Node { taints: Vec::new(), ..tainted(up(10)) };
    assert!(!expected(&state, Some(&bare), 20), "what keeps the pod away is no taint");
    let anew = Pod { uid: "another".into(), ..pod("web") };
    assert!(!state.is_expected(&anew, |_| None, at(20)));
}

#[test]
fn the_hold_has_an_upper_bound() {
    let (mut state, web) = (held(), pod("web"));
    let mut now = 180;
    for _ in 0..10 {
        let until = state.held(&web, at(now)).unwrap();
        assert!(until <= at(now) + HOLD_MAX);
        now = until.as_second() - at(0).as_second();
        state.promised(&format!("web-{now}").as_str().into(), &web, at(now));
        now += 60;
        assert_eq!(judge(&mut state, Some(&up(0)), Some(&web), now), 1);
    }
}

#[test]
fn a_bound_pod_settles_the_matter() {
    let mut state = held();
    let bound = Pod { node_name: Some("n".into()), ..pod("another") };
    state.bound(&bound);
    assert_eq!(state.held(&pod("web"), at(181)), None);

    let mut state = Contradictions::default();
    state.promised(&"web-1".into(), &pod("web"), at(0));
    judge(&mut state, Some(&up(0)), Some(&pod("web")), 60);
    let bound = Pod { node_name: Some("n".into()), ..pod("web") };
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&bound), 120), 0);
    assert!(state.open.is_empty() && state.classes.is_empty());
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
            state.judge(
                |name| nodes.iter().find(|node| node.name == *name),
                |key| pods.iter().find(|pod| pod.key == *key),
                at(second),
            )
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
    assert_eq!(state.classes.values().next().unwrap().strikes, 1, "the node turned out too small");
    judge(&mut state, Some(&up(40)), Some(&web), 41);
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
    let db = Pod { volumes: vec![VolumeClaim { name: "data".into() }], ..pod("db") };
    state.promised(&"web-1".into(), &db, at(0));
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&db), 599), 0);
    assert_eq!(judge(&mut state, Some(&up(0)), Some(&db), 600), 1);
}
