//! Group order, pods that are never evicted, and deletions ahead of a deadline.

use karpenter_model::{
    DoNotDisrupt, Effect as TaintEffect, PodKey, PodOwner, PodPhase, Toleration, TolerationOperator,
};

use proptest::prelude::*;

use super::*;
use crate::fixture::at;

fn pod(name: &str) -> Pod {
    let mut pod = Pod::pending(PodKey::new("ns", name), name, at(0));
    pod.node_name = Some("node-1".into());
    pod.phase = PodPhase::Running;
    pod
}

fn tolerating(key: &str, operator: TolerationOperator) -> Pod {
    let effect = Some(TaintEffect::NoSchedule);
    pod("t").with(|pod| {
        pod.tolerations = vec![Toleration { key: key.into(), operator, value: String::new(), effect }];
    })
}

fn evicted(drain: &Drain) -> Vec<&str> {
    let names = drain.effects.iter().filter_map(|effect| match effect {
        Effect::Evict(pod) => Some(pod.key.name.as_str()),
        _ => None,
    });
    names.collect()
}

fn deleted(drain: &Drain) -> Vec<(&str, u32)> {
    let names = drain.effects.iter().filter_map(|effect| match effect {
        Effect::DeletePod(pod, grace) => Some((pod.key.name.as_str(), *grace)),
        _ => None,
    });
    names.collect()
}

#[test]
fn large_pods_are_evicted_first() {
    let asking = |name: &str, cpu: &str, memory: &str| {
        pod(name).with(|pod| {
            for (resource, amount) in [("cpu", cpu), ("memory", memory)] {
                pod.requests.set(resource, amount.parse().expect("a quantity"));
            }
        })
    };
    let pods = [
        asking("a", "100m", "1Gi"),
        asking("b", "2", "1Gi"),
        asking("c", "2", "4Gi"),
        asking("d", "100m", "1Gi"),
        pod("e"),
    ];
    assert_eq!(evicted(&drain(&pods, None, at(10))), ["c", "b", "a", "d", "e"]);
}

#[test]
fn four_groups_leave_one_after_the_other() {
    let daemon = |pod: Pod| pod.with(|pod| pod.owner = PodOwner::DaemonSet);
    let critical = |pod: Pod| pod.with(|pod| pod.critical = true);
    let mut pods = vec![
        critical(daemon(pod("d-critical"))),
        critical(pod("c-critical")),
        daemon(pod("b-daemon")),
        pod("a-web"),
        pod("a-alone").with(|pod| {
            pod.owner = PodOwner::None;
            pod.priority = Some(2_000_000_000);
        }),
    ];
    let expected =
        [vec!["a-alone", "a-web"], vec!["b-daemon"], vec!["c-critical"], vec!["d-critical"], vec![]];
    for group in expected {
        let drain = drain(&pods, None, at(10));
        assert_eq!(drain.waiting, pods.len());
        assert_eq!(evicted(&drain), group);
        // A terminating member keeps the later groups waiting, and is not evicted again.
        if let Some(first) = group.first() {
            let leaving = pods.iter_mut().find(|pod| pod.key.name == *first).expect("a member");
            leaving.deletion = Some(at(10));
            let later = super::drain(&pods, None, at(10));
            assert_eq!(evicted(&later), group[1..]);
        }
        pods.retain(|pod| !group.contains(&pod.key.name.as_str()));
    }
}

#[test]
fn some_pods_neither_leave_nor_hold_up() {
    let table = [
        tolerating(karpenter_model::names::taint::DISRUPTED, TolerationOperator::Exists),
        tolerating(karpenter_model::names::taint::DISRUPTED, TolerationOperator::Equal),
        pod("mirror").with(|pod| pod.owner = PodOwner::Mirror),
        Pod { phase: PodPhase::Succeeded, ..pod("done") },
        Pod { phase: PodPhase::Failed, ..pod("failed") },
        Pod { deletion: Some(at(-51)), ..pod("stuck") },
    ];
    for one in table {
        assert_eq!(drain([&one], None, at(10)), Drain::default(), "{:?}", one.key);
    }
}

#[test]
fn tolerating_only_unschedulable_does_not_protect() {
    let pod = tolerating("node.kubernetes.io/unschedulable", TolerationOperator::Exists);
    assert_eq!(evicted(&drain([&pod], None, at(10))), ["t"]);
}

#[test]
fn a_protected_pod_holds_up_its_own_and_later_groups() {
    let protected = pod("protected").with(|pod| pod.do_not_disrupt = DoNotDisrupt::Always);
    let critical = pod("critical").with(|pod| pod.critical = true);
    let drain = drain([&protected, &critical], None, at(10));
    assert_eq!((evicted(&drain), drain.waiting), (vec![], 2));
}

#[test]
fn a_terminating_pod_is_stuck_one_minute_after_its_deletion_time() {
    let going = Pod { deletion: Some(at(0)), ..pod("going") };
    assert_eq!(drain([&going], None, at(60)).waiting, 1);
    assert_eq!(drain([&going], None, at(61)).waiting, 0);
}

#[test]
fn pods_are_deleted_early_enough_to_get_their_own_grace() {
    let with = |name: &str, grace: u64| {
        pod(name).with(|pod| {
            pod.do_not_disrupt = DoNotDisrupt::Always;
            pod.grace_period = Some(Duration::from_secs(grace));
        })
    };
    let pods = [with("long", 300), with("short", 60)];
    let deadline = Some(at(300));
    assert_eq!(deleted(&drain(&pods, deadline, at(1))), [("long", 299)]);
    assert_eq!(deleted(&drain(&pods, deadline, at(240))), [("long", 60)]);
    assert_eq!(deleted(&drain(&pods, deadline, at(241))), [("long", 59), ("short", 59)]);
    assert_eq!(deleted(&drain(&pods, None, at(241))), []);
}

#[test]
fn a_deadline_in_the_past_leaves_one_second_and_never_none() {
    let pod = pod("late").with(|pod| pod.grace_period = Some(Duration::from_secs(30)));
    for now in [300, 301, 5000] {
        assert_eq!(deleted(&drain([&pod], Some(at(300)), at(now))), [("late", 1)], "at {now}");
    }
}

#[test]
fn a_terminating_pod_is_deleted_again_only_if_it_overshoots_the_deadline() {
    let going = |until| {
        pod("g").with(|pod| {
            pod.deletion = Some(at(until));
            pod.grace_period = Some(Duration::from_mins(10));
        })
    };
    assert_eq!(deleted(&drain([&going(500)], Some(at(300)), at(200))), [("g", 100)]);
    assert_eq!(deleted(&drain([&going(300)], Some(at(300)), at(200))), []);
}

#[test]
fn a_pod_without_grace_period_is_left_to_eviction() {
    let drain = drain([&pod("plain")], Some(at(300)), at(299));
    assert_eq!((deleted(&drain), evicted(&drain)), (vec![], vec!["plain"]));
}

#[test]
fn a_deleted_pod_is_told_and_not_evicted_too() {
    let pod = pod("web").with(|pod| pod.grace_period = Some(Duration::from_secs(30)));
    let drain = drain([&pod], Some(at(300)), at(290));
    let [Effect::DeletePod(_, 10), Effect::Event(event)] = &drain.effects[..] else { panic!("{drain:?}") };
    assert_eq!(event.reason, "Disrupted");
    assert_eq!(
        event.message,
        "Deleting the pod to accommodate the terminationTime 2027-01-15T08:05:00Z of the node. The pod was granted 10 \
         seconds of grace-period of its 30 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the \
         do-not-disrupt annotation."
    );
}

#[test]
fn deadline_deletions_reach_every_group_at_once() {
    let mut pods = [pod("web"), pod("critical").with(|pod| pod.critical = true)];
    for pod in &mut pods {
        pod.grace_period = Some(Duration::from_secs(30));
    }
    let drain = drain(&pods, Some(at(300)), at(280));
    assert_eq!(deleted(&drain), [("critical", 20), ("web", 20)]);
}

#[test]
fn an_unreadable_protection_is_told_and_does_not_protect() {
    let pod = pod("web").with(|pod| pod.do_not_disrupt = DoNotDisrupt::Invalid("yes".to_owned()));
    let drain = drain([&pod], None, at(10));
    assert!(
        matches!(&drain.effects[0], Effect::Event(event) if event.reason == "InvalidDoNotDisruptAnnotation"),
        "{drain:?}"
    );
    assert_eq!(evicted(&drain), ["web"]);
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, proptest::option::of(0..200_u64), proptest::option::of(-100..300_i64), 0..1000_u32).prop_map(
        |((critical, daemon, mirror, protected, tolerates), grace, deletion, name)| {
            pod(&format!("p{name}")).with(|pod| {
                pod.critical = critical;
                pod.owner = match (daemon, mirror) {
                    (_, true) => PodOwner::Mirror,
                    (true, false) => PodOwner::DaemonSet,
                    (false, false) => PodOwner::ReplicaSet,
                };
                pod.do_not_disrupt = if protected { DoNotDisrupt::Always } else { DoNotDisrupt::No };
                pod.tolerations = if tolerates { vec![Toleration::everything()] } else { Vec::new() };
                pod.grace_period = grace.map(Duration::from_secs);
                pod.deletion = deletion.map(at);
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_drain_never_breaks_its_promises(
        mut pods in proptest::collection::vec(any_pod(), 0..12),
        deadline in proptest::option::of(0..200_i64),
    ) {
        pods.sort_by(|left, right| left.key.cmp(&right.key));
        pods.dedup_by(|left, right| left.key == right.key);
        let drain = drain(&pods, deadline.map(at), at(100));
        let named = |name: &str| pods.iter().find(|pod| pod.key.name == name).expect("one of the pods");
        let mut groups = std::collections::BTreeSet::new();
        for name in evicted(&drain) {
            let pod = named(name);
            prop_assert!(pod.is_evictable(at(100)), "{pod:?}");
            groups.insert((pod.critical, pod.is_daemon()));
        }
        prop_assert!(groups.len() <= 1, "one group at a time");
        for (name, grace) in deleted(&drain) {
            let pod = named(name);
            prop_assert!(deadline.is_some() && grace >= 1 && !pod.is_mirror() && !pod.tolerates_disruption());
            prop_assert!(!evicted(&drain).contains(&name));
        }
        prop_assert_eq!(drain.waiting, pods.iter().filter(|pod| pod.is_waiting_eviction(at(100))).count());
        pods.reverse();
        prop_assert_eq!(super::drain(&pods, deadline.map(at), at(100)), drain, "whatever the order");
    }
}
