//! Whatever comes last, a claim means what claim, volume and class say together.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_kube_harness::watch::{Seen, key};
use karpenter_model::Volume;
use serde_json::{Value, json};

use crate::View;
use crate::fixture::World;
use crate::view::Feed;

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

/// What the only claim means: its problem or its driver.
fn meaning(view: &View) -> Option<String> {
    let snapshot = view.with_cluster(|cluster| cluster.snapshot(Timestamp::UNIX_EPOCH));
    let Volume { problem, driver, .. } = snapshot.volumes.values().next()?.as_ref().clone();
    problem.or_else(|| driver.map(|driver| driver.to_string()))
}

#[tokio::test(start_paused = true)]
async fn a_bound_claim_follows_its_volume() {
    let view = World::new().context.view;
    let bound = claim(&json!({"volumeName": "pv-1"}));
    view.volume_claim_seen(Seen::Applied(bound.clone()));
    assert_eq!(meaning(&view).as_deref(), Some("its volume `pv-1` does not exist"));
    view.volume_seen(Seen::Applied(volume()));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    view.volume_seen(Seen::Deleted(volume()));
    assert_eq!(meaning(&view).as_deref(), Some("its volume `pv-1` does not exist"));
    view.volume_claim_seen(Seen::Deleted(bound.clone()));
    assert_eq!(meaning(&view), None);
    view.volume_claim_seen(Seen::Applied(bound.clone()));
    assert!(meaning(&view).is_some(), "created again");
    view.volume_claim_seen(Seen::Complete(BTreeSet::new()));
    assert_eq!(meaning(&view), None, "deleted while the watch was broken");
}

#[tokio::test(start_paused = true)]
async fn an_unbound_claim_follows_its_class() {
    let view = World::new().context.view;
    view.storage_class_seen(Seen::Listed(class("Immediate")));
    view.volume_claim_seen(Seen::Listed(claim(&json!({"storageClassName": "gp3"}))));
    assert_eq!(meaning(&view).as_deref(), Some("it is not bound and is bound without waiting for a pod"));
    view.storage_class_seen(Seen::Applied(class("WaitForFirstConsumer")));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    view.storage_class_seen(Seen::Complete([key(&class(""))].into()));
    assert_eq!(meaning(&view).as_deref(), Some("ebs.csi.aws.com"));
    view.storage_class_seen(Seen::Complete(BTreeSet::new()));
    assert_eq!(meaning(&view).as_deref(), Some("its storage class `gp3` does not exist"));
}

#[tokio::test(start_paused = true)]
async fn attach_limits_reach_the_machine_in_either_order_and_go_again() {
    let csi: CSINode = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}},
    ]}}))
    .unwrap();
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "n", "resourceVersion": "1"}})).unwrap();
    let limits = |view: &View| {
        let snapshot = view.with_cluster(|cluster| cluster.snapshot(Timestamp::UNIX_EPOCH));
        snapshot.nodes[0].attach_limits.values().copied().collect::<Vec<_>>()
    };
    for csi_first in [false, true] {
        let (view, mut nodes) = (World::new().context.view, Feed::default());
        if csi_first {
            view.csi_node_seen(Seen::Applied(csi.clone()));
        }
        nodes.node(&view, Seen::Applied(node.clone()));
        if !csi_first {
            assert_eq!(limits(&view), [0_u32; 0]);
            view.csi_node_seen(Seen::Applied(csi.clone()));
        }
        assert_eq!(limits(&view), [25]);
        view.csi_node_seen(Seen::Complete(BTreeSet::new()));
        assert_eq!(limits(&view), [0_u32; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_known_completely_before_attachments_were_listed() {
    let view = World::new().context.view;
    assert!(view.unlisted().contains(&"VolumeAttachment"));
    view.attachment_seen(Seen::Complete(BTreeSet::new()));
    assert!(!view.unlisted().contains(&"VolumeAttachment"));
}
