//! One look at a cluster: every object of the kinds that plans read. Needs leave to list them, and nothing else.

use anyhow::{Result, bail};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::{Value, json};

/// How many objects one request asks for.
const PAGE: u32 = 500;

/// A kind that is listed.
struct Listed {
    version: &'static str,
    kind: &'static str,
    /// What a plan without it would be wrong about; `None` when there is no plan without it.
    without: Option<&'static str>,
}

const fn needed(version: &'static str, kind: &'static str) -> Listed {
    Listed { version, kind, without: None }
}

const fn useful(version: &'static str, kind: &'static str, without: &'static str) -> Listed {
    Listed { version, kind, without: Some(without) }
}

const KINDS: [Listed; 16] = [
    needed("karpenter.sh/v1", "NodePool"),
    needed("karpenter.sh/v1", "NodeClaim"),
    needed("karpenter.k8s.aws/v1", "EC2NodeClass"),
    needed("v1", "Node"),
    needed("v1", "Pod"),
    needed("apps/v1", "DaemonSet"),
    needed("policy/v1", "PodDisruptionBudget"),
    useful("v1", "Namespace", "affinity that selects namespaces by labels matches none"),
    useful("v1", "LimitRange", "daemon sets without pods are taken at what their templates say"),
    useful("v1", "PersistentVolumeClaim", "pods with volumes are refused"),
    useful("v1", "PersistentVolume", "zones of bound volumes are not known"),
    useful("storage.k8s.io/v1", "StorageClass", "zones of volumes that are not bound are not known"),
    useful("storage.k8s.io/v1", "CSINode", "nodes are taken to attach any number of volumes"),
    useful("resource.k8s.io/v1", "ResourceSlice", "devices are not known"),
    useful("resource.k8s.io/v1", "DeviceClass", "devices are not known"),
    useful("resource.k8s.io/v1", "ResourceClaim", "devices are not known"),
];

/// The objects, and what could not be listed.
pub(super) async fn objects(client: &Client) -> Result<(Vec<Value>, Vec<String>)> {
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    for listed in &KINDS {
        match list(client, listed).await {
            Ok(found) => objects.extend(found),
            // Not every cluster has every kind.
            Err(kube::Error::Api(answer)) if answer.code == 404 && listed.without.is_some() => {}
            Err(error) => match listed.without {
                Some(without) => notes.push(format!("cannot list {}, so {without}: {error}", listed.kind)),
                None => bail!(
                    "cannot list {}: {error}; a plan takes leave to list it (get, list on {})",
                    listed.kind,
                    listed.version
                ),
            },
        }
    }
    Ok((objects, notes))
}

async fn list(client: &Client, listed: &Listed) -> kube::Result<Vec<Value>> {
    let (group, version) = listed.version.split_once('/').unwrap_or(("", listed.version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, listed.kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut page = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let listing = api.list(&page).await?;
        for object in listing.items {
            let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            // Items of a list do not say what they are.
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
