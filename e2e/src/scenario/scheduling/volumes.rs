//! Volumes that live in one zone: a pod follows the volume its claim is bound to, and a claim that waits for its
//! first pod is provisioned where its storage class allows.
//!
//! The volumes of single claims are paths of the host with the node affinity of a zone. Those of a StatefulSet have a driver
//! that makes, attaches and deletes them, and of which a node attaches so many.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_model::names;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::manifests::{apply_json, merged};
use crate::scenario::facts::label;
use crate::scenario::test_namespace::{TestNamespace, by_label, container, needs, pod_template};
use crate::storage::{self, DRIVER, Driver};
use crate::wait;
use crate::world::World;

const NAMESPACE: &str = "volumes";
/// Set by the scheduler on a claim that waits for its first pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const LATE_CLASS: &str = "late-and-zonal";
const SET_CLASS: &str = "of-the-driver";

/// A claim bound to a volume of the last zone, which nothing else would choose.
pub(super) async fn bound_claim(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, NAMESPACE).await?;
    test.ready_pool("volumes-bound", json!({})).await?;
    apply_json(&world.client, volume("archive", "archive", "", "us-west-2c")).await?;
    apply_json(&world.client, claim("archive", "", Some("archive"))).await?;
    test.pods("reader", 1, mounting("archive")).await?;
    in_zone(&test, "reader", "us-west-2c").await
}

/// A claim without a volume, of a class that binds late and allows one zone; this function is its provisioner.
pub(super) async fn late_claim(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, NAMESPACE).await?;
    test.ready_pool("volumes-late", json!({})).await?;
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
    test.pods("writer", 1, mounting("journal")).await?;

    let node = selected_node(world, "journal").await?;
    let node = Api::<Node>::all(world.client.clone()).get(&node).await.context("read the selected node")?;
    apply_json(&world.client, volume("journal", "journal", LATE_CLASS, label(&node, names::label::ZONE)))
        .await?;
    in_zone(&test, "writer", "us-west-2b").await
}

/// Pods of a StatefulSet whose claims the driver provisions, and which bring a volume of their own along: one a zone. The node
/// of one is drained, and the pod is back where its volume is.
pub(super) async fn of_a_set(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "volume-sets").await?;
    served(&test, 25, set_returns_to_its_volumes(&test)).await
}

/// Proves something while a driver serves the nodes of the namespace.
async fn served(test: &TestNamespace<'_>, limit: u32, proof: impl Future<Output = Result<()>>) -> Result<()> {
    let driver = Driver::new(test.world.client.clone(), test.selector(), limit);
    tokio::select! {
        Err(error) = driver.serve() => Err(error),
        proven = proof => proven,
    }
}

async fn set_returns_to_its_volumes(test: &TestNamespace<'_>) -> Result<()> {
    let world = test.world;
    test.ready_pool("volume-sets", json!({})).await?;
    apply_json(&world.client, class(SET_CLASS, json!({}))).await?;
    apply_json(&world.client, set(test.name)).await?;
    let before = test.running("store", 3).await?;
    ensure!(
        by_label(&before, names::label::ZONE).len() == 3,
        "zones of pods that are to be spread: {before:?}"
    );
    let left = before.first().context("the set has no node")?;
    let zone = label(left, names::label::ZONE).to_owned();

    let nodes: Api<Node> = Api::all(world.client.clone());
    let name = left.name_any();
    nodes.delete(&name, &DeleteParams::default()).await.with_context(|| format!("delete node `{name}`"))?;
    wait::settles("the pod to be back in the zone of its volume", || async {
        let now = test.running("store", 3).await?;
        let there: Vec<&Node> = now.iter().filter(|one| label(*one, names::label::ZONE) == zone).collect();
        ensure!(there.len() == 1, "{} pods are in {zone}", there.len());
        ensure!(there.iter().all(|node| node.uid() != left.uid()), "it is where it was");
        attached_to(test, &there).await
    })
    .await?;

    let attached = attachments(test).await?;
    let sets: Api<StatefulSet> = Api::namespaced(world.client.clone(), test.name);
    sets.delete("store", &DeleteParams::default()).await.context("delete the set")?;
    wait::settles("attachments to be gone with their pods", || async {
        let all = Api::<VolumeAttachment>::all(world.client.clone()).list(&ListParams::default()).await;
        let all = all.context("list attachments")?.items;
        let left = attached.iter().filter(|one| all.iter().any(|now| now.uid() == one.uid())).count();
        ensure!(left == 0, "{left} of {} are left", attached.len());
        Ok(())
    })
    .await
}

/// Attachments of volumes that were made for claims of the namespace.
async fn attachments(test: &TestNamespace<'_>) -> Result<Vec<VolumeAttachment>> {
    let client = || test.world.client.clone();
    let volumes = Api::<PersistentVolume>::all(client()).list(&ListParams::default()).await;
    let mut volumes = volumes.context("list volumes")?.items;
    volumes.retain(|volume| {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        claim.is_some_and(|claim| claim.namespace.as_deref() == Some(test.name))
    });
    let names: Vec<String> = volumes.iter().map(ResourceExt::name_any).collect();
    let attached = Api::<VolumeAttachment>::all(client()).list(&ListParams::default()).await;
    let mut attached = attached.context("list attachments")?.items;
    attached.retain(|one| {
        one.spec.source.persistent_volume_name.as_ref().is_some_and(|name| names.contains(name))
    });
    Ok(attached)
}

/// A claim of a class that does not wait for a pod: its volume is where the class allows, and its pod goes there.
pub(super) async fn early_claim(world: &World) -> Result<()> {
    const CLASS: &str = "early-and-zonal";
    let test = TestNamespace::open(world, NAMESPACE).await?;
    let proof = async {
        test.ready_pool("volumes-early", json!({})).await?;
        let change = json!({"volumeBindingMode": "Immediate", "allowedTopologies": allowed("us-west-2c")});
        apply_json(&world.client, class(CLASS, change)).await?;
        apply_json(&world.client, claim("ledger", CLASS, None)).await?;
        test.pods("keeper", 1, mounting("ledger")).await?;
        in_zone(&test, "keeper", "us-west-2c").await
    };
    served(&test, 25, proof).await
}

/// Small pods with a volume each, in the zone that their class allows: more than the driver attaches to a node. The scheduler
/// refuses one on the node where it would fit otherwise, and it gets another.
pub(super) async fn past_the_limit(world: &World) -> Result<()> {
    const LIMIT: u32 = 2;
    let test = TestNamespace::open(world, "volume-limits").await?;
    served(&test, LIMIT, one_gets_another_node(&test, LIMIT)).await
}

async fn one_gets_another_node(test: &TestNamespace<'_>, limit: u32) -> Result<()> {
    const CLASS: &str = "in-one-zone";
    let change = json!({"allowedTopologies": allowed("us-west-2b")});
    apply_json(&test.world.client, class(CLASS, change)).await?;
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}},
    });
    let scratch = json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]);
    let small = container(json!({"requests": {"cpu": "50m", "memory": "64Mi"}}));
    test.pods_without_pool("bulk", 3, json!({"spec": {"volumes": scratch, "containers": [small]}})).await?;
    // Pods come when the limit of their node is known.
    let taint = json!({"key": storage::NOT_READY, "effect": "NoExecute"});
    test.ready_pool("volume-limits", json!({"spec": {"template": {"spec": {"startupTaints": [taint]}}}}))
        .await?;

    let nodes = test.running("bulk", 3).await?;
    let mut by_node: BTreeMap<String, u32> = BTreeMap::new();
    for node in &nodes {
        *by_node.entry(node.name_any()).or_default() += 1;
        ensure!(label(node, names::label::ZONE) == "us-west-2b", "`{}` is in another zone", node.name_any());
    }
    ensure!(by_node.values().all(|pods| *pods <= limit), "pods by node: {by_node:?}");
    let bought = test.claims().await?.len();
    ensure!(bought == 2, "{bought} nodes for three pods of which {limit} fit on each");
    Ok(())
}

/// Topologies of a class that allows one zone, by the driver's own label.
fn allowed(zone: &str) -> Value {
    json!([{"matchLabelExpressions": [{"key": storage::ZONE, "values": [zone]}]}])
}

/// A class of the driver that waits for the first pod and deletes its volumes, changed by a merge patch.
fn class(name: &str, change: Value) -> Value {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete",
    });
    merged(class, change)
}

/// The volume of the claim and the one that the pod brings along are attached to its node.
async fn attached_to(test: &TestNamespace<'_>, nodes: &[&Node]) -> Result<()> {
    let attached = attachments(test).await?;
    for node in nodes {
        let name = node.name_any();
        let here = attached.iter().filter(|one| one.spec.node_name == name);
        let done = here.filter(|one| one.status.as_ref().is_some_and(|status| status.attached)).count();
        ensure!(done == 2, "{done} volumes are attached to `{name}`");
    }
    Ok(())
}

/// Three pods, one a zone, with a claim and an ephemeral volume each.
fn set(namespace: &str) -> Value {
    let claim = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": SET_CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    });
    let labels = json!({"app": "store"});
    let mut store = container(json!({"requests": {"cpu": "500m", "memory": "256Mi"}}));
    store["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "scratch", "mountPath": "/tmp"}]);
    let change = json!({"spec": {
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": names::label::ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }],
        "containers": [store],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}],
    }});
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "store", "namespace": namespace},
        "spec": {
            "replicas": 3, "serviceName": "store", "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
            "selector": {"matchLabels": labels},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
            "template": merged(pod_template(namespace, "store"), change),
        },
    })
}

async fn in_zone(test: &TestNamespace<'_>, app: &str, zone: &str) -> Result<()> {
    let zones = by_label(&test.running(app, 1).await?, names::label::ZONE);
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
