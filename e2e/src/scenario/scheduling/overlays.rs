//! Node overlays: a price makes a more expensive machine the one that is bought, and a device no list of AWS
//! knows of can be asked for.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeOverlay;
use karpenter_model::names::{annotation, condition, label};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::manifests;
use crate::scenario::test_namespace::{TestNamespace, by_label, container, needs, requiring};
use crate::wait;
use crate::world::World;

/// Announced by a device plugin, once its node has joined.
const DEVICE: &str = "example.com/device";

/// EC2 alone would take the cheaper type.
pub(super) async fn price(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "overlaid-price").await?;
    let types = needs(label::INSTANCE_TYPE, &["m5.xlarge"]);
    overlay(
        world,
        "overlaid-price",
        json!({"requirements": [of_test("overlaid-price"), types], "price": "0.001"}),
    )
    .await?;
    test.ready_pool("overlaid-price", only(&["c5.large", "m5.xlarge"])).await?;
    test.pods("worker", 1, json!({})).await?;

    let types = by_label(&test.running("worker", 1).await?, label::INSTANCE_TYPE);
    ensure!(types.keys().eq(["m5.xlarge"]), "pods by instance type: {types:?}");
    let claim = test.claims().await?.remove(0);
    let noted = claim.annotations().get(annotation::PRICE_OVERLAY_APPLIED);
    ensure!(noted.is_some_and(|value| value == "true"), "the claim does not say that a price was overlaid");
    Ok(())
}

/// No type would do without the overlay; the node counts as complete once the device is there.
pub(super) async fn device(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "overlaid-device").await?;
    let spec = json!({"requirements": [of_test("overlaid-device")], "capacity": {DEVICE: "2"}});
    overlay(world, "overlaid-device", spec).await?;
    test.ready_pool("overlaid-device", only(&["c5.large"])).await?;
    let pod = container(json!({"requests": {"cpu": "100m"}, "limits": {DEVICE: "1"}}));
    test.pods("user", 2, json!({"spec": {"containers": [pod]}})).await?;

    let joined = wait::settles("a node for the device", || async {
        test.nodes().await?.into_iter().next().context("no node has joined")
    });
    announce(world, &joined.await?).await?;
    let nodes = by_label(&test.running("user", 2).await?, "kubernetes.io/hostname");
    ensure!(nodes.len() == 1, "two devices of one node: {nodes:?}");
    let claims = test.claims().await?.len();
    ensure!(claims == 1, "two devices of one machine were given {claims} claims");
    Ok(())
}

fn only(types: &[&str]) -> Value {
    requiring(json!([needs(label::INSTANCE_TYPE, types), needs(label::CAPACITY_TYPE, &["on-demand"])]))
}

/// The label the templates of a namespace's pools have.
fn of_test(name: &str) -> Value {
    needs("example.com/test", &[name])
}

/// Applies an overlay and waits until it is in force.
async fn overlay(world: &World, name: &str, spec: Value) -> Result<()> {
    let object = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec,
    });
    manifests::apply_json(&world.client, object).await?;
    let api: Api<NodeOverlay> = Api::all(world.client.clone());
    wait::settles(&format!("overlay `{name}` to be ready"), || async {
        let conditions = api.get(name).await?.status.unwrap_or_default().conditions;
        let ready =
            conditions.iter().any(|one| one.kind == condition::READY && one.status.as_str() == "True");
        ensure!(ready, "it says {conditions:?}");
        Ok(())
    })
    .await
}

/// Announces devices in the status of the node, as kubelet does for a device plugin.
async fn announce(world: &World, node: &Node) -> Result<()> {
    let api: Api<Node> = Api::all(world.client.clone());
    let devices = json!({DEVICE: "2"});
    let status = json!({"status": {"capacity": devices, "allocatable": devices}});
    let patched = api.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await;
    patched.map(drop).context("announce the device")
}
