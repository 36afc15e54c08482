//! Every object of a cluster, and the way back to those it had before.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use karpenter_e2e::wait;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::{ApiCapabilities, ApiGroup, Discovery, verbs};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Kinds of which the cluster makes objects by itself.
const COMING_AND_GOING: [&str; 2] = ["Event", "EndpointSlice"];
/// Prefix of the field managers of a control plane's programs.
const CONTROL_PLANE: &str = "kube-";

/// Objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<String, (ApiResource, DynamicObject)>;

/// Every object of the cluster.
pub(crate) async fn all(client: &Client) -> Result<Objects> {
    let discovery = Discovery::new(client.clone()).run().await.context("ask for the kinds")?;
    let mut found = BTreeMap::new();
    for (resource, capabilities) in discovery.groups().flat_map(ApiGroup::recommended_resources) {
        if !is_followed(&resource, &capabilities) {
            continue;
        }
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let list = match api.list(&ListParams::default()).await {
            // Its definition has gone since, and the API server does not know the path any more.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            list => list.with_context(|| format!("list {}", resource.plural))?,
        };
        found.extend(list.into_iter().map(|object| {
            let namespace = object.namespace().unwrap_or_default();
            (format!("{} {namespace}/{}", resource.kind, object.name_any()), (resource.clone(), object))
        }));
    }
    Ok(found)
}

fn is_followed(resource: &ApiResource, capabilities: &ApiCapabilities) -> bool {
    !COMING_AND_GOING.contains(&resource.kind.as_str()) && capabilities.supports_operation(verbs::LIST)
}

/// Deletes what is not in `kept` until it is gone, as if every controller and kubelet that would have to let go of it had
/// done so.
pub(crate) async fn remove_all_but(client: &Client, kept: &BTreeSet<String>) -> Result<()> {
    wait::until("what was made to be gone", || async {
        let mut rest = all(client).await?;
        rest.retain(|name, (resource, object)| !kept.contains(name) && is_made_by_others(resource, object));
        for (resource, object) in rest.values() {
            remove(client, resource, object).await?;
        }
        let names: Vec<_> = rest.keys().cloned().collect();
        Ok(if names.is_empty() { Ok(()) } else { Err(names.join(", ")) })
    })
    .await
}

/// Pods of a Deployment are the control plane's, but without a kubelet they would stay.
fn is_made_by_others(resource: &ApiResource, object: &DynamicObject) -> bool {
    let managers = object.managed_fields().iter().filter_map(|entry| entry.manager.as_deref());
    resource.kind == "Pod" || managers.into_iter().any(|manager| !manager.starts_with(CONTROL_PLANE))
}

async fn remove(client: &Client, resource: &ApiResource, object: &DynamicObject) -> Result<()> {
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
        None => Api::all_with(client.clone(), resource),
    };
    let name = object.name_any();
    let held = object.finalizers().iter().any(|finalizer| finalizer.contains("karpenter"));
    let outcome = if held {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(&name, &PatchParams::default(), &free).await.map(drop)
    } else {
        let at_once = DeleteParams::background().grace_period(0);
        api.delete(&name, &at_once).await.map(drop)
    };
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        outcome => outcome.with_context(|| format!("delete {} `{name}`", resource.kind)),
    }
}
