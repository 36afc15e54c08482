//! Devices that pods claim (`resource.k8s.io`), proven with the real scheduler: it allocates them on the node that was launched, from
//! what drivers publish there.

use anyhow::{Context, Result, ensure};
use futures::future::FutureExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim, ResourceSlice};
use karpenter_api::NodeClaim;
use karpenter_model::names::label as names;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::behaviour::{self, Behaviour, Only};
use super::facts::{instance_behind, label};
use super::test_namespace::{TestNamespace, container, distinct, needs, pod_template, requiring};
use crate::driver::{self, ROOT};
use crate::manifests::{self, merged};
use crate::wait;
use crate::world::World;

/// Classes of the two drivers.
const GPU: &str = "gpu.nvidia.com";
const EFA: &str = "efa.networking.k8s.aws";
/// Resource that the devices of a third class stand for.
const RESOURCE: &str = "example.com/gpu";

/// The policies for GPUs of AWS, made short.
const REPAIR: &str = r#"
- {condition: AcceleratedHardwareReady, status: "False", reason: XID46, toleration: 5s, terminationGracePeriod: 10s, action: RebootNode}
- {condition: AcceleratedHardwareReady, status: "False", toleration: 30m, action: ReplaceNode}
"#;

/// The names of the behaviours.
pub fn behaviours() -> Vec<&'static str> {
    behaviour::names(&[BEHAVIOURS])
}

/// Runs all behaviours in a world in which nothing of ours is installed yet. Without election, as in `scheduling`.
pub async fn run(world: &mut World, only: &Only) -> Result<()> {
    world.without_election();
    world.with_setting("AWS_FEATURE_GATES", "DRANVIDIAGPU=true,DRAEFA=true");
    world.with_setting("IGNORE_DRA_REQUESTS", "false");
    world.with_feature_gates("NodeRepair=true");
    world.with_setting("REPAIR_POLICIES", REPAIR);
    world.install().await?;
    world.install_class().await?;
    for class in classes() {
        manifests::apply_json(&world.client, class).await?;
    }
    let shutdown = CancellationToken::new();
    let _ends = shutdown.clone().drop_guard();
    tokio::spawn(driver::run(world.client.clone(), world.aws.clone(), shutdown));
    let proven = behaviour::prove(world, "devices", &[BEHAVIOURS], only).await;
    world.check_controller().await?;
    proven?;
    behaviour::clear_away(world).await
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "two GPUs in one claim come with one machine",
        proof: |world| two(world).boxed_local(),
    },
    Behaviour {
        name: "two GPUs under one root of the bus are of a family that has them so",
        proof: |world| one_root(world).boxed_local(),
    },
    Behaviour { name: "pods that share a claim share its GPU", proof: |world| shared(world).boxed_local() },
    Behaviour {
        name: "the first alternative that a machine can have is bought",
        proof: |world| alternatives(world).boxed_local(),
    },
    Behaviour {
        name: "a GPU and an adapter under one root come with one machine",
        proof: |world| with_adapter(world).boxed_local(),
    },
    Behaviour {
        name: "each pod of a StatefulSet has the device of its own claim",
        proof: |world| stateful(world).boxed_local(),
    },
    Behaviour {
        name: "a resource that a class stands for is served with devices",
        proof: |world| extended(world).boxed_local(),
    },
    Behaviour {
        name: "a node whose GPU needs a reboot is rebooted, and keeps its claim",
        proof: |world| rebooted(world).boxed_local(),
    },
];

fn classes() -> [Value; 3] {
    let class = |name: &str, expression: &str| {
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        })
    };
    let gpu = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'";
    let efa = "device.driver == 'dra.net' && device.attributes['dra.net'].rdma";
    let mut stands = class("stands-for-gpus", gpu);
    stands["spec"]["extendedResourceName"] = RESOURCE.into();
    [class(GPU, gpu), class(EFA, efa), stands]
}

fn exactly(name: &str, class: &str, count: u32) -> Value {
    json!({"name": name, "exactly": {"deviceClassName": class, "count": count}})
}

/// A pool of machines on demand of these families.
async fn pool(test: &TestNamespace<'_>, families: &[&str]) -> Result<()> {
    let machines = requiring(json!([
        needs(names::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-family", families),
    ]));
    test.ready_pool(test.name, machines).await
}

/// Applies a claim, or its template, of these devices.
async fn claim(test: &TestNamespace<'_>, kind: &str, devices: Value) -> Result<()> {
    let spec = json!({"devices": devices});
    let spec = if kind == "ResourceClaim" { spec } else { json!({"spec": spec}) };
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": kind,
        "metadata": {"name": "devices", "namespace": test.name}, "spec": spec,
    });
    manifests::apply_json(&test.world.client, claim).await
}

/// A patch that lets pods use the claim of that kind.
fn uses(kind: &str) -> Value {
    let field = if kind == "ResourceClaim" { "resourceClaimName" } else { "resourceClaimTemplateName" };
    json!({"spec": {"resourceClaims": [{"name": "devices", field: "devices"}]}})
}

/// A pod with `devices` of its own, of a pool of these families; its Node and what it was given.
async fn served(
    test: &TestNamespace<'_>,
    families: &[&str],
    devices: Value,
) -> Result<(Node, Vec<DeviceRequestAllocationResult>)> {
    pool(test, families).await?;
    claim(test, "ResourceClaimTemplate", devices).await?;
    test.pods("trainer", 1, uses("ResourceClaimTemplate")).await?;
    let node = test.running("trainer", 1).await?.remove(0);
    let given = given(test).await?;
    ensure!(given.iter().all(|one| one.pool == node.name_any()), "devices of another node: {given:?}");
    Ok((node, given))
}

/// The devices of every claim of a namespace.
async fn given(test: &TestNamespace<'_>) -> Result<Vec<DeviceRequestAllocationResult>> {
    let claims: Api<ResourceClaim> = Api::namespaced(test.world.client.clone(), test.name);
    let claims = claims.list(&ListParams::default()).await.context("list ResourceClaims")?.items;
    let allocations = claims.into_iter().filter_map(|claim| claim.status?.allocation?.devices?.results);
    Ok(allocations.flatten().collect())
}

/// The roots of the bus that these devices are under, as their drivers say.
async fn roots(test: &TestNamespace<'_>, given: &[DeviceRequestAllocationResult]) -> Result<Vec<String>> {
    let slices: Api<ResourceSlice> = Api::all(test.world.client.clone());
    let slices = slices.list(&ListParams::default()).await.context("list ResourceSlices")?.items;
    let mut roots = Vec::new();
    for one in given {
        let slice =
            slices.iter().find(|slice| slice.spec.driver == one.driver && slice.spec.pool.name == one.pool);
        let devices = slice.and_then(|slice| slice.spec.devices.as_ref()).into_iter().flatten();
        let device = devices.into_iter().find(|device| device.name == one.device);
        let attributes = device.and_then(|device| device.attributes.as_ref());
        let root = attributes.and_then(|all| all.get(ROOT)?.string.clone());
        roots.push(root.with_context(|| format!("device `{}` is not published", one.device))?);
    }
    Ok(roots)
}

async fn two(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "two").await?;
    let devices = json!({"requests": [exactly("gpus", GPU, 2)]});
    let (node, given) = served(&test, &["g6"], devices).await?;
    ensure!(given.len() == 2, "it has {given:?}");
    let count = label(&node, "karpenter.k8s.aws/instance-gpu-count");
    ensure!(count == "4", "the smallest g6 with two has four, not {count}");
    Ok(())
}

async fn one_root(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "one-root").await?;
    let devices = json!({
        "requests": [exactly("gpus", GPU, 2)],
        "constraints": [{"requests": ["gpus"], "matchAttribute": ROOT}],
    });
    under_one_root(&test, &["g5", "g6"], devices, "g5").await
}

/// A pod with two `devices` under one root of the bus gets a machine of `family`, of the allowed ones.
async fn under_one_root(
    test: &TestNamespace<'_>,
    allowed: &[&str],
    devices: Value,
    family: &str,
) -> Result<()> {
    let (node, given) = served(test, allowed, devices).await?;
    let bought = label(&node, "karpenter.k8s.aws/instance-family");
    let roots = roots(test, &given).await?;
    ensure!(bought == family && roots.len() == 2 && roots[0] == roots[1], "a {bought} with {roots:?}");
    Ok(())
}

async fn shared(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "shared").await?;
    pool(&test, &["g4dn"]).await?;
    claim(&test, "ResourceClaim", json!({"requests": [exactly("gpu", GPU, 1)]})).await?;
    test.pods("trainer", 2, uses("ResourceClaim")).await?;
    let nodes = test.running("trainer", 2).await?;
    ensure!(distinct(&nodes) == 1, "a device is used on its node alone");
    let given = given(&test).await?;
    ensure!(given.len() == 1, "one claim has {given:?}");
    Ok(())
}

async fn alternatives(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "alternatives").await?;
    let sub = |name: &str, count: u32| json!({"name": name, "deviceClassName": GPU, "count": count});
    let devices = json!({"requests": [{"name": "gpus", "firstAvailable": [sub("many", 16), sub("few", 1)]}]});
    let (_, given) = served(&test, &["g4dn"], devices).await?;
    ensure!(given.len() == 1 && given[0].request == "gpus/few", "no machine has sixteen: {given:?}");
    Ok(())
}

async fn with_adapter(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "with-adapter").await?;
    let devices = json!({
        "requests": [exactly("gpu", GPU, 1), exactly("adapter", EFA, 1)],
        "constraints": [{"requests": ["gpu", "adapter"], "matchAttribute": ROOT}],
    });
    under_one_root(&test, &["g4dn", "p4d"], devices, "p4d").await
}

async fn stateful(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "stateful").await?;
    pool(&test, &["g5"]).await?;
    claim(&test, "ResourceClaimTemplate", json!({"requests": [exactly("gpu", GPU, 1)]})).await?;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "trainer", "namespace": test.name},
        "spec": {
            "replicas": 2, "serviceName": "trainer", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "trainer"}},
            "template": merged(pod_template(test.name, "trainer"), uses("ResourceClaimTemplate")),
        },
    });
    manifests::apply_json(&world.client, set.clone()).await?;
    test.running("trainer", 2).await?;
    let given = given(&test).await?;
    let distinct =
        given.len() == 2 && (&given[0].pool, &given[0].device) != (&given[1].pool, &given[1].device);
    ensure!(distinct, "two claims have {given:?}");
    // The end of the suite scales Deployments down, and nothing else.
    let mut none = set;
    none["spec"]["replicas"] = 0.into();
    manifests::apply_json(&world.client, none).await
}

async fn extended(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "extended").await?;
    pool(&test, &["g6"]).await?;
    let amounts = json!({"cpu": "500m", RESOURCE: "1"});
    let containers = [container(json!({"requests": amounts, "limits": amounts}))];
    test.pods("trainer", 1, json!({"spec": {"containers": containers}})).await?;
    let node = test.running("trainer", 1).await?.remove(0);
    let offered = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get(RESOURCE));
    ensure!(offered.is_none(), "no device plugin announces the resource");
    wait::settles("the claim that the scheduler makes", || async {
        let given = given(&test).await?;
        ensure!(given.len() == 1 && given[0].pool == node.name_any(), "it has {given:?}");
        Ok(())
    })
    .await
}

async fn rebooted(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "rebooted").await?;
    let devices = json!({"requests": [exactly("gpu", GPU, 1)]});
    let (node, _) = served(&test, &["g4dn"], devices).await?;
    let (claim, instance) = (test.claim_of(&node).await?, instance_behind(world, &node).await?.id);
    world.agent.ail(instance.as_str(), "AcceleratedHardwareReady", "NvidiaXID46Error");
    wait::until("the reboot to succeed", || async {
        let claims: Api<NodeClaim> = Api::all(world.client.clone());
        let there = claims.get_opt(&claim.name_any()).await.context("read the claim")?;
        let conditions =
            there.and_then(|there| there.status).map(|status| status.conditions).unwrap_or_default();
        let says = conditions.into_iter().find(|one| one.kind == "Rebooting").map(|one| one.reason);
        Ok(if says.as_deref() == Some("RebootSucceeded") { Ok(()) } else { Err(format!("{says:?}")) })
    })
    .await?;
    let now = test.running("trainer", 1).await?.remove(0);
    ensure!(now.uid() == node.uid(), "the pod runs on another node");
    let reboots = world.control()?.reboots().await?;
    ensure!(reboots.get(instance.as_str()) == Some(&1), "it was rebooted otherwise than once: {reboots:?}");
    ensure!(test.claims().await?.len() == 1, "a replacement was launched");
    Ok(())
}
