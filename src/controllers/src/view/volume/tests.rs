//! Whatever comes last, a claim means what claim, volume and class say together.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_kube_harness::watch::Seen;
use karpenter_model::Volume;
use serde_json::{Value, json};

use crate::View;
use crate::fixture::{World, at, list};

fn claim(spec: &Value) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "ns", "name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": spec,
    }))
    .unwrap()
}

fn volume() -> PersistentVolume {
    serde_json::from_value(json!({
        "metadata": {"name": "pv-1"},
        "spec": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}},
    }))
    .unwrap()
}

fn class(mode: &str) -> StorageClass {
    serde_json::from_value(json!({
        "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": mode,
    }))
    .unwrap()
}

/// Meaning of the only claim: its problem or its driver.
fn meaning(view: &View) -> Option<String> {
    let snapshot = view.with_cluster(|cluster| cluster.freeze(Timestamp::UNIX_EPOCH));
    let Volume { problem, driver, .. } = snapshot.volumes.values().next()?.as_ref().clone();
    problem.or_else(|| driver.map(|driver| driver.to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_bound_claim_follows_its_volume() {
    let view = World::new().context.view;
    let bound = claim(&json!({"volumeName": "pv-1"}));
    view.take(Seen::Applied(at(1, bound.clone())));
    assert_eq!(meaning(&view).as_deref(), Some("its volume `pv-1` does not exist"));
    view.take(Seen::Applied(at(2, volume())));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    view.take(Seen::Deleted(at(3, volume())));
    assert_eq!(meaning(&view).as_deref(), Some("its volume `pv-1` does not exist"));
    view.take(Seen::Deleted(at(4, bound.clone())));
    assert_eq!(meaning(&view), None);
    view.take(Seen::Applied(at(5, bound.clone())));
    assert!(meaning(&view).is_some(), "created again");
    list::<PersistentVolumeClaim>(&view, []);
    assert_eq!(meaning(&view), None, "deleted while the watch was broken");
}

#[tokio::test(start_paused = true)]
async fn an_unbound_claim_follows_its_class() {
    let view = World::new().context.view;
    view.take(Seen::Listed(at(1, class("Immediate"))));
    view.take(Seen::Listed(at(2, claim(&json!({"storageClassName": "gp3"})))));
    assert_eq!(meaning(&view).as_deref(), Some("it is not bound and is bound without waiting for a pod"));
    view.take(Seen::Applied(at(3, class("WaitForFirstConsumer"))));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    list(&view, [at(3, class("WaitForFirstConsumer"))]);
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    list::<StorageClass>(&view, []);
    assert_eq!(meaning(&view).as_deref(), Some("its storage class `gp3` does not exist"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_read_any_more_takes_no_part_until_it_can() {
    let view = World::new().context.view;
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "NotYetInvented"}]}]);
    let mut strange = volume();
    strange.spec.as_mut().unwrap().node_affinity =
        Some(serde_json::from_value(json!({"required": {"nodeSelectorTerms": terms}})).unwrap());
    view.take(Seen::Listed(at(1, claim(&json!({"volumeName": "pv-1"})))));
    view.take(Seen::Listed(at(2, volume())));
    view.take(Seen::Applied(at(3, strange)));
    assert_eq!(meaning(&view).as_deref(), Some("its volume `pv-1` does not exist"));
    view.take(Seen::Applied(at(4, volume())));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
}

#[tokio::test(start_paused = true)]
async fn attach_limits_reach_the_machine_in_either_order_and_go_again() {
    let csi: CSINode = serde_json::from_value(
        json!({"metadata": {"name": "n", "resourceVersion": "2"}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
        ]}}),
    )
    .unwrap();
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "1"}})).unwrap();
    let limits = |view: &View| {
        let snapshot = view.with_cluster(|cluster| cluster.freeze(Timestamp::UNIX_EPOCH));
        snapshot.nodes[0].attach_limits.values().copied().collect::<Vec<_>>()
    };
    for csi_first in [false, true] {
        let view = World::new().context.view;
        if csi_first {
            view.take(Seen::Applied(csi.clone()));
        }
        view.take(Seen::Applied(node.clone()));
        if !csi_first {
            assert_eq!(limits(&view), [0_u32; 0]);
            view.take(Seen::Applied(csi.clone()));
        }
        assert_eq!(limits(&view), [25]);
        list::<CSINode>(&view, []);
        assert_eq!(limits(&view), [0_u32; 0]);
    }
}
