//! YAML documents applied as `kubectl apply --server-side` would.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Client, ResourceExt};

const FIELD_MANAGER: &str = "karpenter-e2e";

/// The NodePool and EC2NodeClass of the README.
pub const NODEPOOL: &str = include_str!("../../docs/examples/nodepool.yaml");
/// The Deployment of the README.
pub const INFLATE: &str = include_str!("../../docs/examples/inflate.yaml");
/// Roles, bindings and the service account of the chart.
pub const RBAC: &str = include_str!("../../charts/karpenter/rbac/karpenter.yaml");

/// Applies every document of `yaml` in order.
pub async fn apply(client: &Client, yaml: &str) -> Result<()> {
    for document in serde_saphyr::from_multiple::<DynamicObject>(yaml).context("read the manifest as YAML")? {
        apply_one(client, document).await?;
    }
    Ok(())
}

async fn apply_one(client: &Client, object: DynamicObject) -> Result<()> {
    let name = object.name_any();
    let types = object.types.clone().with_context(|| format!("`{name}` has no apiVersion and kind"))?;
    let kind = kube::core::GroupVersionKind::try_from(&types).with_context(|| format!("kind of `{name}`"))?;
    let (resource, capabilities): (_, ApiCapabilities) = pinned_kind(client, &kind)
        .await
        .with_context(|| format!("the API server knows no {}", types.kind))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(
            client.clone(),
            object.namespace().as_deref().unwrap_or("default"),
            &resource,
        ),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&name, &parameters, &Patch::Apply(&object))
        .await
        .with_context(|| format!("apply {} `{name}`", types.kind))?;
    Ok(())
}

/// Fails early when a document is not what it seems.
pub fn documents(yaml: &str) -> Result<Vec<serde_json::Value>> {
    serde_saphyr::from_multiple::<serde_json::Value>(yaml).context("read the manifest as YAML")
}

/// The manifest with the cluster's name in place of the example's.
pub fn for_cluster(yaml: &str, cluster: &str) -> String {
    yaml.replace("KarpenterNodeRole-demo", &format!("KarpenterNodeRole-{cluster}"))
        .replace("karpenter.sh/discovery: demo", &format!("karpenter.sh/discovery: {cluster}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_yaml_and_take_the_clusters_name() {
        let text = for_cluster(NODEPOOL, "west");
        assert_eq!(documents(&text).unwrap().len(), 2);
        assert!(!text.contains("demo}") && text.contains("KarpenterNodeRole-west"));
        assert_eq!(documents(INFLATE).unwrap().len(), 1);
    }
}
