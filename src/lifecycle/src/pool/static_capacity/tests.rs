//! Counting, and the order of going.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_model::{DoNotDisrupt, Pod, PodKey, PodOwner};
use proptest::prelude::*;

use super::*;
use crate::fixture::{at, claim, holding, pool};

fn fixed(replicas: i64) -> Pool {
    Pool { replicas: Some(replicas), ..pool() }
}

fn machine(name: &str) -> Node {
    let claim =
        Claim { name: name.into(), provider_id: Some(format!("cloud:///{name}").as_str().into()), ..claim() };
    Node { claim: Some(Arc::new(claim)), ..Node::new(format!("cloud:///{name}").into(), at(0)) }
}

fn of_claim(node: Node, change: impl FnOnce(&mut Claim)) -> Node {
    let mut claim = (**node.claim.as_ref().expect("has a claim")).clone();
    change(&mut claim);
    Node { claim: Some(Arc::new(claim)), ..node }
}

fn with_pods(node: Node, pods: impl IntoIterator<Item = Pod>) -> Node {
    Node { pods: pods.into_iter().map(Arc::new).collect(), ..node }
}

fn pod(name: &str) -> Pod {
    Pod { node_name: Some("n".into()), ..Pod::pending(PodKey::new("ns", name), name, at(0)) }
}

fn daemon() -> Pod {
    pod("daemon").with(|pod| pod.owner = PodOwner::DaemonSet)
}

fn protected(pod: Pod) -> Pod {
    pod.with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always)
}

fn going(pool: &Pool, nodes: &[Node]) -> Vec<String> {
    let members = Members::of(&pool.name, nodes);
    surplus(pool, &members, at(0)).iter().map(ToString::to_string).collect()
}

#[test]
fn each_machine_counts_once_and_only_for_its_pool() {
    let marked = Node { marked_for_deletion: true, ..machine("marked") };
    let deleting = of_claim(machine("deleting"), |claim| claim.deletion = Some(at(1)));
    let chosen = of_claim(machine("chosen"), |claim| {
        *claim = holding(claim.clone(), &[ConditionType::DisruptionReason]);
    });
    let both = Node { marked_for_deletion: true, ..deleting.clone() };
    let ending = of_claim(machine("ending"), |claim| {
        *claim = holding(claim.clone(), &[ConditionType::InstanceTerminating]);
    });
    let other = of_claim(machine("other"), |claim| claim.pool = Some("other".into()));
    let foreign = Node::new("foreign".into(), at(0));
    let all = [machine("a"), marked, chosen, deleting, both, ending, other, foreign];
    let members = Members::of(&"web".into(), &all);
    assert_eq!((members.active.len(), members.pending, members.deleting), (1, 2, 3));
}

#[test]
fn only_ready_pools_with_a_fixed_number_get_more() {
    let one = [machine("a"), Node { marked_for_deletion: true, ..machine("b") }];
    let members = Members::of(&"web".into(), &one);
    let deleting = Pool { deleting: true, ..fixed(5) };
    let unready = Pool { ready: false, ..fixed(5) };
    let table = [
        (fixed(5), 3),
        (fixed(3), 1),
        (fixed(2), 0),
        (fixed(1), 0),
        (fixed(0), 0),
        (pool(), 0),
        (deleting, 0),
        (unready, 0),
    ];
    for (pool, expected) in table {
        assert_eq!(missing(&pool, &members), expected, "{:?} replicas", pool.replicas);
    }
}

#[test]
fn the_least_missed_go_first() {
    let unlaunched = of_claim(machine("z-unlaunched"), |claim| claim.provider_id = None);
    let costly = pod("costly").with(|pod| pod.deletion_cost = i32::MAX);
    let nodes = [
        with_pods(machine("a-protected"), [protected(pod("p"))]),
        with_pods(machine("b-costly"), [costly]),
        with_pods(machine("c-cheap"), [pod("p"), daemon()]),
        with_pods(machine("d-daemon"), [daemon()]),
        machine("e-bare"),
        with_pods(machine("f-protected-daemon"), [protected(daemon())]),
        unlaunched,
    ];
    let order =
        ["z-unlaunched", "d-daemon", "e-bare", "c-cheap", "b-costly", "a-protected", "f-protected-daemon"];
    for left in 0..=nodes.len() {
        let gone = order.len() - left;
        assert_eq!(going(&fixed(i64::try_from(left).expect("small")), &nodes), order[..gone], "{left} stay");
    }
    assert_eq!(going(&pool(), &nodes), [""; 0], "not a static pool");
    assert_eq!(going(&Pool { deleting: true, ..fixed(0) }, &nodes), [""; 0], "its claims go by themselves");
}

#[test]
fn a_node_that_expires_soon_is_missed_less() {
    let old = of_claim(with_pods(machine("b-old"), [pod("p"), pod("q")]), |claim| {
        claim.expire_after = Some(Duration::from_hours(10));
        claim.created_at = at(-9 * 3600);
    });
    let young = with_pods(machine("a-young"), [pod("p")]);
    assert_eq!(going(&fixed(1), &[old.clone(), young.clone()]), ["b-old"]);
    let overdue = of_claim(old, |claim| claim.created_at = at(-20 * 3600));
    assert_eq!(going(&fixed(1), &[overdue, young]), ["b-old"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_both_steps_the_number_is_right_and_nothing_busy_goes_before_something_empty(
        kinds in proptest::collection::vec(0..5_u8, 0..20),
        replicas in 0..20_i64,
    ) {
        let nodes: Vec<Node> = kinds.iter().enumerate().map(|(number, kind)| {
            let node = machine(&format!("m-{number:02}"));
            match kind {
                0 => node,
                1 => with_pods(node, [pod("p")]),
                2 => Node { marked_for_deletion: true, ..node },
                3 => of_claim(node, |claim| claim.deletion = Some(at(1))),
                _ => of_claim(node, |claim| claim.provider_id = None),
            }
        }).collect();
        let pool = fixed(replicas);
        let members = Members::of(&pool.name, &nodes);
        let more = missing(&pool, &members);
        let less = surplus(&pool, &members, at(0));
        prop_assert!(more == 0 || less.is_empty(), "never both");
        let wanted = usize::try_from(replicas).expect("not negative");
        let stay = members.active.len() - less.len();
        prop_assert!(stay <= wanted);
        prop_assert!(stay + members.pending + more >= wanted);
        let distinct: BTreeSet<_> = less.iter().collect();
        prop_assert_eq!(distinct.len(), less.len());
        let is_busy = |name: &ClaimName| nodes.iter().any(|node| {
            node.claim.as_ref().is_some_and(|claim| claim.name == *name) && !node.pods.is_empty()
        });
        let idle_left = members.active.iter().filter(|node| node.pods.is_empty()).count()
            - less.iter().filter(|name| !is_busy(name)).count();
        prop_assert!(!less.iter().any(is_busy) || idle_left == 0);
    }
}
