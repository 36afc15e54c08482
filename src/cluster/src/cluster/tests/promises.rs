//! Claims before their launch: what they count as, which pods they serve, and that no other pod waits for
//! them.

use karpenter_model::{CapacityType, InstanceType, LabelRegistry, Offering, Overhead, Price, Requirement};

use super::*;
use crate::promise::Unlaunched;

fn instance_type(name: &str, units: i64) -> Arc<InstanceType> {
    let registry = LabelRegistry::core();
    assert!(registry.is_well_known(label::ZONE));
    let unsold =
        Offering { available: false, ..Offering::new("a", CapacityType::OnDemand, Price::from_nanos(1)) };
    Arc::new(InstanceType {
        requirements: [
            Requirement::one_of(label::INSTANCE_TYPE.into(), [name.into()]),
            Requirement::one_of(label::ZONE.into(), ["a".into()]),
        ]
        .into_iter()
        .collect(),
        capacity: cpu(units),
        overhead: Overhead { kube_reserved: cpu(1), ..Overhead::default() },
        ..InstanceType::bare(name, vec![unsold])
    })
}

fn requiring(key: &str, values: &[&str]) -> Claim {
    let values = values.iter().map(|value| (*value).into());
    let requirements = [Requirement::one_of(key.into(), values)].into_iter().collect();
    Claim { requirements, requests: cpu(2), ..unlaunched("c1") }
}

/// An index that contains the pool of the claims.
fn with_pool() -> Cluster {
    let mut cluster = cluster();
    tell(&mut cluster, [Event::pool(Version(1), Pool::bare("web"))]);
    cluster
}

fn view(claim: Claim, types: &[Arc<InstanceType>]) -> Node {
    let mut cluster = with_pool();
    cluster.set_instance_types(&"web".into(), Some(types.into()));
    create(&mut cluster, Version(1), claim, []);
    cluster.freeze(at(0)).nodes[0].as_ref().clone()
}

#[test]
fn counts_as_the_least_it_can_become() {
    let types = [instance_type("tiny", 2), instance_type("small", 4), instance_type("large", 16)];
    let cases = [
        (requiring(label::INSTANCE_TYPE, &["small", "large"]), 3, 4),
        (requiring(label::INSTANCE_TYPE, &["large"]), 15, 16),
        // `tiny` cannot hold the 2 cpu asked for after its overhead.
        (requiring(label::INSTANCE_TYPE, &["tiny", "large"]), 15, 16),
        // Nothing known: what it asks for.
        (requiring(label::INSTANCE_TYPE, &["unknown"]), 2, 2),
    ];
    for (claim, allocatable, capacity) in cases {
        let text = format!("{}", claim.requirements);
        let node = view(claim, &types);
        assert_eq!(node.effective_allocatable(), cpu(allocatable), "{text}");
        assert_eq!(node.effective_capacity().amount("cpu"), Quantity::from_units(capacity), "{text}");
    }
}

#[test]
fn carries_the_labels_its_requirements_leave_no_choice_about() {
    let label = |values: &[&str]| {
        let node = view(requiring(label::ZONE, values), &[]);
        node.effective_labels().get(label::ZONE).map(ToString::to_string)
    };
    assert_eq!(label(&["a"]), Some("a".to_owned()));
    assert_eq!(label(&["a", "b"]), None);
}

#[test]
fn new_instance_types_change_what_it_counts_as() {
    let mut cluster = with_pool();
    create(&mut cluster, Version(1), requiring(label::INSTANCE_TYPE, &["small"]), []);
    let allocatable = |cluster: &mut Cluster| cluster.freeze(at(0)).nodes[0].effective_allocatable();
    assert_eq!(allocatable(&mut cluster), cpu(2));
    cluster.set_instance_types(&"web".into(), Some([instance_type("small", 4)].into()));
    assert_eq!(allocatable(&mut cluster), cpu(3));
    let revision = cluster.freeze(at(0)).revision;
    cluster.set_instance_types(&"web".into(), Some([instance_type("small", 4)].into()));
    assert_eq!(cluster.freeze(at(0)).revision, revision, "the same types");
    cluster.set_instance_types(&"web".into(), None);
    assert_eq!(allocatable(&mut cluster), cpu(2));
}

#[test]
fn a_claim_is_counted_once_for_the_types_of_its_pool() {
    let (registry, mut known) = (LabelRegistry::core(), Unlaunched::default());
    let claim = Arc::new(requiring(label::INSTANCE_TYPE, &["small"]));
    let types = |cpus| -> Arc<[Arc<InstanceType>]> { [instance_type("small", cpus)].into() };
    let (small, larger) = (types(4), types(8));
    let first = known.promised(&claim, &small, &registry);
    assert!(Arc::ptr_eq(&first, &known.promised(&claim, &small, &registry)));
    assert_eq!(known.promised(&claim, &larger, &registry).allocatable, cpu(7), "other types");
    let changed = Arc::new(Claim { requests: cpu(9), ..(*claim).clone() });
    assert_eq!(known.promised(&changed, &larger, &registry).allocatable, cpu(9), "another claim of the name");
    known.forget(&claim.name);
    assert!(!Arc::ptr_eq(&first, &known.promised(&claim, &small, &registry)));
}

#[test]
fn instance_types_go_with_their_pool_and_do_not_come_back_with_a_late_answer() {
    let gone = Event::gone::<Pool>("web".into(), Version(3));
    for (missed, how) in [(false, "seen deleted"), (true, "the watch was broken")] {
        let mut cluster = with_pool();
        create(&mut cluster, Version(2), requiring(label::INSTANCE_TYPE, &["small"]), []);
        let types: Arc<[Arc<InstanceType>]> = [instance_type("small", 4)].into();
        cluster.set_instance_types(&"web".into(), Some(Arc::clone(&types)));
        assert_eq!(cluster.freeze(at(0)).instance_types.len(), 1);
        let revision = cluster.freeze(at(0)).revision;
        if missed {
            let began = cluster.begin_list();
            cluster.finish_list::<Pool>(&BTreeSet::new(), began);
        } else {
            cluster.apply(gone.clone());
        }
        assert!(cluster.freeze(at(0)).revision > revision, "{how}");
        cluster.set_instance_types(&"web".into(), Some(Arc::clone(&types)));
        let snapshot = cluster.freeze(at(0));
        assert!(snapshot.instance_types.is_empty(), "{how}");
        assert_eq!(snapshot.nodes[0].effective_allocatable(), cpu(2), "{how}: what it asks for");
        drop(snapshot);
        assert_eq!(Arc::strong_count(&types), 1, "{how}: nothing holds them");
    }
}

#[test]
fn holds_its_pods_until_it_is_launched_and_then_they_are_planned_again() {
    let mut cluster = cluster();
    tell(&mut cluster, [Event::pod(Version(1), pod("p", None)), Event::pod(Version(2), pod("other", None))]);
    create(&mut cluster, Version(3), unlaunched("c1"), [PodKey::new("ns", "p")]);
    let snapshot = cluster.freeze(at(0));
    assert_eq!(pods_on(&snapshot, "nodeclaim/c1"), ["p"]);
    let pending: Vec<_> = snapshot.pending.iter().map(|pod| pod.key.name.as_str()).collect();
    assert_eq!(pending, ["other"], "no pod but this is pending");
    cluster.apply(Event::claim(Version(4), claim("c1")));
    let snapshot = cluster.freeze(at(0));
    assert_eq!(ids(&snapshot), ["cloud:///c1"]);
    assert_eq!((pods_on(&snapshot, "cloud:///c1").len(), snapshot.pending.len()), (0, 2));
    let kept: Vec<_> = snapshot.promises.iter().collect();
    assert_eq!(kept, [(&PodKey::new("ns", "p"), &Target::Claim("c1".into()))], "they are tried there first");
}

#[test]
fn a_claim_that_ends_before_its_launch_gives_its_pods_back() {
    let mut cluster = cluster();
    cluster.apply(Event::pod(Version(1), pod("p", None)));
    create(&mut cluster, Version(2), unlaunched("c1"), [PodKey::new("ns", "p")]);
    assert_eq!(cluster.freeze(at(0)).pending.len(), 0);
    cluster.apply(gone_claim("c1", 3));
    let snapshot = cluster.freeze(at(0));
    assert_eq!((snapshot.pending.len(), snapshot.nodes.len()), (1, 0));
}

#[test]
fn a_promised_pod_that_is_bound_or_gone_no_longer_counts() {
    let events = [
        Event::pod(Version(9), pod("p", Some("n1"))),
        Event::gone::<Pod>(PodKey::new("ns", "p"), Version(9)),
    ];
    for event in events {
        let mut cluster = cluster();
        cluster.apply(Event::pod(Version(1), pod("p", None)));
        create(&mut cluster, Version(2), unlaunched("c1"), [PodKey::new("ns", "p")]);
        cluster.freeze(at(0));
        cluster.apply(event);
        let snapshot = cluster.freeze(at(0));
        assert_eq!((pods_on(&snapshot, "nodeclaim/c1").len(), snapshot.pending.len()), (0, 0));
    }
}

#[test]
fn a_pod_is_promised_one_place_only() {
    let mut cluster = cluster();
    cluster.apply(Event::pod(Version(1), pod("p", None)));
    create(&mut cluster, Version(2), unlaunched("c1"), [PodKey::new("ns", "p")]);
    create(&mut cluster, Version(3), unlaunched("c2"), [PodKey::new("ns", "p")]);
    let snapshot = cluster.freeze(at(0));
    assert_eq!(pods_on(&snapshot, "nodeclaim/c1").len(), 0);
    assert_eq!(pods_on(&snapshot, "nodeclaim/c2"), ["p"]);
}

#[test]
fn the_watch_confirms_what_we_created_and_stale_events_change_nothing() {
    let mut cluster = cluster();
    create(&mut cluster, Version(5), unlaunched("c1"), []);
    let revision = cluster.freeze(at(0)).revision;
    cluster.apply(Event::claim(Version(5), unlaunched("c1")));
    cluster.apply(gone_claim("c1", 4));
    assert_eq!(cluster.freeze(at(0)).revision, revision);
    assert_eq!(cluster.freeze(at(0)).nodes.len(), 1);
    cluster.apply(gone_claim("c1", 6));
    cluster.apply(Event::claim(Version(5), unlaunched("c1")));
    assert_eq!(cluster.freeze(at(0)).nodes.len(), 0, "not resurrected");
}

#[test]
fn a_creation_told_after_the_watch_saw_the_launch_promises_nothing() {
    let mut cluster = cluster();
    cluster.apply(Event::pod(Version(1), pod("p", None)));
    cluster.apply(Event::claim(Version(7), claim("c1")));
    create(&mut cluster, Version(5), unlaunched("c1"), [PodKey::new("ns", "p")]);
    let snapshot = cluster.freeze(at(0));
    assert_eq!((ids(&snapshot), snapshot.pending.len()), (vec!["cloud:///c1"], 1));
}

#[test]
fn a_promise_ends_with_its_machine_and_with_the_pod_it_was_made_to() {
    let changed = pod("p", None).with(|pod| pod.requests = cpu(3));
    let recreated = Pod { uid: "another".into(), ..pod("p", None) };
    let cases = [
        (Event::pod(Version(9), pod("p", None)), 1),
        (Event::pod(Version(9), changed), 0),
        (Event::pod(Version(9), recreated), 0),
        (Event::pod(Version(9), pod("p", Some("n1"))), 0),
        (gone_claim("c1", 9), 0),
    ];
    for (number, (event, left)) in cases.into_iter().enumerate() {
        let mut cluster = cluster();
        cluster.apply(Event::pod(Version(1), pod("p", None)));
        create(&mut cluster, Version(2), unlaunched("c1"), [PodKey::new("ns", "p")]);
        cluster.apply(Event::claim(Version(3), claim("c1")));
        assert_eq!(cluster.freeze(at(0)).promises.len(), 1);
        cluster.apply(event);
        assert_eq!(cluster.freeze(at(0)).promises.len(), left, "case {number}");
    }
}

#[test]
fn a_nomination_is_a_promise_of_the_claim_behind_the_node() {
    let mut cluster = cluster();
    let events = [
        Event::pod(Version(1), pod("p", None)),
        Event::claim(Version(2), claim("c1")),
        Event::node(Version(3), node("n1", "c1", true)),
    ];
    tell(&mut cluster, events);
    let key = PodKey::new("ns", "p");
    assert!(cluster.nominate_for(&key, Duration::from_mins(1), &Target::Node("n1".into()), at(0)));
    assert_eq!(cluster.freeze(at(0)).promises.get(&key), Some(&Target::Claim("c1".into())));
}
