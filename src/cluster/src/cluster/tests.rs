//! The same changes applied to the index in every order, and each rule of the merged views.

mod buffers;
mod orders;
mod promises;
mod slices;

use std::rc::Rc;
use std::time::Duration;

use karpenter_model::names::label;
use karpenter_model::pod::volume::resolve::{NO_PROVISIONER, Source};
use karpenter_model::{ConditionType, Labels, PodPhase, Quantity, Target, Tie};

use super::*;
use crate::store::Version;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

fn cluster() -> Cluster {
    Cluster::new(Arc::default(), Arc::default())
}

fn cpu(units: i64) -> Resources {
    Resources::new().with("cpu", Quantity::from_units(units))
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    let mut pod = Pod::pending(PodKey::new("ns", name), name, at(0));
    pod.node_name = node.map(NodeName::from);
    pod.unschedulable = node.is_none();
    pod
}

/// A launched claim of pool `web`, promising 4 cpu; its provider id ends like its name.
fn claim(name: &str) -> Claim {
    Claim {
        pool: Some("web".into()),
        labels: Labels::from([(label::NODE_POOL.into(), "web".into())]),
        requests: cpu(1),
        provider_id: Some(format!("cloud:///{name}").into()),
        capacity: cpu(4),
        allocatable: cpu(4),
        ..Claim::bare(name, at(0))
    }
}

fn unlaunched(name: &str) -> Claim {
    Claim { provider_id: None, capacity: Resources::new(), allocatable: Resources::new(), ..claim(name) }
}

fn terminating(claim: Claim) -> Claim {
    claim.holding(&[ConditionType::InstanceTerminating], at(0))
}

/// The Node of [`claim`], with 3 cpu; initialized or not.
fn node(name: &str, claim: &str, initialized: bool) -> NodeObject {
    let mut node = NodeObject::bare(name, at(10));
    node.provider_id = Some(format!("cloud:///{claim}").into());
    node.capacity = cpu(3);
    node.allocatable = cpu(3);
    node.labels.insert(label::NODE_POOL.into(), "web".into());
    node.labels.insert(label::INSTANCE_TYPE.into(), "small".into());
    if initialized {
        node.labels.insert(label::REGISTERED.into(), "true".into());
        node.labels.insert(label::INITIALIZED.into(), "true".into());
    }
    node
}

fn unmanaged(name: &str) -> NodeObject {
    NodeObject { capacity: cpu(2), ..NodeObject::bare(name, at(10)) }
}

fn pool() -> Pool {
    Pool::bare("web")
}

/// Something that happens, for histories in several orders; true when decisions read something else then.
#[derive(Clone)]
struct Event(Rc<dyn Fn(&mut Cluster) -> bool>);

impl Event {
    fn pod(version: Version, pod: Pod) -> Self {
        Self::there(pod.key.clone(), version, pod)
    }

    fn node(version: Version, node: NodeObject) -> Self {
        Self::there(node.name.clone(), version, node)
    }

    fn claim(version: Version, claim: Claim) -> Self {
        Self::there(claim.name.clone(), version, claim)
    }

    fn pool(version: Version, pool: Pool) -> Self {
        Self::there(pool.name.clone(), version, pool)
    }

    fn there<T: Kind<Object<()> = ()>>(key: T::Key, version: Version, model: T) -> Self {
        let model = Arc::new(model);
        let put = move |cluster: &mut Cluster| {
            cluster.put(&key, version.into(), Arc::clone(&model), ()).is_some_and(|put| put.changed)
        };
        Self(Rc::new(put))
    }

    fn gone<T: Kind>(key: T::Key, version: Version) -> Self {
        Self(Rc::new(move |cluster| cluster.remove::<T>(&key, &version.into()).is_some()))
    }
}

impl Cluster {
    #[expect(clippy::needless_pass_by_value, reason = "a history reads better without references")]
    fn apply(&mut self, event: Event) -> bool {
        event.0(self)
    }
}

/// A claim we have just created, before any watch reports it.
fn create(cluster: &mut Cluster, version: Version, claim: Claim, pods: impl IntoIterator<Item = PodKey>) {
    let name = claim.name.clone();
    cluster.apply(Event::claim(version, claim));
    cluster.promise(&name, pods);
}

fn tell(cluster: &mut Cluster, events: impl IntoIterator<Item = Event>) {
    for event in events {
        cluster.apply(event);
    }
}

fn gone_claim(name: &str, version: u64) -> Event {
    Event::gone::<Claim>(name.into(), Version(version))
}

fn gone_node(name: &str, version: u64) -> Event {
    Event::gone::<NodeObject>(name.into(), Version(version))
}

fn ids(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.iter().map(|node| node.id.as_str()).collect()
}

fn pods_on(snapshot: &Snapshot, id: &str) -> Vec<String> {
    let node = snapshot.nodes.iter().find(|node| node.id == id).expect("the machine is there");
    node.pods.iter().map(|pod| pod.key.name.to_string()).collect()
}

#[test]
fn claim_and_node_of_one_machine_are_merged_whichever_comes_first() {
    let events = [Event::claim(Version(1), claim("c1")), Event::node(Version(2), node("n1", "c1", true))];
    for reversed in [false, true] {
        let mut events = events.to_vec();
        if reversed {
            events.reverse();
        }
        let mut cluster = cluster();
        tell(&mut cluster, events);
        let snapshot = cluster.freeze(at(20));
        assert_eq!(ids(&snapshot), ["cloud:///c1"]);
        assert!(snapshot.nodes[0].claim.is_some() && snapshot.nodes[0].name.is_some());
    }
}

#[test]
fn a_machine_leaves_when_both_its_objects_are_gone() {
    let mut cluster = cluster();
    tell(
        &mut cluster,
        [Event::claim(Version(1), claim("c1")), Event::node(Version(2), node("n1", "c1", true))],
    );
    cluster.apply(gone_node("n1", 3));
    assert_eq!(cluster.freeze(at(20)).nodes.len(), 1);
    cluster.apply(gone_claim("c1", 4));
    assert_eq!(cluster.freeze(at(20)).nodes.len(), 0);
    assert!(cluster.derived.members.is_empty() && cluster.derived.machines.is_empty());
}

#[test]
fn a_node_that_does_not_say_what_it_is_yet_is_not_looked_at() {
    let mut silent = node("n1", "c1", false);
    silent.labels.remove(label::INSTANCE_TYPE);
    let nameless = NodeObject { provider_id: None, ..node("n2", "c2", false) };
    let mut cluster = cluster();
    tell(&mut cluster, [Event::node(Version(1), silent), Event::node(Version(2), nameless)]);
    assert_eq!(cluster.freeze(at(20)).nodes.len(), 0);
    assert_eq!(cluster.nodes_of(&"cloud:///c1".into()).count(), 1, "it is found when it is registered");
    tell(
        &mut cluster,
        [Event::node(Version(3), node("n1", "c1", false)), Event::node(Version(4), node("n2", "c2", false))],
    );
    assert_eq!(ids(&cluster.freeze(at(20))), ["cloud:///c1", "cloud:///c2"]);
}

#[test]
fn an_unmanaged_node_is_known_by_its_name_and_a_claim_of_that_name_is_another_machine() {
    let mut cluster = cluster();
    tell(&mut cluster, [Event::node(Version(1), unmanaged("x")), Event::claim(Version(2), unlaunched("x"))]);
    assert_eq!(ids(&cluster.freeze(at(20))), ["nodeclaim/x", "x"]);
    tell(&mut cluster, [gone_claim("x", 3), gone_node("x", 4)]);
    assert_eq!(cluster.freeze(at(20)).nodes.len(), 0);
}

#[test]
fn a_changed_provider_id_leaves_nothing_behind() {
    let mut cluster = cluster();
    tell(
        &mut cluster,
        [Event::node(Version(1), node("n1", "old", true)), Event::pod(Version(2), pod("p", Some("n1")))],
    );
    cluster.apply(Event::node(Version(3), node("n1", "new", true)));
    let snapshot = cluster.freeze(at(20));
    assert_eq!(ids(&snapshot), ["cloud:///new"]);
    assert_eq!(pods_on(&snapshot, "cloud:///new"), ["p"]);
}

#[test]
fn pods_follow_their_node_name_and_leave_when_they_end() {
    let mut cluster = cluster();
    // The event of the pod arrives before that of its node.
    tell(
        &mut cluster,
        [Event::pod(Version(1), pod("p", Some("n1"))), Event::node(Version(2), unmanaged("n1"))],
    );
    tell(&mut cluster, [Event::node(Version(3), unmanaged("n2"))]);
    assert_eq!(pods_on(&cluster.freeze(at(20)), "n1"), ["p"]);
    cluster.apply(Event::pod(Version(4), Pod { uid: "again".into(), ..pod("p", Some("n2")) }));
    let snapshot = cluster.freeze(at(20));
    assert_eq!((pods_on(&snapshot, "n1").len(), pods_on(&snapshot, "n2")), (0, vec!["p".to_owned()]));
    cluster.apply(Event::pod(Version(5), Pod { phase: PodPhase::Succeeded, ..pod("p", Some("n2")) }));
    assert_eq!(pods_on(&cluster.freeze(at(20)), "n2").len(), 0);
    assert!(cluster.derived.bound.is_empty());
}

#[test]
fn pending_pods_come_and_go() {
    let mut cluster = cluster();
    cluster.apply(Event::pod(Version(1), pod("p", None)));
    assert_eq!(cluster.freeze(at(0)).pending.len(), 1);
    cluster.apply(Event::pod(Version(2), pod("p", Some("n1"))));
    assert_eq!(cluster.freeze(at(0)).pending.len(), 0);
    cluster.apply(Event::pod(Version(3), pod("q", None)));
    cluster.apply(Event::gone::<Pod>(PodKey::new("ns", "q"), Version(4)));
    assert_eq!(cluster.freeze(at(0)).pending.len(), 0);
}

#[test]
fn usage_follows_every_transition_and_subtracts_once() {
    let web: PoolName = "web".into();
    let mut cluster = cluster();
    let expect = |cluster: &mut Cluster, cpu: i64, nodes: i64, why: &str| {
        let (usage, _) = cluster.usage(&web, []);
        let seen = (usage.amount("cpu"), usage.amount("nodes"));
        assert_eq!(seen, (Quantity::from_units(cpu), Quantity::from_units(nodes)), "{why}");
    };
    expect(&mut cluster, 0, 0, "nothing yet");
    cluster.apply(Event::claim(Version(1), claim("c1")));
    expect(&mut cluster, 4, 1, "promised");
    cluster.apply(Event::node(Version(2), node("n1", "c1", false)));
    expect(&mut cluster, 3, 1, "the node's own value, where it has one");
    cluster.apply(Event::node(Version(3), node("n1", "c1", true)));
    cluster.apply(Event::claim(Version(4), claim("c2")));
    expect(&mut cluster, 7, 2, "two machines");
    cluster.mark_for_deletion([&"c1".into()]);
    cluster.mark_for_deletion([&"c1".into()]);
    expect(&mut cluster, 4, 1, "marked twice");
    cluster.apply(Event::claim(Version(5), Claim { deletion: Some(at(5)), ..claim("c1") }));
    cluster.apply(Event::claim(Version(6), terminating(Claim { deletion: Some(at(5)), ..claim("c1") })));
    expect(&mut cluster, 4, 1, "already left out");
    cluster.unmark([&"c1".into()]);
    expect(&mut cluster, 4, 1, "its claim is still being deleted");
    cluster.apply(gone_node("n1", 7));
    cluster.apply(gone_claim("c1", 8));
    expect(&mut cluster, 4, 1, "gone");
    cluster.mark_for_deletion([&"c2".into()]);
    expect(&mut cluster, 0, 0, "empty");
    assert_eq!(cluster.usage(&web, []), (Resources::new(), 0), "and not zeros");
    cluster.unmark([&"c2".into()]);
    expect(&mut cluster, 4, 1, "back");
}

#[test]
fn usage_leaves_out_machines_that_are_going_once_and_only_those_that_count() {
    let web: PoolName = "web".into();
    let mut cluster = cluster();
    for (version, name) in [(1, "c1"), (2, "c2"), (3, "c3")] {
        cluster.apply(Event::claim(Version(version), claim(name)));
    }
    cluster.mark_for_deletion([&"c3".into()]);
    let going: Vec<ClaimName> = ["c1", "c1", "c3", "unknown"].map(ClaimName::from).to_vec();
    let (usage, machines) = cluster.usage(&web, &going);
    assert_eq!(
        (usage.amount("cpu"), usage.amount("nodes"), machines),
        (Quantity::from_units(4), Quantity::ONE, 1)
    );
    assert_eq!(cluster.usage(&web, []).1, 2, "nothing of it is kept");
    assert_eq!(cluster.usage(&"other".into(), &going), (Resources::new(), 0));
}

#[test]
fn marks_die_with_their_claim() {
    let mut cluster = cluster();
    cluster.mark_for_deletion([&"c1".into()]);
    cluster.apply(Event::claim(Version(1), claim("c1")));
    assert!(!cluster.freeze(at(0)).nodes[0].marked_for_deletion, "no object was known when it was marked");
    cluster.mark_for_deletion([&"c1".into()]);
    assert!(cluster.freeze(at(0)).nodes[0].marked_for_deletion);
    cluster.apply(gone_claim("c1", 2));
    cluster.apply(Event::claim(Version(3), Claim { uid: "another".into(), ..claim("c1") }));
    assert!(!cluster.freeze(at(0)).nodes[0].marked_for_deletion);
}

#[test]
fn a_pod_the_scheduler_refuses_does_not_keep_its_machine() {
    let minute = Duration::from_mins(1);
    let mut cluster = cluster();
    cluster.apply(Event::node(Version(1), unmanaged("n1")));
    cluster.apply(Event::node(Version(1), unmanaged("n2")));
    cluster.apply(Event::pod(Version(1), pod("a", None)));
    let (key, one, two) = (PodKey::new("ns", "a"), Target::Node("n1".into()), Target::Node("n2".into()));
    let protected =
        |cluster: &mut Cluster, now, which: usize| cluster.freeze(at(now)).nodes[which].is_nominated(at(now));
    for now in (0..180).step_by(10) {
        assert!(cluster.nominate_for(&key, minute, &one, at(now)));
        assert_eq!(protected(&mut cluster, now, 0), now < 70, "the last promise believed is at 50, at {now}");
    }
    assert!(cluster.nominate_for(&key, minute, &two, at(180)));
    assert!(protected(&mut cluster, 181, 1), "another machine is another promise");
    cluster.apply(Event::pod(Version(2), pod("a", Some("n2"))));
    cluster.apply(Event::pod(Version(3), Pod { uid: "another".into(), ..pod("a", None) }));
    assert!(cluster.nominate_for(&key, minute, &two, at(300)));
    assert!(protected(&mut cluster, 301, 1), "another pod is another promise");
    assert!(!cluster.nominate_for(&PodKey::new("ns", "gone"), minute, &two, at(300)));
}

#[test]
fn a_pod_whose_drain_is_held_keeps_the_machine_it_is_to_move_to() {
    let mut cluster = cluster();
    cluster.apply(Event::node(Version(1), unmanaged("n1")));
    cluster.apply(Event::node(Version(1), unmanaged("old")));
    cluster.apply(Event::pod(Version(1), pod("a", Some("old"))));
    let (key, target) = (PodKey::new("ns", "a"), Target::Node("n1".into()));
    let nominate = |cluster: &mut Cluster, now| {
        assert!(cluster.nominate_for(&key, Duration::from_mins(1), &target, at(now)));
        cluster.freeze(at(now)).nodes[0].is_nominated(at(now))
    };
    for now in (0..600).step_by(10) {
        assert!(nominate(&mut cluster, now), "at {now}");
    }
    // From here on it waits, and the scheduler has its chance.
    cluster.apply(Event::pod(Version(2), Pod { uid: "another".into(), ..pod("a", None) }));
    assert!(nominate(&mut cluster, 600) && nominate(&mut cluster, 650));
    assert!(!nominate(&mut cluster, 740));
}

#[test]
fn a_pod_waits_as_long_as_its_machine_takes_to_come_up() {
    let mut cluster = cluster();
    cluster.apply(Event::claim(Version(1), claim("c1")));
    cluster.apply(Event::pod(Version(1), pod("a", None)));
    let target = Target::Claim("c1".into());
    for now in (0..600).step_by(10) {
        cluster.nominate_for(&PodKey::new("ns", "a"), Duration::from_mins(1), &target, at(now));
        assert!(cluster.freeze(at(now)).nodes[0].is_nominated(at(now)), "at {now}");
    }
}

#[test]
fn nominations_are_extended_and_expire() {
    let mut cluster = cluster();
    assert!(!cluster.nominate(&Target::Node("n1".into()), at(0)), "no such machine");
    cluster.apply(Event::node(Version(1), unmanaged("n1")));
    assert!(cluster.nominate(&Target::Node("n1".into()), at(0)));
    let until = |cluster: &mut Cluster, now| cluster.freeze(at(now)).nodes[0].nominated_until;
    assert_eq!(until(&mut cluster, 5), Some(at(20)));
    cluster.nominate(&Target::Node("n1".into()), at(10));
    cluster.nominate(&Target::Node("n1".into()), at(7));
    assert_eq!(until(&mut cluster, 29), Some(at(30)), "a clock that steps back shortens nothing");
    assert_eq!(until(&mut cluster, 30), None);
    cluster.nominate(&Target::Node("n1".into()), at(30));
    cluster.apply(gone_node("n1", 2));
    cluster.freeze(at(31));
    assert!(cluster.own.nominated.is_empty(), "it dies with its machine");
}

#[test]
fn a_list_drops_what_it_lacks_and_keeps_what_we_created_meanwhile() {
    let mut cluster = cluster();
    tell(&mut cluster, [Event::claim(Version(1), claim("lost")), Event::claim(Version(2), claim("kept"))]);
    let began = cluster.begin_list();
    create(&mut cluster, Version(9), unlaunched("ours"), []);
    cluster.apply(Event::claim(Version(2), claim("kept")));
    cluster.finish_list::<Claim>(&["kept".into()].into(), began);
    assert_eq!(ids(&cluster.freeze(at(0))), ["cloud:///kept", "nodeclaim/ours"]);
    cluster.apply(Event::claim(Version(1), claim("lost")));
    assert_eq!(cluster.freeze(at(0)).nodes.len(), 2, "a late event does not resurrect it");
}

#[test]
fn untouched_machines_are_shared_between_snapshots() {
    let mut cluster = cluster();
    tell(&mut cluster, [Event::claim(Version(1), claim("c1")), Event::claim(Version(2), claim("c2"))]);
    let before = cluster.freeze(at(0));
    cluster.apply(Event::claim(Version(3), terminating(claim("c1"))));
    let after = cluster.freeze(at(0));
    assert!(!Arc::ptr_eq(&before.nodes[0], &after.nodes[0]));
    assert!(Arc::ptr_eq(&before.nodes[1], &after.nodes[1]));
    assert!(after.revision > before.revision);
    assert!(!before.nodes[0].is_leaving(), "the older snapshot is not touched");
}

#[test]
fn a_heartbeat_changes_nothing() {
    let mut cluster = cluster();
    cluster.apply(Event::node(Version(1), unmanaged("n1")));
    let revision = cluster.freeze(at(0)).revision;
    assert!(!cluster.apply(Event::node(Version(2), unmanaged("n1"))));
    assert_eq!(cluster.freeze(at(10)).revision, revision);
}

#[test]
fn what_no_decision_reads_is_no_other_revision() {
    let mut cluster = cluster();
    tell(
        &mut cluster,
        [Event::node(Version(1), unmanaged("n1")), Event::pod(Version(2), pod("p", Some("n1")))],
    );
    let ended = |version| {
        let pod = pod("p", Some("n1")).with(|pod| pod.phase = PodPhase::Succeeded);
        Event::pod(Version(version), pod)
    };
    let before = cluster.freeze(at(0)).revision;
    cluster.apply(ended(3));
    let without = cluster.freeze(at(0)).revision;
    assert!(without > before, "its room is free");
    cluster.apply(Event::gone::<Pod>(PodKey::new("ns", "p"), Version(4)));
    assert_eq!(cluster.freeze(at(0)).revision, without, "a pod that ended is deleted");
    let facts = ClaimFacts { class: Some("slow".into()), ..ClaimFacts::default() };
    cluster.apply(Event::there(("ns".into(), "data".into()), Version(5), facts));
    let resolved = cluster.freeze(at(0)).revision;
    assert!(resolved > without, "a volume");
    cluster.apply(Event::there("other".to_owned(), Version(6), ClassFacts::default()));
    assert_eq!(cluster.freeze(at(0)).revision, resolved, "a storage class of no volume");
    cluster.nominate(&Target::Node("n1".into()), at(0));
    let nominated = cluster.freeze(at(0)).revision;
    assert!(nominated > resolved, "a nomination protects the node");
    cluster.nominate(&Target::Node("n1".into()), at(0));
    assert_eq!(cluster.freeze(at(0)).revision, nominated, "the same one once more");
    assert!(cluster.freeze(at(100)).revision > nominated, "it has run out");
}

#[test]
fn two_nodes_of_one_machine_are_one_machine_with_all_pods() {
    let mut cluster = cluster();
    tell(
        &mut cluster,
        [
            Event::node(Version(1), node("n2", "c1", true)),
            Event::node(Version(2), node("n1", "c1", true)),
            Event::pod(Version(3), pod("a", Some("n2"))),
            Event::pod(Version(4), pod("b", Some("n1"))),
        ],
    );
    let snapshot = cluster.freeze(at(0));
    assert_eq!(snapshot.nodes[0].name.as_ref().map(NodeName::as_str), Some("n1"));
    assert_eq!(pods_on(&snapshot, "cloud:///c1"), ["a", "b"]);
    let id = "cloud:///c1".into();
    assert_eq!((cluster.claims_of(&id).count(), cluster.nodes_of(&id).count()), (0, 2));
}

// aws#2244
#[test]
fn a_claim_without_provisioner_follows_the_volumes_of_its_class() {
    let mut cluster = cluster();
    let facts = ClaimFacts { class: Some("disks".into()), ..ClaimFacts::default() };
    let class =
        ClassFacts { provisioner: NO_PROVISIONER.into(), waits_for_consumer: true, ..ClassFacts::default() };
    tell(
        &mut cluster,
        [
            Event::there(("ns".into(), "data".into()), Version(1), facts),
            Event::there("disks".to_owned(), Version(2), class),
        ],
    );
    let free = |cluster: &mut Cluster| match &cluster.freeze(at(0)).volumes.values().next().unwrap().tie {
        Tie::Free(disks) => disks.iter().map(|disk| disk.name.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(free(&mut cluster), [""; 0]);
    let disk = VolumeFacts { source: Source::Host, class: Some("disks".into()), ..VolumeFacts::default() };
    cluster.apply(Event::there("pv".to_owned(), Version(3), disk.clone()));
    assert_eq!(free(&mut cluster), ["pv"]);
    let taken = VolumeFacts { claim: Some(("ns".into(), "other".into())), ..disk };
    cluster.apply(Event::there("pv".to_owned(), Version(4), taken));
    assert_eq!(free(&mut cluster), [""; 0]);
}
