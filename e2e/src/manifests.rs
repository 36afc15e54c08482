//! YAML documents applied as `kubectl apply --server-side` would.

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, Preconditions,
    TypeMeta,
};
use kube::discovery::{Discovery, Scope, pinned_kind, verbs};
use kube::{Client, ResourceExt};

use crate::wait;

const FIELD_MANAGER: &str = "karpenter-e2e";

/// The annotation of everything that is applied. An object without a single field of its own, as a service account is,
/// has no field manager.
const APPLIED: &str = "e2e.karpenter.sh/applied";

/// The NodePool and EC2NodeClass of the README.
pub const NODEPOOL: &str = include_str!("../../docs/examples/nodepool.yaml");
/// The Deployment of the README.
pub const INFLATE: &str = include_str!("../../docs/examples/inflate.yaml");
/// Namespace of the chart.
pub const NAMESPACE: &str = "kube-system";
/// Lease with which its replicas elect their leader.
pub const LEASE: &str = "karpenter-leader-election";
/// Roles, bindings and the service account of the chart.
pub const RBAC: &str = include_str!("../../charts/karpenter/rbac/karpenter.yaml");

/// Applies every document of `yaml` in order.
pub async fn apply(client: &Client, yaml: &str) -> Result<()> {
    for document in serde_saphyr::from_multiple::<DynamicObject>(yaml).context("read the manifest as YAML")? {
        apply_one(client, document).await?;
    }
    Ok(())
}

/// Applies one object given as JSON.
pub async fn apply_json(client: &Client, object: serde_json::Value) -> Result<()> {
    apply_one(client, serde_json::from_value(object).context("read the object as a Kubernetes object")?).await
}

/// Applies custom resource definitions; returns when the API server serves every version of each. It reports that a
/// definition is established a moment before all of its parts have it.
pub async fn apply_definitions(client: &Client, yaml: &str) -> Result<()> {
    apply(client, yaml).await.context("apply the custom resource definitions")?;
    all_served(client, yaml).await
}

/// Waits until the API server serves every version of every definition.
pub async fn all_served(client: &Client, yaml: &str) -> Result<()> {
    for definition in serde_saphyr::from_multiple::<CustomResourceDefinition>(yaml)? {
        served(client, &definition).await?;
    }
    Ok(())
}

/// Waits until objects of every version of a definition can be discovered and listed.
pub async fn served(client: &Client, definition: &CustomResourceDefinition) -> Result<()> {
    let names = &definition.spec.names;
    for version in definition.spec.versions.iter().filter(|version| version.served) {
        let kind = GroupVersionKind::gvk(&definition.spec.group, &version.name, &names.kind);
        wait::settles(&format!("{} of {} to be served", names.plural, kind.api_version()), || async {
            let (resource, _) = pinned_kind(client, &kind).await?;
            let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            Ok(objects.list(&ListParams::default().limit(1)).await.map(drop)?)
        })
        .await?;
    }
    Ok(())
}

async fn apply_one(client: &Client, mut object: DynamicObject) -> Result<()> {
    object.annotations_mut().insert(APPLIED.to_owned(), "true".to_owned());
    let name = object.name_any();
    let types = object.types.clone().with_context(|| format!("`{name}` has no apiVersion and kind"))?;
    let kind = GroupVersionKind::try_from(&types).with_context(|| format!("kind of `{name}`"))?;
    let unknown = || format!("the API server knows no {}", types.kind);
    let (resource, capabilities) = wait::answered("what the API server knows", || async {
        pinned_kind(client, &kind).await.with_context(unknown)
    })
    .await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(
            client.clone(),
            object.namespace().as_deref().unwrap_or("default"),
            &resource,
        ),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let what = format!("apply {} `{name}`", types.kind);
    let patched =
        wait::answered(&what, || async { Ok(api.patch(&name, &parameters, &Patch::Apply(&object)).await?) });
    patched.await.map(drop).map_err(refusal).context(what)
}

/// Deletes every object that [`apply`] has made in the cluster, whatever its kind, and returns when none is left.
/// Definitions go last: objects of their kinds could not be listed without them.
pub async fn remove_applied(client: &Client) -> Result<()> {
    // A kind that goes between the question for kinds and the one for its objects is answered with an error.
    wait::settles("what was applied to be gone", || async {
        let mut left = Vec::new();
        let mut definitions = Vec::new();
        for (object, api) in applied(client).await? {
            let name = format!("{} `{}`", object.types.clone().unwrap_or_default().kind, object.name_any());
            let list =
                if name.starts_with("CustomResourceDefinition") { &mut definitions } else { &mut left };
            list.push((name, object, api));
        }
        let next = if left.is_empty() { definitions } else { left };
        for (_, object, api) in
            next.iter().filter(|(_, object, _)| object.metadata.deletion_timestamp.is_none())
        {
            let preconditions = Preconditions { uid: object.uid(), ..Preconditions::default() };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&object.name_any(), &parameters).await {
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                outcome => drop(outcome?),
            }
        }
        let names: Vec<String> = next.into_iter().map(|(name, ..)| name).collect();
        ensure!(names.is_empty(), "{} are left", names.join(", "));
        Ok(())
    })
    .await
}

/// Returns whether [`apply`] has made an object, or parts of it.
pub fn is_applied(object: &impl ResourceExt) -> bool {
    object.annotations().contains_key(APPLIED)
}

/// Returns the applied objects, with the way to delete each.
async fn applied(client: &Client) -> Result<Vec<(DynamicObject, Api<DynamicObject>)>> {
    let discovery = Discovery::new(client.clone()).run().await.context("ask which kinds the cluster has")?;
    let mut found = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST)
                || !capabilities.supports_operation(verbs::DELETE)
            {
                continue;
            }
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for mut object in
                all.list(&ListParams::default()).await.with_context(|| format!("list {}", resource.plural))?
            {
                if !is_applied(&object) {
                    continue;
                }
                let api = match object.namespace() {
                    Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                    None => all.clone(),
                };
                object.types =
                    Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
                found.push((object, api));
            }
        }
    }
    Ok(found)
}

/// Returns the message of the API server, without the status object around it.
pub(crate) fn refusal(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => anyhow::anyhow!("{}", status.message),
        _ => error,
    }
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

/// The example's EC2NodeClass without its NodePool.
pub fn only_class(yaml: &str) -> String {
    yaml.split_once("\n---\n").map_or(yaml, |(_, class)| class).to_owned()
}

/// `base` with the fields of `change` in place of its own, as a JSON merge patch (RFC 7386) would.
pub fn merged(mut base: serde_json::Value, change: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    let Value::Object(changes) = change else { return change };
    if !base.is_object() {
        base = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(fields) = &mut base {
        for (key, value) in changes {
            if value.is_null() {
                fields.remove(&key);
            } else {
                let before = fields.remove(&key).unwrap_or(Value::Null);
                fields.insert(key, merged(before, value));
            }
        }
    }
    base
}

/// The example's NodePool with short waits: empty nodes go after five seconds, all at once.
pub fn hurried(yaml: &str) -> String {
    yaml.replace("consolidateAfter: 30s", "consolidateAfter: 5s\n    budgets: [{nodes: \"100%\"}]")
}

/// The example's NodePool restricted to machines of at most four CPUs, so that many of them are needed.
pub fn small_machines(yaml: &str) -> String {
    let generation = "- {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: [\"4\"]}";
    let cpu = "- {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: [\"5\"]}";
    yaml.replace(generation, &format!("{generation}\n        {cpu}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_are_yaml_and_take_the_clusters_name() {
        let text = for_cluster(NODEPOOL, "west");
        assert_eq!(documents(&text).unwrap().len(), 2);
        assert!(!text.contains("demo}") && text.contains("KarpenterNodeRole-west"));
        assert_eq!(documents(INFLATE).unwrap().len(), 1);
        assert_eq!(documents(RBAC).unwrap().len(), 9);
    }

    #[test]
    fn the_class_alone_is_the_second_document() {
        let documents = documents(&only_class(NODEPOOL)).unwrap();
        assert_eq!((documents.len(), documents[0]["kind"].as_str()), (1, Some("EC2NodeClass")));
    }

    #[test]
    fn merging_replaces_adds_and_removes() {
        let base = json!({"spec": {"a": 1, "b": {"c": [1, 2]}}, "gone": true});
        let change = json!({"spec": {"b": {"c": [3], "d": {"e": 4}}}, "gone": null});
        assert_eq!(merged(base, change), json!({"spec": {"a": 1, "b": {"c": [3], "d": {"e": 4}}}}));
    }

    #[test]
    fn the_variants_change_what_they_say() {
        let pool = |text: &str| documents(text).unwrap().remove(0);
        let disruption = &pool(&hurried(NODEPOOL))["spec"]["disruption"];
        assert_eq!(disruption["consolidateAfter"], "5s");
        assert_eq!(disruption["budgets"][0]["nodes"], "100%");
        let small = pool(&small_machines(NODEPOOL));
        let requirements = small["spec"]["template"]["spec"]["requirements"].as_array().unwrap();
        assert!(requirements.iter().any(|requirement| requirement["operator"] == "Lt"));
    }
}
