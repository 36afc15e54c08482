//! An export or manifests as a cluster to view: its Nodes, NodeClaims and pods in an API server in memory, at the instant of the
//! export and at its prices. Nothing moves in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use futures::FutureExt;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_model::clock::FixedClock;
use karpenter_plan::{Offerings, WhatIf};
use karpenter_view::{PriceBook, Prices, Sources};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::command::plan::{self, Gathered, OfferedBy};

/// Kinds that are viewed.
const KINDS: [&str; 3] = ["Node", "NodeClaim", "Pod"];

/// The sources of a view of these files.
pub(super) async fn sources(paths: &[PathBuf], usual: OfferedBy, region: Option<String>) -> Result<Sources> {
    // An export brings its offerings; of manifests an account may be asked.
    let offerings = (usual == OfferedBy::Memory).then_some(usual);
    let sources = plan::Sources::of(paths.to_vec(), offerings, region);
    let (objects, notes) = sources.of_files()?;
    let is_viewed = |object: &&Value| KINDS.iter().any(|kind| object["kind"] == *kind);
    let mut viewed: Vec<Value> = objects.iter().filter(is_viewed).cloned().collect();
    let Gathered { world, offerings, notes, .. } =
        sources.gathered(objects, WhatIf::default(), OfferedBy::Memory, notes).await?;
    let clock = Arc::new(FixedClock(world.at()));
    let server = ApiServer::new(clock.clone());
    for pod in viewed.iter_mut().filter(|object| object["kind"] == "Pod") {
        if pod["metadata"]["namespace"].is_null() {
            pod["metadata"]["namespace"] = json!("default");
        }
    }
    store(&server, &viewed)?;
    let prices = Prices::Known(price_book(&offerings));
    // Nothing moves, and standard input can be read once.
    let read = Arc::new((world, offerings, notes));
    Ok(Sources {
        client: server.client(),
        cluster: paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        prices: watch::channel(prices).1,
        explainer: Arc::new(|_| {
            async { Err("files have no controller to ask; the plan of them is on page `p`".to_owned()) }
                .boxed()
        }),
        planner: Arc::new(move || {
            let read = Arc::clone(&read);
            async move {
                let (world, offerings, notes) = &*read;
                Ok(world.forecast(offerings, notes.clone()).text())
            }
            .boxed()
        }),
        clock,
    })
}

/// Puts the objects into the server, with their namespaces. Claims of another release are taken as they are.
fn store(server: &ApiServer, objects: &[Value]) -> Result<()> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for mut definition in karpenter_api::crd_values() {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything.clone();
        server
            .load(&definition)
            .map_err(|refusal| anyhow!("cannot define the kinds of Karpenter: {refusal}"))?;
    }
    let namespaces = objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str());
    for name in namespaces.collect::<BTreeSet<_>>() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        // Refused where it is one that every server has.
        let _loaded = server.load(&namespace);
    }
    for object in objects {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let restored = server.restore(object);
        restored.map_err(|refusal| anyhow!("cannot view {kind} {name}; correct it: {refusal}"))?;
    }
    Ok(())
}

/// The prices of these offerings.
fn price_book(offerings: &Offerings) -> PriceBook {
    let mut prices = BTreeMap::new();
    for list in offerings.types.values() {
        for one in list.iter() {
            for offering in &one.offerings {
                let place = (offering.zone.to_string(), offering.capacity_type.to_string());
                prices.insert((one.name.to_string(), place), offering.price);
            }
        }
    }
    Arc::new(move |instance_type, zone, capacity| {
        prices.get(&(instance_type.to_owned(), (zone.to_owned(), capacity.to_owned()))).copied()
    })
}

#[cfg(test)]
mod tests {
    use karpenter_view::{Shown, Ui, document, gather};

    use super::*;

    const POOL: &str = include_str!("../../../../../docs/examples/nodepool.yaml");
    const CLUSTER: &str = "apiVersion: v1
kind: Node
metadata:
  name: one
  uid: node-one
  labels:
    karpenter.sh/nodepool: general
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: us-west-2a
    karpenter.sh/capacity-type: on-demand
status:
  allocatable: {cpu: \"2\", memory: 7Gi, pods: \"29\"}
  conditions: [{type: Ready, status: \"True\"}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: pod-web}
spec: {nodeName: one, containers: [{name: c, image: i, resources: {requests: {cpu: \"1\"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"3\"}}}]}
";

    #[tokio::test]
    async fn files_are_viewed_at_their_prices_and_planned_for() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = [write("pool.yaml", POOL), write("cluster.yaml", CLUSTER)];
        let sources = sources(&paths, OfferedBy::Aws, None).await.unwrap();
        // Standard input can be read once only.
        folder.close().unwrap();
        let planned = (sources.planner)().await.unwrap();
        assert!(planned.contains("for default/waits"), "{planned}");
        let asked = (sources.explainer)("node/one".to_owned()).await.unwrap_err();
        assert!(asked.contains("page `p`"), "{asked}");
        let seen = gather(sources, Shown::new(&[]), |scene| {
            serde_json::to_value(document(scene, &Ui::default())).unwrap()
        });
        let seen = seen.await.unwrap();
        let node = &seen["nodes"][0];
        assert_eq!(
            (&node["node"], &node["pods"], &node["state"]),
            (&json!("one"), &json!(1), &json!("ready"))
        );
        assert!(node["pricePerHour"].as_str().unwrap().starts_with("0.0"), "{node}");
        assert_eq!(seen["waitingPods"][0]["name"], "waits");
        assert_eq!(seen["troubles"], json!([]));
    }
}
