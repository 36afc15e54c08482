//! Resource slices are found by the Nodes they belong to, whatever happens to them.

use karpenter_model::device::{Allocation, Consumer, Reach};
use karpenter_model::{ResourceClaim, ResourceClaimKey, ResourceSlice};

use super::*;

fn slice(name: &str, owner: Option<&str>, reach: Reach) -> ResourceSlice {
    ResourceSlice {
        name: name.to_owned(),
        owner: owner.map(NodeName::from),
        driver: "gpu.example.com".into(),
        pool: name.into(),
        generation: 1,
        slice_count: 1,
        reach,
        counters: Vec::new(),
        devices: Vec::new(),
    }
}

fn there(version: u64, slice: ResourceSlice) -> Event {
    Event::there(slice.name.clone(), Version(version), slice)
}

/// The slices of a Node, by comparison with a look at all of them.
fn slices_of(cluster: &Cluster, node: &str) -> Vec<String> {
    let node = NodeName::from(node);
    let found: Vec<String> = cluster.slices_of(&node).map(|slice| slice.name.clone()).collect();
    let all = cluster.all::<ResourceSlice>().map(|known| &known.model);
    let of_node = |slice: &&Arc<ResourceSlice>| {
        slice.owner.as_ref() == Some(&node) || slice.reach == Reach::Node(node.clone())
    };
    assert_eq!(found, all.filter(of_node).map(|slice| slice.name.clone()).collect::<Vec<_>>());
    found
}

#[test]
fn slices_are_found_by_the_nodes_they_belong_to() {
    let mut cluster = cluster();
    tell(
        &mut cluster,
        [
            there(1, slice("both", Some("n1"), Reach::Node("n1".into()))),
            there(2, slice("owned", Some("n1"), Reach::Unknown)),
            there(3, slice("reached", None, Reach::Node("n1".into()))),
            there(4, slice("two", Some("n1"), Reach::Node("n2".into()))),
            there(5, slice("wide", None, Reach::Everywhere)),
        ],
    );
    assert_eq!(slices_of(&cluster, "n1"), ["both", "owned", "reached", "two"]);
    assert_eq!(slices_of(&cluster, "n2"), ["two"]);
    // One moves, one becomes one of the whole cluster, one goes.
    tell(
        &mut cluster,
        [
            there(6, slice("both", Some("n2"), Reach::Node("n2".into()))),
            there(7, slice("owned", None, Reach::Everywhere)),
            Event::gone::<ResourceSlice>("two".to_owned(), Version(8)),
        ],
    );
    assert_eq!(slices_of(&cluster, "n1"), ["reached"]);
    assert_eq!(slices_of(&cluster, "n2"), ["both"]);
    assert_eq!(slices_of(&cluster, "n3"), [""; 0]);
}

#[test]
fn pods_that_end_on_a_machine_that_is_rebooted_hold_nothing_of_it() {
    let key = ResourceClaimKey { namespace: "ns".into(), name: "devices".into() };
    let used = || {
        let claim = ResourceClaim {
            key: key.clone(),
            requests: Vec::new(),
            constraints: Vec::new(),
            allocation: Some(Allocation::default()),
            reserved_for: vec![Consumer::Pod("going".into())],
        };
        let pods = vec![(PodKey::new("ns", "going"), "going".into())];
        UsedClaim { claim: Arc::new(claim), pods }
    };
    for (condition, held) in [(ConditionType::Drifted, true), (ConditionType::Rebooting, false)] {
        let settings = Settings { ignore_dra_requests: false, ..Settings::default() };
        let mut cluster = Cluster::new(Arc::new(settings), Arc::default());
        let mut claim = claim("c1");
        let is_true = terminating(claim.clone()).conditions.pop_first().expect("it has one").1;
        claim.conditions.insert(condition, is_true);
        let going = Pod { deletion: Some(at(20)), ..pod("going", Some("n1")) };
        tell(
            &mut cluster,
            [
                Event::claim(Version(1), claim),
                Event::node(Version(2), node("n1", "c1", true)),
                Event::pod(Version(3), going),
                Event::pod(Version(4), pod("stays", Some("n1"))),
                Event::there(key.clone(), Version(5), used()),
            ],
        );
        let snapshot = cluster.freeze(at(30));
        let names: Vec<&str> = snapshot.nodes[0].pods.iter().map(|pod| pod.key.name.as_str()).collect();
        let staying: &[&str] = if held { &["going", "stays"] } else { &["stays"] };
        assert_eq!(names, staying, "{condition:?}");
        let consumer = &snapshot.devices.claims[&key].reserved_for[0];
        assert_eq!(matches!(consumer, Consumer::Pod(_)), held, "{condition:?}: {consumer:?}");
    }
}
