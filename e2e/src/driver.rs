//! Stands in for the drivers of NVIDIA and of elastic fabric adapters (`resource.k8s.io`): publishes the devices of every node,
//! as they would, a moment after it has registered.
//!
//! What it publishes is written down here from the machines, not taken from what the controller foresees: processors under
//! one root of the bus on g4dn and g5, each under its own on g6 and g6e, two with an adapter on p4d. Adapters are those that the
//! instance was launched with.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use karpenter_aws_api::Clients;
use karpenter_aws_api::ec2::{Instance, InstanceQuery, InterfaceKind};
use karpenter_model::names::label;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The attribute that devices of all drivers have.
pub const ROOT: &str = "resource.kubernetes.io/pcieRoot";

/// Publishes devices until `shutdown`.
pub async fn run(client: Client, aws: Clients, shutdown: CancellationToken) {
    let mut published = BTreeSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        if let Err(error) = publish(&client, &aws, &mut published).await {
            tracing::warn!(error = format!("{error:#}"), "the drivers try again");
        }
    }
}

/// Publishes the devices of nodes that are not among `published`.
async fn publish(client: &Client, aws: &Clients, published: &mut BTreeSet<String>) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.context("list Nodes")?.items;
    // Labels say what the machine has, and come with the registration.
    let is_new =
        |node: &Node| node.labels().contains_key(label::REGISTERED) && !published.contains(&uid(node));
    let new: Vec<Node> = nodes.into_iter().filter(is_new).collect();
    if new.is_empty() {
        return Ok(());
    }
    let instances = aws.ec2.describe_instances(&InstanceQuery::default()).await?;
    let slices: Api<ResourceSlice> = Api::all(client.clone());
    for node in new {
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        let Some(instance) = instances.iter().find(|one| provider_id.ends_with(one.id.as_str())) else {
            continue;
        };
        for slice in slices_of(&node, instance) {
            let slice: ResourceSlice = serde_json::from_value(slice).context("a ResourceSlice")?;
            match slices.create(&PostParams::default(), &slice).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                created => drop(created.with_context(|| format!("create `{}`", slice.name_any()))?),
            }
        }
        published.insert(uid(&node));
    }
    Ok(())
}

fn uid(node: &Node) -> String {
    node.uid().unwrap_or_default()
}

fn slices_of(node: &Node, instance: &Instance) -> Vec<Value> {
    let label =
        |key: &str| node.labels().get(&format!("karpenter.k8s.aws/instance-{key}")).map(String::as_str);
    let family = label("family").unwrap_or_default();
    let count = |key: &str| label(key).and_then(|count| count.parse::<usize>().ok()).unwrap_or_default();
    let adapters = instance
        .interfaces
        .iter()
        .filter(|one| matches!(one.kind, Some(InterfaceKind::Efa | InterfaceKind::EfaOnly)));
    let gpus: Vec<Value> = (0..count("gpu-count")).map(|number| gpu(family, number)).collect();
    let adapters: Vec<Value> = (0..adapters.count()).map(|number| adapter(family, number)).collect();
    let slices = [("gpu.nvidia.com", gpus), ("dra.net", adapters)].into_iter();
    let slices = slices.filter(|(_, devices)| !devices.is_empty());
    slices.map(|(driver, devices)| slice(node, driver, devices)).collect()
}

fn slice(node: &Node, driver: &str, devices: Vec<Value>) -> Value {
    let name = node.name_any();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
        "metadata": {
            "name": format!("{name}-{driver}"),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid(node)}],
        },
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    })
}

fn gpu(family: &str, number: usize) -> Value {
    let root = match family {
        "g4dn" | "g5" => "pci0000:00".to_owned(),
        "p4d" => format!("pci0000:1{}", number / 2),
        _ => format!("pci0000:2{number}"),
    };
    let (product, architecture, compute, memory) = match family {
        "g4dn" => ("Tesla T4", "Turing", "7.5.0", "15Gi"),
        "g5" => ("NVIDIA A10G", "Ampere", "8.6.0", "23028Mi"),
        "p4d" => ("NVIDIA A100-SXM4-40GB", "Ampere", "8.0.0", "40960Mi"),
        _ => ("NVIDIA L4", "Ada Lovelace", "8.9.0", "23034Mi"),
    };
    json!({
        "name": format!("gpu-{number}"),
        "attributes": {
            "type": {"string": "gpu"},
            "brand": {"string": "Nvidia"},
            "productName": {"string": product},
            "architecture": {"string": architecture},
            "cudaComputeCapability": {"version": compute},
            "cudaDriverVersion": {"version": "13.0.0"},
            "uuid": {"string": format!("GPU-{number}")},
            "driverVersion": {"version": "580.95.5"},
            ROOT: {"string": root},
        },
        "capacity": {"memory": {"value": memory}},
    })
}

fn adapter(family: &str, number: usize) -> Value {
    let root = if family == "p4d" { format!("pci0000:1{number}") } else { format!("pci0000:3{number}") };
    json!({
        "name": format!("efa-{number}"),
        "attributes": {
            "dra.net/rdma": {"bool": true},
            "dra.net/pciVendor": {"string": "Amazon.com, Inc."},
            "dra.net/pciDevice": {"string": "Elastic Fabric Adapter (EFA)"},
            "dra.net/pciSubsystem": {"string": "efa0"},
            "dra.net/numaNode": {"int": number / 2},
            ROOT: {"string": root},
        },
    })
}
