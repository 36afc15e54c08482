//! A capacity buffer of two pods that fill a machine each: room comes although no pod waits, stays although
//! it is empty, is taken by the next pod at once and bought again, and goes with the buffer.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use karpenter_api::{CapacityBuffer, NodeClaim};
use karpenter_model::names;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use kube::runtime::watcher::Config;
use serde_json::{Value, json};

use crate::manifests::{self, merged};
use crate::scenario::facts::label;
use crate::scenario::test_namespace::{TEST_LABEL, TestNamespace, container, needs, requiring};
use crate::scenario::watch;
use crate::wait;
use crate::world::World;

const NAME: &str = "buffers";
/// Pods the buffer holds room for; each takes a machine.
const ROOM: usize = 2;
/// Longer than an empty node is left alone (a second of the pool, and the quiet time of 15 seconds), and long enough
/// for a second look at the buffer.
const PEACE: Duration = Duration::from_secs(45);

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, NAME).await?;
    let machines = requiring(json!([
        needs(names::label::ARCH, &["amd64"]),
        needs(names::label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m"]),
        needs("karpenter.k8s.aws/instance-cpu", &["2"]),
    ]));
    test.ready_pool(NAME, machines).await?;
    apply(world).await?;
    let room = has_room(&test, ROOM).await?;
    stays(&test, &room).await?;

    test.pods("consumer", 1, filling()).await?;
    let node = test.running("consumer", 1).await?.remove(0).name_any();
    ensure!(room.contains(&node), "the pod runs on `{node}`, the room was on {room:?}");
    has_room(&test, ROOM + 1).await?;

    test.scale("consumer", 0).await?;
    let buffers: Api<CapacityBuffer> = Api::namespaced(world.client.clone(), NAME);
    buffers.delete(NAME, &DeleteParams::default()).await.context("delete the buffer")?;
    wait::until("every node of the buffer to go", || async {
        let left = test.claims().await?.len();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} claims")) })
    })
    .await
}

/// Returns a pod template that fills a machine of the pool.
fn filling() -> Value {
    json!({"spec": {"containers": [container(json!({"requests": {"cpu": "1500m"}}))]}})
}

async fn apply(world: &World) -> Result<()> {
    let test =
        json!({"metadata": {"labels": {"app": "spare"}}, "spec": {"nodeSelector": {TEST_LABEL: NAME}}});
    let template = json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": NAME, "namespace": NAME},
        "template": merged(test, filling()),
    });
    manifests::apply_json(&world.client, template).await?;
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": NAME, "namespace": NAME},
        "spec": {"podTemplateRef": {"name": NAME}, "replicas": ROOM},
    });
    manifests::apply_json(&world.client, buffer).await
}

/// Waits until the namespace has `nodes` initialized nodes and the buffer reports that its room is there; returns their names.
async fn has_room(test: &TestNamespace<'_>, nodes: usize) -> Result<BTreeSet<String>> {
    let buffers: Api<CapacityBuffer> = Api::namespaced(test.world.client.clone(), NAME);
    wait::until(&format!("room on {nodes} nodes"), || async {
        let status = buffers.get(NAME).await.context("read the buffer")?.status.unwrap_or_default();
        let reasons: BTreeSet<&str> = status.conditions.iter().map(|one| one.reason.as_str()).collect();
        let ready = test.nodes().await?;
        let ready = ready.iter().filter(|node| label(*node, names::label::INITIALIZED) == "true");
        let ready: BTreeSet<String> = ready.map(ResourceExt::name_any).collect();
        let expected = BTreeSet::from(["Resolved", "FitsExistingCapacity"]);
        let seen = format!("nodes {ready:?}, {reasons:?}");
        Ok(if ready.len() == nodes && reasons == expected { Ok(ready) } else { Err(seen) })
    })
    .await
}

/// Looks on for a while: the empty nodes stay, and no further ones are bought.
async fn stays(test: &TestNamespace<'_>, room: &BTreeSet<String>) -> Result<()> {
    let claims: Api<NodeClaim> = Api::all(test.world.client.clone());
    let ours = Config::default().labels(&format!("{}={NAME}", names::label::NODE_POOL));
    let rule = |claims: &std::collections::BTreeMap<String, NodeClaim>| {
        let leaving = claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        ensure!(leaving == 0 && claims.len() == room.len(), "{} claims, {leaving} leaving", claims.len());
        Ok(())
    };
    let peace = async {
        tokio::time::sleep(PEACE).await;
        Ok(())
    };
    watch::throughout(claims, ours, rule, peace).await
}
