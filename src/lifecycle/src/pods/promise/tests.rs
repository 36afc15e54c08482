//! Nodes that turn out to be no use are bought three times at most.

use std::slice::from_ref;
use std::sync::Arc;

use karpenter_model::{
    Claim, ConditionStatus, Daemon, Effect, LabelRegistry, Labels, Launch, Nomination, PodOwner, Pool,
    Quantity, Resources, Settings, Taint, Target, VolumeClaim,
};

use super::record::{HOLD_FIRM, HOLD_MAX, HOLD_MIN};
use super::*;
use crate::fixture::{at, claim, with_condition};

fn pod(name: &str) -> Pod {
    Pod::pending(PodKey::new("ns", name), name, at(0))
}

/// The claim of this name once its condition `kind` is true, with memory of 8Gi announced.
fn reached(name: &str, kind: ConditionType, since: i64) -> Claim {
    let allocatable =
        Resources::default().with("memory", "8Gi".parse().unwrap()).with("pods", Quantity::from_units(110));
    let claim = Claim { name: name.into(), allocatable, ..claim() };
    with_condition(claim, kind, ConditionStatus::True, since)
}

fn up(name: &str, since: i64) -> Claim {
    reached(name, ConditionType::Initialized, since)
}

/// The node of a claim, registered and as announced but for these taints.
fn node_of(claim: &Claim, taints: &[Taint]) -> Node {
    let name = format!("node-of-{}", claim.name);
    let mut labels = claim.labels.clone();
    labels.extend(Labels::from([("karpenter.sh/registered".into(), "true".into())]));
    Node {
        name: Some(name.as_str().into()),
        claim: Some(claim.clone().into()),
        allocatable: claim.allocatable.clone(),
        labels,
        taints: taints.to_vec(),
        ..Node::new(name.as_str().into(), at(0))
    }
}

fn node(claim: &Claim) -> Node {
    node_of(claim, &[])
}

fn taint(key: &str) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect: Effect::NoSchedule }
}

/// A snapshot of these nodes and pods, and the pool `web` with a template of this hash.
fn snapshot(nodes: Vec<Node>, pods: &[Pod], template: &str, second: i64) -> Snapshot {
    let (bound, pending): (Vec<Pod>, Vec<Pod>) =
        pods.iter().cloned().partition(|pod| pod.node_name.is_some());
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

fn look_at(promises: &mut Promises, snapshot: &Snapshot) -> Vec<Ended> {
    promises.judge(snapshot, &World::of(snapshot, |_| None), &[])
}

/// One pass before the plan: what ended.
fn look(promises: &mut Promises, nodes: &[Node], pods: &[Pod], second: i64) -> Vec<Ended> {
    look_at(promises, &snapshot(nodes.to_vec(), pods, "1", second))
}

/// A node of the pool `web` for these pods.
fn node_for(pods: &[&Pod]) -> Launch {
    let pods = pods.iter().map(|pod| pod.key.clone()).collect();
    Launch {
        pods,
        ..Launch::from_template(&Pool::bare("web"), &Settings::default(), &LabelRegistry::default())
    }
}

/// A plan at `second` that launches one node for these pods; returns whether the promises let it.
fn launch(promises: &mut Promises, nodes: &[Node], pods: &[Pod], second: i64) -> (bool, Vec<Ended>) {
    let snapshot = snapshot(nodes.to_vec(), pods, "1", second);
    let plan = Plan { launches: vec![node_for(&pods.iter().collect::<Vec<_>>())], ..Plan::default() };
    let judgement = promises.plan(&plan, &snapshot, &World::of(&snapshot, |_| None));
    (judgement.refused.is_empty(), judgement.ended)
}

fn held(promises: &Promises, pod: &Pod, second: i64) -> Option<Arc<Held>> {
    promises.held(&[Arc::new(pod.clone())], at(second)).remove(&pod.key)
}

fn until(promises: &Promises, pod: &Pod, second: i64) -> Option<Timestamp> {
    held(promises, pod, second)?.until
}

/// Nodes and looks counted for a pod's workload.
fn counted(promises: &Promises, pod: &Pod) -> Option<(u32, u32)> {
    promises.records.get(&Workload::of(pod)).map(|record| (record.nodes, record.looks))
}

/// Buys nodes for `web` one after the other as `came` makes them, until the promises refuse; how many, and when.
fn bought(promises: &mut Promises, came: impl Fn(&str, i64) -> Option<Node>) -> (usize, i64) {
    let web = pod("web");
    let (mut nodes, mut now): (Vec<Node>, i64) = (Vec::new(), 0);
    for number in 1..20 {
        let waits = held(promises, &web, now).is_none();
        if !waits || !launch(promises, &nodes, from_ref(&web), now).0 {
            return (number - 1, now);
        }
        let name = format!("web-{number}");
        promises.make(&name.as_str().into(), &web, at(now));
        let launched = node(&reached(&name, ConditionType::Launched, now));
        look(promises, &[&nodes[..], &[launched]].concat(), from_ref(&web), now + 1);
        now += 40;
        nodes.extend(came(&name, now));
        look(promises, &nodes, from_ref(&web), now);
    }
    (usize::MAX, now)
}

/// Makes the node of the claim of this name at this second, if one comes.
type Came = Box<dyn Fn(&str, i64) -> Option<Node>>;

#[test]
fn three_nodes_are_bought_whatever_is_wrong_with_them_and_whenever_that_shows() {
    let short = |claim: &Claim| Node {
        allocatable: claim.allocatable.clone().with("memory", "7Gi".parse().unwrap()),
        ..node(claim)
    };
    let table: [(&str, Came, &str); 6] = [
        (
            "room, seen at registration (aws#8367)",
            Box::new(move |name, now| Some(short(&reached(name, ConditionType::Registered, now)))),
            "it has memory 7Gi instead of 8Gi, which was not announced",
        ),
        (
            "room, seen at initialization",
            Box::new(move |name, now| Some(short(&up(name, now)))),
            "it has memory 7Gi instead of 8Gi, which was not announced",
        ),
        (
            "a taint that stays",
            Box::new(|name, now| Some(node_of(&up(name, now - 60), &[taint("quarantine")]))),
            "it has taint `quarantine:NoSchedule`, which was not announced",
        ),
        (
            "a label that is missing",
            Box::new(|name, now| Some(Node { labels: Labels::new(), ..node(&up(name, now)) })),
            "it has no label `karpenter.sh/nodepool=web`, which was not announced",
        ),
        (
            "a daemon that was not foreseen (core#2838)",
            Box::new(|name, now| Some(node(&up(name, now)))),
            "came as announced, and does not take the pod",
        ),
        ("instances that end before they join", Box::new(|_, _| None), "came up and was not used"),
    ];
    for (what, came, why) in table {
        let mut promises = Promises::default();
        let (nodes, now) = bought(&mut promises, came);
        assert_eq!(nodes, 3, "{what}");
        let held = held(&promises, &pod("web"), now).expect(what);
        assert!(held.why.contains(why), "{what}: {}", held.why);
        let firm = if what.starts_with("instances") { HOLD_MIN } else { HOLD_FIRM };
        assert!(held.until.is_some_and(|until| until >= at(now) && until <= at(now) + firm), "{what}");
        assert_eq!(held.until.is_some_and(|until| until > at(now) + HOLD_MAX), firm == HOLD_FIRM, "{what}");
    }
}

/// Five pods of one workload, each with a node of the same plan on its way.
fn five_of_one_plan() -> (Promises, Vec<Pod>) {
    let mut promises = Promises::default();
    let pods: Vec<Pod> = (0..5).map(|number| pod(&format!("web-{number}"))).collect();
    for (number, pod) in pods.iter().enumerate() {
        promises.make(&format!("claim-{number}").as_str().into(), pod, at(0));
    }
    (promises, pods)
}

#[test]
fn nodes_of_one_plan_are_all_bought_and_none_after_them() {
    let (mut promises, pods) = five_of_one_plan();
    let nodes: Vec<Node> = (0..5)
        .map(|number| Node { labels: Labels::new(), ..node(&up(&format!("claim-{number}"), 30)) })
        .collect();
    look(&mut promises, &nodes, &pods, 31);
    let (allowed, ended) = launch(&mut promises, &nodes, &pods, 31);
    assert!(!allowed);
    assert_eq!(ended.len(), 5);
    assert!(until(&promises, &pods[0], 31).is_some());
}

#[test]
fn while_a_workload_is_in_doubt_only_as_many_pods_are_planned_for_as_nodes_are_left() {
    let mut promises = Promises::default();
    let waiting: Vec<Arc<Pod>> = (0..5).map(|number| Arc::new(pod(&format!("web-{number}")))).collect();
    promises.make(&"web-1".into(), &waiting[0], at(0));
    let small = Node { allocatable: Resources::default(), ..node(&up("web-1", 20)) };
    look(&mut promises, from_ref(&small), &[pod("web-0")], 21);
    assert!(promises.held(&waiting, at(21)).is_empty(), "nothing is known yet");
    assert!(launch(&mut promises, from_ref(&small), &[pod("web-0")], 21).0);
    let held = promises.held(&waiting, at(22));
    assert_eq!(held.len(), 3, "two nodes are left");
    assert!(held.values().all(|held| held.until.is_none() && held.why.contains("memory 0 instead of 8Gi")));
    let mut reasons = held.values();
    let first = reasons.next().unwrap();
    assert!(reasons.all(|reason| Arc::ptr_eq(reason, first)), "not a list of nodes for each of the pods");
    promises.make(&"web-2".into(), &waiting[0], at(22));
    let held = promises.held(&waiting, at(22));
    assert_eq!(held.len(), 3, "one is on its way for the first pod, one is left");
    assert!(!held.contains_key(&waiting[0].key));
    promises.bound(&Pod { node_name: Some("n".into()), ..pod("web-0") }, at(23));
    assert!(promises.held(&waiting, at(23)).is_empty(), "nodes do serve it");
}

#[test]
fn a_node_that_a_pod_of_the_workload_has_breaks_no_promise_of_another_one() {
    let claim = up("web-1", 20);
    let bound = Pod { node_name: Some("node-of-web-1".into()), ..pod("web-0") };
    let (first, second) = (pod("web-1"), pod("web-2"));
    for (what, taken, broken) in [("none is there", vec![], true), ("one is bound there", vec![bound], false)]
    {
        let mut promises = Promises::default();
        promises.make(&claim.name, &first, at(0));
        let taken = Node { pods: taken.into_iter().map(Arc::new).collect(), ..node(&claim) };
        let snapshot = snapshot(vec![taken], &[first.clone(), second.clone()], "1", 21);
        let plan = Plan { launches: vec![node_for(&[&first])], ..Plan::default() };
        let ended = promises.plan(&plan, &snapshot, &World::of(&snapshot, |_| None)).ended;
        assert_eq!(matches!(ended[0].how, Ending::Broken(_)), broken, "{what}: {ended:?}");
    }
}

#[test]
fn room_that_others_took_breaks_no_promise() {
    let big = |name: &str| {
        pod(name).with(|pod| pod.requests = pod.requests.clone().with("memory", "6Gi".parse().unwrap()))
    };
    let (web, other) = (big("web"), big("other"));
    let claim = up("web-1", 20);
    let taken = |pods: Vec<Pod>| Node { pods: pods.into_iter().map(Arc::new).collect(), ..node(&claim) };
    let bound = Pod { node_name: Some("node-of-web-1".into()), ..other.clone() };
    let daemon = bound.clone().with(|pod| pod.owner = PodOwner::DaemonSet);
    let gives = Nomination { pod: other.key.clone(), target: Target::Node("node-of-web-1".into()) };
    let withdrawn = Ending::Withdrawn("other pods took the room");
    for (what, pods, nominations, expected) in [
        ("a pod is bound", vec![bound], vec![], withdrawn.clone()),
        ("this plan gives it away", vec![], vec![gives], withdrawn),
        (
            "daemons take more than foreseen",
            vec![daemon],
            vec![],
            Ending::Broken("node `node-of-web-1` has daemon pods that ask for memory 6Gi, pods 1".to_owned()),
        ),
    ] {
        let mut promises = Promises::default();
        promises.make(&claim.name, &web, at(0));
        let snapshot = snapshot(vec![taken(pods)], &[web.clone(), other.clone()], "1", 21);
        let plan = Plan { launches: vec![node_for(&[&web])], nominations, ..Plan::default() };
        let world = World::of(&snapshot, |_| None);
        let ended = promises.plan(&plan, &snapshot, &world).ended;
        assert_eq!(ended.first().map(|ended| ended.how.clone()), Some(expected), "{what}");
    }
}

#[test]
fn promises_whose_machine_says_nothing_are_withdrawn() {
    let drifted = with_condition(up("web-1", 10), ConditionType::Drifted, ConditionStatus::True, 15);
    let leaving = Node { marked_for_deletion: true, ..node(&drifted) };
    let unlaunched = Claim { provider_id: None, ..Claim { name: "web-1".into(), ..claim() } };
    let coming = Node { claim: Some(unlaunched.into()), ..Node::new("web-1".into(), at(0)) };
    for node in [leaving, coming] {
        let mut promises = Promises::default();
        promises.make(&"web-1".into(), &pod("web"), at(0));
        let (allowed, ended) = launch(&mut promises, &[node], &[pod("web")], 20);
        assert!(allowed && matches!(ended[0].how, Ending::Withdrawn(_)), "{ended:?}");
        assert_eq!(counted(&promises, &pod("web")), None);
    }
    let mut promises = Promises::default();
    promises.make(&"web-1".into(), &pod("web"), at(0));
    let ended = look(&mut promises, &[], &[pod("web")], 1);
    assert!(matches!(ended[0].how, Ending::Withdrawn(_)), "it was never seen launched: {ended:?}");
}

#[test]
fn after_three_looks_at_a_node_that_is_not_used_the_workload_is_held_and_let_go_again() {
    let (mut promises, web) = (Promises::default(), pod("web"));
    promises.make(&"web-1".into(), &web, at(0));
    let mut at_second = |second, since| {
        look(&mut promises, &[node(&up("web-1", since))], from_ref(&web), second);
        (counted(&promises, &web), until(&promises, &web, second))
    };
    assert_eq!(at_second(559, 500), (None, None), "the scheduler has a minute");
    assert_eq!(at_second(560, 500), (Some((1, 1)), None));
    assert_eq!(at_second(620, 500), (Some((1, 2)), None));
    assert_eq!(at_second(680, 500), (Some((1, 3)), Some(at(800))));
    assert_eq!(until(&promises, &pod("another-replica"), 680), Some(at(800)));
    let other = pod("other").with(|pod| pod.scheduler_name = "other".to_owned());
    assert_eq!(until(&promises, &other, 680), None);
    assert_eq!(held(&promises, &web, 800), None, "one more try");
    promises.make(&"web-2".into(), &web, at(800));
    look(&mut promises, &[node(&up("web-2", 810))], from_ref(&web), 870);
    assert_eq!(until(&promises, &web, 870), Some(at(1110)), "twice as long");
    promises.make(&"web-3".into(), &web, at(1110));
    look(&mut promises, &[node(&up("web-3", 1120))], from_ref(&web), 1180);
    assert_eq!(until(&promises, &web, 1180), Some(at(1180) + HOLD_FIRM), "three nodes were of no use");
}

#[test]
fn unused_nodes_of_one_plan_are_one_look() {
    let (mut promises, pods) = five_of_one_plan();
    let nodes: Vec<Node> = (0..5).map(|second| node(&up(&format!("claim-{second}"), second))).collect();
    for second in 58..70 {
        look(&mut promises, &nodes, &pods, second);
    }
    assert_eq!(counted(&promises, &pods[0]), Some((1, 1)));
}

#[test]
fn a_scheduler_that_binds_promised_pods_is_behind_and_refuses_nothing() {
    let mut promises = Promises::default();
    let web = pod("web");
    promises.make(&"web-1".into(), &web, at(0));
    let mut burst = (0..).map(|number| pod(&format!("burst-{number}")));
    let mut counted_at = |second, binds: bool| {
        if let Some(other) = burst.next().filter(|_| binds) {
            promises.make(&"web-1".into(), &other, at(0));
            promises.bound(&Pod { node_name: Some("node-of-web-1".into()), ..other }, at(second));
        }
        look(&mut promises, &[node(&up("web-1", 0))], from_ref(&web), second);
        counted(&promises, &web)
    };
    for second in (50..600).step_by(50) {
        assert_eq!(counted_at(second, true), None, "{second}");
    }
    assert_eq!(counted_at(600, true), Some((1, 1)), "ten minutes are enough for any burst");
    let mut promises = Promises::default();
    promises.make(&"web-1".into(), &web, at(0));
    promises.bound(&Pod { node_name: Some("n".into()), ..pod("stranger") }, at(59));
    look(&mut promises, &[node(&up("web-1", 0))], from_ref(&web), 60);
    assert_eq!(counted(&promises, &web), Some((1, 1)), "a pod that was promised nothing may have passed it");
}

#[test]
fn once_the_scheduler_binds_no_more_an_unused_node_counts_a_minute_later() {
    let mut promises = Promises::default();
    let (web, other) = (pod("web"), pod("other"));
    for pod in [&web, &other] {
        promises.make(&"web-1".into(), pod, at(0));
    }
    promises.bound(&Pod { node_name: Some("node-of-web-1".into()), ..other }, at(55));
    for (second, expected) in [(60, None), (114, None), (115, Some((1, 1)))] {
        look(&mut promises, &[node(&up("web-1", 0))], from_ref(&web), second);
        assert_eq!(counted(&promises, &web), expected, "{second}");
    }
}

#[test]
fn a_bound_pod_settles_the_matter() {
    let mut promises = held_state();
    promises.bound(&Pod { node_name: Some("n".into()), ..pod("another") }, at(181));
    assert_eq!(held(&promises, &pod("web"), 181), None);

    let mut promises = Promises::default();
    promises.make(&"web-1".into(), &pod("web"), at(0));
    look(&mut promises, &[node(&up("web-1", 0))], &[pod("web")], 60);
    let bound = Pod { node_name: Some("n".into()), ..pod("web") };
    let ended = look(&mut promises, &[node(&up("web-1", 0))], &[bound], 120);
    assert_eq!(ended[0].how, Ending::Kept);
    assert!(promises.open.is_empty() && promises.records.is_empty());
}

/// A state in which the workload of `web` is held since second 180, because of a taint.
fn held_state() -> Promises {
    let mut promises = Promises::default();
    promises.make(&"web-1".into(), &pod("web"), at(0));
    for second in [60, 120, 180] {
        look(&mut promises, &[node_of(&up("web-1", 0), &[taint("quarantine")])], &[pod("web")], second);
    }
    assert_eq!(until(&promises, &pod("web"), 181), Some(at(300)));
    promises
}

#[test]
fn a_young_machine_with_an_unannounced_taint_is_still_expected_to_be_used() {
    let web = pod("web");
    let tainted = |claim: &Claim| node_of(claim, &[taint("agent-not-ready")]);
    let expected = |machine: Option<Node>, second| {
        let mut promises = Promises::default();
        promises.make(&"web-1".into(), &web, at(0));
        let machines: Vec<Node> = machine.into_iter().collect();
        !launch(&mut promises, &machines, from_ref(&web), second).0
    };
    let registered = |since| reached("web-1", ConditionType::Registered, since);
    let leaving = Node { marked_for_deletion: true, ..tainted(&up("web-1", 10)) };
    let cordoned = node_of(&up("web-1", 10), &[taint("node.kubernetes.io/unschedulable")]);
    let announced = Claim { taints: vec![taint("agent-not-ready")], ..up("web-1", 10) };
    for (what, machine, second, is_expected) in [
        ("it is not up", Some(tainted(&reached("web-1", ConditionType::Launched, 0))), 1, false),
        ("it is young", Some(tainted(&up("web-1", 10))), 69, true),
        ("it has had its time", Some(tainted(&up("web-1", 10))), 70, false),
        ("it has just joined", Some(tainted(&registered(10))), 69, true),
        ("it may never be initialized", Some(tainted(&registered(10))), 70, false),
        ("it is gone", None, 20, false),
        ("it is being removed", Some(leaving), 20, false),
        ("a person keeps pods off", Some(cordoned), 20, false),
        ("the taint is there to stay", Some(tainted(&announced)), 20, false),
        ("it is no taint that keeps the pod away", Some(node(&up("web-1", 10))), 20, false),
    ] {
        assert_eq!(expected(machine, second), is_expected, "{what}");
    }
}

fn launched(claim: Claim) -> Claim {
    Claim { provider_id: Some("i-1".into()), ..claim }
}

/// Others took the room of `web`, and another node is still coming.
#[test]
fn what_is_left_over_waits_for_the_last_nodes_and_no_longer() {
    let (web, other) = (pod("web"), pod("other"));
    let coming = launched(reached("b", ConditionType::Launched, 90));
    let table = [
        (103, coming.clone(), false),
        (103, launched(up("b", 102)), true),
        (109, coming.clone(), false),
        (110, coming, true),
    ];
    for (second, last, expected) in table {
        let mut promises = Promises::default();
        promises.make(&"a".into(), &web, at(90));
        promises.make(&"b".into(), &other, at(90));
        let nodes = [node(&launched(up("a", 100))), node(&last)];
        let (launches, _) = launch(&mut promises, &nodes, from_ref(&web), second);
        assert_eq!(launches, expected, "{second}, {:?}", last.conditions.keys());
    }
}

/// While the scheduler binds, no other plan is made for pods that it may yet bind where they were promised a place.
#[test]
fn pods_may_be_kept_beside_nodes_that_are_coming_or_have_come_a_moment_ago() {
    let (web, late, other) = (pod("web"), pod("late"), pod("other"));
    let mut promises = Promises::default();
    promises.make(&"a".into(), &web, at(90));
    promises.make(&"b".into(), &late, at(90));
    let nodes = [node(&launched(up("a", 100))), node(&launched(reached("b", ConditionType::Launched, 90)))];
    let table: [(i64, Vec<&Pod>, bool); 5] = [
        (103, vec![&web, &late], true),
        (110, vec![&web, &late], false),
        (110, vec![&late], true),
        (103, vec![&web, &other], false),
        (103, vec![], false),
    ];
    for (second, waiting, expected) in table {
        let waiting: Vec<Pod> = waiting.into_iter().cloned().collect();
        let snapshot = snapshot(nodes.to_vec(), &waiting, "1", second);
        let kept = promises.may_all_be_kept(&snapshot.pending, &World::of(&snapshot, |_| None), snapshot.now);
        assert_eq!(kept, expected, "{second}, {} pods", waiting.len());
    }
}

#[test]
fn pods_that_went_are_forgotten_and_volumes_take_longer() {
    let mut promises = Promises::default();
    promises.make(&"web-1".into(), &pod("web"), at(0));
    let ended = look(&mut promises, &[node(&up("web-1", 0))], &[], 100);
    assert_eq!(ended[0].how, Ending::Withdrawn("the pod is gone"));
    let db = pod("db").with(|pod| pod.volumes = vec![VolumeClaim { name: "data".into() }]);
    promises.make(&"web-1".into(), &db, at(0));
    for (second, expected) in [(599, None), (600, Some((1, 1)))] {
        look(&mut promises, &[node(&up("web-1", 0))], from_ref(&db), second);
        assert_eq!(counted(&promises, &db), expected);
    }
}

#[test]
fn another_rollout_is_another_workload_and_another_run_of_a_job_is_not() {
    use karpenter_model::PodOwner::{Job, Other, ReplicaSet};
    let of = |owner, uid: &str| pod(uid).with(|pod| (pod.owner, pod.owner_uid) = (owner, Some(uid.into())));
    for (owner, same) in [(ReplicaSet, false), (Job, true), (Other, true)] {
        assert_eq!(Workload::of(&of(owner, "one")) == Workload::of(&of(owner, "two")), same, "{owner:?}");
    }
    let mut named = of(ReplicaSet, "one");
    named.key = PodKey::new("ns", "another-replica");
    assert_eq!(Workload::of(&named), Workload::of(&of(ReplicaSet, "one")));
}

#[test]
fn a_hold_ends_when_what_it_rests_on_has_changed() {
    let quarantined = || node_of(&up("web-1", 0), &[taint("quarantine")]);
    let drifted = with_condition(up("web-1", 0), ConditionType::Drifted, ConditionStatus::True, 195);
    let more = [taint("quarantine"), taint("karpenter.sh/disrupted")];
    let daemon = Daemon { namespace: "ns".into(), name: "agent".into(), pod: pod("agent") };
    for (what, nodes, template, daemons, ends) in [
        ("nothing", vec![quarantined()], "1", vec![], false),
        ("the pool has another template", vec![quarantined()], "2", vec![], true),
        ("node class or image changed", vec![node_of(&drifted, &[taint("quarantine")])], "1", vec![], true),
        ("the taint was taken away", vec![node(&up("web-1", 0))], "1", vec![], true),
        ("one more taint", vec![node_of(&up("web-1", 0), &more)], "1", vec![], false),
        ("a daemon set more", vec![quarantined()], "1", vec![Arc::new(daemon)], true),
        ("a younger node came as announced", vec![quarantined(), node(&up("api", 190))], "1", vec![], true),
        ("an older one did", vec![quarantined(), node(&up("api", 100))], "1", vec![], false),
    ] {
        let mut promises = held_state();
        let mut changed = snapshot(nodes, &[pod("web")], template, 200);
        changed.daemons = daemons;
        look_at(&mut promises, &changed);
        assert_eq!(held(&promises, &pod("web"), 201).is_none(), ends, "{what}");
        assert_eq!(promises.records.is_empty(), ends, "{what}: what was counted is forgotten");
    }
    let mut promises = held_state();
    promises.forget(&"other".into());
    assert!(held(&promises, &pod("web"), 200).is_some());
    promises.forget(&"web".into());
    assert!(held(&promises, &pod("web"), 200).is_none(), "a person says so");
}

/// A daemon set is read off its newest pod, so that each node that joins brings another one.
#[test]
fn a_daemon_set_is_the_same_whichever_pod_it_is_read_off() {
    let asks = |pod: Pod| {
        let daemon = Daemon { namespace: "ns".into(), name: "agent".into(), pod };
        let snapshot = Snapshot { daemons: vec![Arc::new(daemon)], ..snapshot(vec![], &[], "1", 0) };
        World::of(&snapshot, |_| None).daemons().clone()
    };
    assert_eq!(asks(pod("agent-one")), asks(pod("agent-two")));
    let larger = pod("agent-two").with(|pod| pod.requests = Resources::new().with("cpu", Quantity::ONE));
    assert_ne!(asks(pod("agent-one")), asks(larger));
}

#[test]
fn who_took_the_nodes_away_decides_about_the_next_try() {
    let late = |removed_by_us: bool| {
        let (mut promises, mut now) = (Promises::default(), 0);
        for number in 1..3 {
            let name = format!("web-{number}");
            promises.make(&name.as_str().into(), &pod("web"), at(now));
            for _ in 0..3 {
                now += 60;
                look(&mut promises, &[node(&up(&name, now - 60))], &[pod("web")], now);
            }
            now += 1_000;
        }
        let last = up("web-2", 0);
        let last = if removed_by_us {
            with_condition(last, ConditionType::DisruptionReason, ConditionStatus::True, now)
        } else {
            last
        };
        promises.records.values_mut().for_each(|record| record.until = Some(at(now + 3_000)));
        look(&mut promises, &[node(&last)], &[pod("web")], now + 10);
        look(&mut promises, &[], &[pod("web")], now + 20);
        until(&promises, &pod("web"), now - 1_000) == Some(at(now + 3_000))
    };
    assert!(late(true), "that this controller removes what is not used is no reason to buy it again");
    assert!(!late(false));
}

// The simulated history 7000259: every node lacked a device that no pod asks for, which made all that went wrong final.
#[test]
fn a_device_that_is_not_there_counts_where_the_claim_asks_for_it() {
    let device = "vpc.amazonaws.com/pod-eni";
    let broken = |asked: Resources| {
        let announced = up("web-1", 0);
        let allocatable = announced.allocatable.clone().with(device, Quantity::from_units(18));
        let came = Node {
            allocatable: announced.allocatable.clone(),
            ..node(&Claim { allocatable, requests: asked, ..announced })
        };
        let mut promises = Promises::default();
        promises.make(&"web-1".into(), &pod("web"), at(0));
        look(&mut promises, &[came], &[pod("web")], 60);
        promises.records.values().map(Record::text).collect::<Vec<_>>().concat()
    };
    let text = broken(Resources::new().with(device, Quantity::from_units(1)));
    assert!(text.contains("vpc.amazonaws.com/pod-eni 0 instead of 18"), "{text}");
    let text = broken(Resources::new().with("cpu", Quantity::from_units(1)));
    assert!(text.contains("it is what was announced"), "{text}");
}

#[test]
fn a_node_is_counted_once_over_a_change_of_leader() {
    let web = pod("web");
    let short = Node { allocatable: Resources::new(), ..node(&up("web-1", 0)) };
    let mut before = Promises::default();
    before.make(&"web-1".into(), &web, at(10));
    launch(&mut before, from_ref(&short), from_ref(&web), 40);
    assert_eq!(counted(&before, &web), Some((1, 0)));
    let mut after = Promises::default();
    let at_start = snapshot(vec![short.clone()], from_ref(&web), "1", 110);
    after.restore(before.saved(), |_| vec![Workload::of(&web)], &at_start, &World::of(&at_start, |_| None));
    look(&mut after, from_ref(&short), from_ref(&web), 300);
    assert_eq!(counted(&after, &web), Some((1, 0)));
    assert_eq!(after.records[&Workload::of(&web)].claims(), ["web-1".into()].into());
}

#[test]
fn what_was_counted_and_promised_survives_a_change_of_leader() {
    let web = pod("web");
    let short = |name: &str| Node { allocatable: Resources::new(), ..node(&up(name, 0)) };
    // Two nodes are counted by one leader, a third one is on its way for the pod.
    let mut before = Promises::default();
    for (number, second) in [(1, 10), (2, 60)] {
        let name = format!("web-{number}");
        before.make(&name.as_str().into(), &web, at(second));
        launch(&mut before, &[short(&name)], from_ref(&web), second + 30);
    }
    let text = format!("{:?}", before.saved());
    assert!(text.contains("nodes: 2"), "{text}");
    let mut after = Promises::default();
    let third = node(&reached("web-3", ConditionType::Launched, 100));
    let at_start = snapshot(vec![third], from_ref(&web), "1", 110);
    after.restore(before.saved(), |_| vec![Workload::of(&web)], &at_start, &World::of(&at_start, |_| None));
    assert_eq!(held(&after, &web, 110), None, "its node is on its way");
    assert!(held(&after, &pod("another"), 110).is_some(), "no further node is");
    look(&mut after, &[short("web-3")], from_ref(&web), 140);
    assert!(!launch(&mut after, &[short("web-3")], from_ref(&web), 140).0);
    assert_eq!(until(&after, &web, 141), Some(at(140) + HOLD_FIRM));
    // A leader that starts while the workload is held holds it too.
    let mut third_leader = Promises::default();
    let empty = snapshot(vec![], &[], "1", 200);
    third_leader.restore(after.saved(), |_| Vec::new(), &empty, &World::of(&empty, |_| None));
    look(&mut third_leader, &[], from_ref(&web), 200);
    assert_eq!(until(&third_leader, &web, 200), Some(at(140) + HOLD_FIRM));
    assert!(held(&third_leader, &web, 200).is_some_and(|held| held.why.contains("memory 0 instead of 8Gi")));
}
