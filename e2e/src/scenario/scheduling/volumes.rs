//! Volumes that live in one zone: a pod follows the volume its claim is bound to, and a claim that waits for its
//! first pod is provisioned where its storage class allows.
//!
//! The volumes are paths of the host with the node affinity of a zone: nothing here would attach or detach
//! others.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use karpenter_model::names;
use kube::api::Api;
use serde_json::{Value, json};

use crate::manifests::apply_json;
use crate::scenario::corner::{Corner, by_label, needs};
use crate::scenario::facts::label;
use crate::wait;
use crate::world::World;

const NAMESPACE: &str = "volumes";
/// Set by the scheduler on a claim that waits for its first pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const LATE_CLASS: &str = "late-and-zonal";

/// A claim bound to a volume of the last zone, which nothing else would choose.
pub(super) async fn bound_claim(world: &World) -> Result<()> {
    let corner = Corner::open(world, NAMESPACE).await?;
    corner.ready_pool("volumes-bound", json!({})).await?;
    apply_json(&world.client, volume("archive", "archive", "", "us-west-2c")).await?;
    apply_json(&world.client, claim("archive", "", Some("archive"))).await?;
    corner.pods("reader", 1, mounting("archive")).await?;
    in_zone(&corner, "reader", "us-west-2c").await
}

/// A claim without a volume, of a class that binds late and allows one zone; this function is its provisioner.
pub(super) async fn late_claim(world: &World) -> Result<()> {
    let corner = Corner::open(world, NAMESPACE).await?;
    corner.ready_pool("volumes-late", json!({})).await?;
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": LATE_CLASS},
        "provisioner": "example.com/scenario",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": names::label::ZONE, "values": ["us-west-2b"]}]}],
    });
    apply_json(&world.client, class).await?;
    apply_json(&world.client, claim("journal", LATE_CLASS, None)).await?;
    corner.pods("writer", 1, mounting("journal")).await?;

    let node = selected_node(world, "journal").await?;
    let node = Api::<Node>::all(world.client.clone()).get(&node).await.context("read the selected node")?;
    apply_json(&world.client, volume("journal", "journal", LATE_CLASS, label(&node, names::label::ZONE)))
        .await?;
    in_zone(&corner, "writer", "us-west-2b").await
}

async fn in_zone(corner: &Corner<'_>, app: &str, zone: &str) -> Result<()> {
    let zones = by_label(&corner.running(app, 1).await?, names::label::ZONE);
    ensure!(zones.keys().eq([zone]), "pods of `{app}` by zone: {zones:?}, their volume is in {zone}");
    Ok(())
}

async fn selected_node(world: &World, claim: &str) -> Result<String> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(world.client.clone(), NAMESPACE);
    wait::until(&format!("a node for claim `{claim}`"), || async {
        let found = api.get(claim).await.context("read the claim")?;
        let node = found.metadata.annotations.and_then(|mut all| all.remove(SELECTED_NODE));
        Ok(node.ok_or_else(|| "the scheduler has selected none".to_owned()))
    })
    .await
}

/// A volume of `zone`, reserved for a claim.
fn volume(name: &str, claim: &str, class: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": NAMESPACE, "name": claim},
            "hostPath": {"path": "/var/none"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [needs(names::label::ZONE, &[zone])]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": class,
        },
    })
}

/// A claim of this class, on that volume if there is one already.
fn claim(name: &str, class: &str, volume: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class,
            "volumeName": volume,
        },
    })
}

/// A patch that gives a pod the volume of a claim.
fn mounting(claim: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}})
}
