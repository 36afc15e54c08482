//! One look at a cluster: every object of the kinds that plans read. Needs leave to list them, and nothing else; with
//! capacity buffers also to get the workloads they name. A cluster without our definitions is one without pools.

use anyhow::{Result, bail};
use karpenter_model::settings::FeatureGates;
use karpenter_plan::template_of;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

use crate::api_server;

/// Number of objects in one request.
const PAGE: u32 = 500;

/// A kind that is listed.
struct Listed {
    version: &'static str,
    kind: &'static str,
    /// Consequence for a plan without it; `None` when there is no plan without it.
    without: Option<&'static str>,
}

const fn needed(version: &'static str, kind: &'static str) -> Listed {
    Listed { version, kind, without: None }
}

const fn useful(version: &'static str, kind: &'static str, without: &'static str) -> Listed {
    Listed { version, kind, without: Some(without) }
}

const KINDS: [Listed; 18] = [
    needed("karpenter.sh/v1", "NodePool"),
    needed("karpenter.sh/v1", "NodeClaim"),
    needed("karpenter.k8s.aws/v1", "EC2NodeClass"),
    needed("v1", "Node"),
    needed("v1", "Pod"),
    needed("apps/v1", "DaemonSet"),
    needed("policy/v1", "PodDisruptionBudget"),
    useful("v1", "Namespace", "affinity that selects namespaces by labels matches none"),
    useful("v1", "LimitRange", "daemon sets without pods and pods of manifests are taken at what they say"),
    useful(
        "node.k8s.io/v1",
        "RuntimeClass",
        "pods of manifests are taken without their overhead and node selectors",
    ),
    useful("scheduling.k8s.io/v1", "PriorityClass", "pods of manifests are taken without their priority"),
    useful("v1", "PersistentVolumeClaim", "pods with volumes are refused"),
    useful("v1", "PersistentVolume", "zones of bound volumes are not known"),
    useful("storage.k8s.io/v1", "StorageClass", "zones of volumes that are not bound are not known"),
    useful("storage.k8s.io/v1", "CSINode", "nodes are taken to attach any number of volumes"),
    useful("resource.k8s.io/v1", "ResourceSlice", "devices are not known"),
    useful("resource.k8s.io/v1", "DeviceClass", "devices are not known"),
    useful("resource.k8s.io/v1", "ResourceClaim", "devices are not known"),
];

/// Kinds that count with a feature gate alone.
const OVERLAYS: Listed = useful("karpenter.sh/v1alpha1", "NodeOverlay", "prices and amounts are as AWS says");
const BUFFERS: Listed =
    useful("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "no room is held for buffers");

/// The objects, and what could not be listed.
pub(super) async fn objects(client: &Client, gates: &FeatureGates) -> Result<(Vec<Value>, Vec<String>)> {
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    let gated = [(gates.node_overlay, &OVERLAYS), (gates.capacity_buffer, &BUFFERS)];
    let gated = gated.into_iter().filter(|(open, _)| *open).map(|(_, listed)| listed);
    for listed in KINDS.iter().chain(gated) {
        match list(client, listed).await {
            Ok(found) => objects.extend(found),
            // Not every cluster has every kind.
            Err(kube::Error::Api(answer)) if answer.code == 404 => {
                if listed.kind == "NodePool" {
                    notes.push(
                        "the cluster does not know NodePools, so there are none; --what-if plans with those of a manifest"
                            .to_owned(),
                    );
                }
            }
            Err(error) => {
                let rights = format!("a plan needs permission to list it (get, list on {})", listed.version);
                let why = api_server::why(&error, &rights);
                let Some(without) = listed.without else { bail!("cannot list {}: {why}", listed.kind) };
                notes.push(format!("cannot list {}, so {without}: {why}", listed.kind));
            }
        }
    }
    let (templates, unread) = workloads(client, &objects).await;
    objects.extend(templates);
    notes.extend(unread);
    Ok((objects, notes))
}

fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The workload each buffer names, so that its pods are known. One that may not be read is as one that is not there.
async fn workloads(client: &Client, objects: &[Value]) -> (Vec<Value>, Vec<String>) {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for buffer in objects.iter().filter(|object| object["kind"] == BUFFERS.kind) {
        let text = |pointer: &str| buffer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind, name) = match text("/spec/podTemplateRef/name") {
            "" => ("apps/v1", text("/spec/scalableRef/kind"), text("/spec/scalableRef/name")),
            name => ("v1", "PodTemplate", name),
        };
        if !["PodTemplate", "Deployment", "StatefulSet", "ReplicaSet"].contains(&kind) {
            continue;
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), text("/metadata/namespace"), &resource(version, kind));
        match api.get_opt(name).await.map(|object| object.map(serde_json::to_value)) {
            Ok(Some(Ok(mut object))) => {
                object["apiVersion"] = json!(version);
                object["kind"] = json!(kind);
                found.push(template_of(&object));
            }
            Ok(None | Some(Err(_))) => {}
            Err(error) => {
                let of = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
                notes.push(format!("cannot get {kind} `{name}`, so buffer `{of}` holds no room: {error}"));
            }
        }
    }
    (found, notes)
}

async fn list(client: &Client, listed: &Listed) -> kube::Result<Vec<Value>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(listed.version, listed.kind));
    let mut page = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let listing = api.list(&page).await?;
        for object in listing.items {
            let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            // Items of a list do not contain their kind.
            object["apiVersion"] = json!(listed.version);
            object["kind"] = json!(listed.kind);
            found.push(object);
        }
        match listing.metadata.continue_ {
            Some(next) if !next.is_empty() => page = page.continue_token(&next),
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_role_in_the_documentation_allows_to_look_and_no_more() {
        let stream = include_str!("../../../../../docs/examples/plan-rights.yaml");
        let objects = karpenter_plan::Objects::read("plan-rights.yaml", stream).unwrap();
        let role = objects.iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().unwrap() {
            assert_eq!(texts(&rule["verbs"]), ["get", "list"], "{rule}");
            for group in texts(&rule["apiGroups"]) {
                granted
                    .extend(texts(&rule["resources"]).into_iter().map(|resource| (group.clone(), resource)));
            }
        }
        let workloads = [
            resource("v1", "PodTemplate"),
            resource("apps/v1", "Deployment"),
            resource("apps/v1", "StatefulSet"),
            resource("apps/v1", "ReplicaSet"),
        ];
        let listed = KINDS.iter().chain([&OVERLAYS, &BUFFERS]).map(|one| resource(one.version, one.kind));
        let asked: BTreeSet<(String, String)> =
            listed.chain(workloads).map(|resource| (resource.group, resource.plural)).collect();
        assert_eq!(granted, asked);
    }
}
