//! Virtual pods of capacity buffers: they wait like others, keep their places, and leave nothing behind.

use karpenter_model::BufferKey;

use super::*;

fn spare() -> BufferKey {
    BufferKey::new("ns", "spare")
}

fn virtual_pods(count: usize, created: i64) -> Vec<Pod> {
    let of = Arc::new(spare());
    let one = |number: usize| Pod {
        buffer: Some(Arc::clone(&of)),
        ..Pod::pending(PodKey::new("ns", &format!("v{number}")), &format!("v{number}"), at(created))
    };
    (1..=count).map(one).collect()
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.key.name.as_str()).collect()
}

#[test]
fn they_wait_after_the_pods_that_exist_until_their_buffer_is_gone() {
    let mut cluster = cluster();
    cluster.apply(Event::pod(Version(1), pod("x", None)));
    assert!(cluster.set_buffer(&spare(), virtual_pods(2, 0)));
    assert_eq!(names(&cluster.freeze(at(0)).pending), ["x", "v1", "v2"]);
    assert!(cluster.set_buffer(&spare(), virtual_pods(1, 0)));
    assert_eq!(names(&cluster.freeze(at(0)).pending), ["x", "v1"]);
    assert!(cluster.set_buffer(&spare(), []));
    assert_eq!(names(&cluster.freeze(at(0)).pending), ["x"]);
    assert!(!cluster.set_buffer(&spare(), []));
}

#[test]
fn the_same_pods_made_anew_are_no_news() {
    let mut cluster = cluster();
    cluster.set_buffer(&spare(), virtual_pods(2, 0));
    let before = cluster.freeze(at(0));
    assert!(!cluster.set_buffer(&spare(), virtual_pods(2, 30)));
    let after = cluster.freeze(at(0));
    assert_eq!(before.revision, after.revision);
    assert!(before.pending.iter().zip(&after.pending).all(|(a, b)| Arc::ptr_eq(a, b)));
    let larger = virtual_pods(2, 30).into_iter().map(|pod| pod.with(|pod| pod.requests = cpu(9)));
    assert!(cluster.set_buffer(&spare(), larger));
    assert!(cluster.freeze(at(0)).revision > before.revision);
}

#[test]
fn a_claim_being_launched_holds_them_so_that_nothing_is_launched_twice() {
    let mut cluster = cluster();
    cluster.set_buffer(&spare(), virtual_pods(3, 0));
    let keys = ["v1", "v2"].map(|name| PodKey::new("ns", name));
    create(&mut cluster, Version(1), unlaunched("c1"), keys);
    let snapshot = cluster.freeze(at(0));
    assert_eq!(names(&snapshot.pending), ["v3"]);
    assert_eq!(pods_on(&snapshot, "nodeclaim/c1"), ["v1", "v2"]);
    assert_eq!(snapshot.nodes[0].buffer_pods, 2);
    cluster.apply(Event::claim(Version(2), claim("c1")));
    let snapshot = cluster.freeze(at(0));
    assert_eq!(names(&snapshot.pending), ["v1", "v2", "v3"], "planned again like any other");
    assert_eq!(snapshot.nodes[0].buffer_pods, 2, "it counts until the next plan says otherwise");
}

#[test]
fn a_buffer_that_goes_takes_its_pods_off_the_claim_being_launched() {
    let mut cluster = cluster();
    cluster.set_buffer(&spare(), virtual_pods(1, 0));
    create(&mut cluster, Version(1), unlaunched("c1"), [PodKey::new("ns", "v1")]);
    cluster.freeze(at(0));
    cluster.set_buffer(&spare(), []);
    assert!(pods_on(&cluster.freeze(at(0)), "nodeclaim/c1").is_empty());
}

#[test]
fn a_pod_that_exists_stands_before_a_virtual_one_of_its_name() {
    let mut cluster = cluster();
    cluster.set_buffer(&spare(), virtual_pods(1, 0));
    cluster.apply(Event::pod(Version(1), pod("v1", None)));
    let snapshot = cluster.freeze(at(0));
    assert_eq!(names(&snapshot.pending), ["v1"]);
    assert!(!snapshot.pending[0].is_virtual());
}

#[test]
fn counts_are_replaced_as_a_whole_and_zeros_are_not_kept() {
    let mut cluster = cluster();
    for (version, name) in [(1, "c1"), (2, "c2")] {
        cluster.apply(Event::claim(Version(version), claim(name)));
    }
    let on = |cluster: &mut Cluster| -> Vec<usize> {
        cluster.freeze(at(0)).nodes.iter().map(|node| node.buffer_pods).collect()
    };
    let target = |name: &str| Target::Claim(name.into());
    cluster.set_buffer_counts([(target("c1"), 2), (target("c2"), 0)].into());
    assert_eq!(on(&mut cluster), [2, 0]);
    assert_eq!(cluster.own.room.counted(), 1);
    let revision = cluster.freeze(at(0)).revision;
    cluster.set_buffer_counts([(target("c1"), 2)].into());
    assert_eq!(cluster.freeze(at(0)).revision, revision, "the same counts are no news");
    cluster.set_buffer_counts([(target("c2"), 1)].into());
    assert_eq!(on(&mut cluster), [0, 1]);
    cluster.set_buffer_counts(BTreeMap::new());
    assert_eq!(on(&mut cluster), [0, 0]);
}
