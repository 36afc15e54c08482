//! One plan for everything that is asked for, and the price of what is there: `karpenter plan` answers both.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_api::{EC2NodeClass, NodePool};
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::scenario::test_namespace::TestNamespace;
use crate::world::World;

/// A plan for pods none of which has a node.
pub(super) struct Fresh {
    pub(super) nodes: usize,
    /// US dollars an hour.
    pub(super) price: f64,
}

/// Plans the launches for the Deployments of `test` as if nothing were there but its pools.
pub(super) async fn plan(test: &TestNamespace<'_>) -> Result<Fresh> {
    let world = test.world;
    let client = world.client.clone();
    let mut items = Vec::new();
    listed::<EC2NodeClass>(Api::all(client.clone()), &mut items).await?;
    listed::<NodePool>(Api::all(client.clone()), &mut items).await?;
    listed::<Deployment>(Api::namespaced(client, test.name), &mut items).await?;
    let file = world.folder().join(format!("{}.json", test.name));
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
        .with_context(|| format!("write `{}`", file.display()))?;
    let file = file.to_string_lossy();
    let planned = answer(world, &["plan", "--filename", &file, "--offerings", "aws", "-o", "json"]).await?;
    let nodes = planned["launches"].as_array().map(Vec::len).unwrap_or_default();
    Ok(Fresh { nodes, price: dollars(&planned["price"]["after"])? })
}

/// Returns the price of the cluster's nodes now, in US dollars an hour.
pub(super) async fn price(world: &World) -> Result<f64> {
    let planned = answer(world, &["plan", "-o", "json"]).await?;
    dollars(&planned["price"]["now"])
}

/// Returns the output of `karpenter plan`, whatever its result.
async fn answer(world: &World, arguments: &[&str]) -> Result<Value> {
    let (code, text) = world.karpenter_in_cluster(arguments).await?;
    ensure!(code != 1, "`karpenter {}` ended with {code}:\n{text}", arguments.join(" "));
    // Warnings are on another line, behind what is printed.
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.next().context("`karpenter plan` printed nothing")?.context("read what `karpenter plan` printed")
}

fn dollars(text: &Value) -> Result<f64> {
    let text = text.as_str().context("a price that is no text")?;
    text.parse().with_context(|| format!("read the price `{text}`"))
}

/// Adds every object of a kind, as it is written in a manifest.
async fn listed<K>(api: Api<K>, items: &mut Vec<Value>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let kind = K::kind(&());
    for object in api.list(&ListParams::default()).await.with_context(|| format!("list {kind}s"))? {
        let mut value = serde_json::to_value(&object).context("write an object as JSON")?;
        value["apiVersion"] = K::api_version(&()).into();
        value["kind"] = kind.as_ref().into();
        items.push(value);
    }
    Ok(())
}
