//! Serves as much `OpenAPI` v3 as kubectl needs: which operations validate fields, and the schemas of custom kinds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::apiserver::resource::{Registry, Resource};

/// The list of documents, one per group and version.
pub(super) fn index(registry: &Registry) -> Value {
    let versions: BTreeSet<String> = registry.iter().map(|r| prefix(r)).collect();
    let entry = |path: String| {
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        (path, url)
    };
    json!({"paths": versions.into_iter().map(entry).collect::<Map<_, _>>()})
}

/// The document of one group and version.
pub(super) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = registry.iter().filter(|r| r.group == group && r.version == version).collect();
    if served.is_empty() {
        return None;
    }
    let paths: Map<String, Value> = served.iter().map(|r| path(r)).collect();
    let schemas: Map<String, Value> = served.iter().map(|r| schema(r)).collect();
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "sim"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn prefix(resource: &Resource) -> String {
    let version = &resource.version;
    if resource.group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{}/{version}", resource.group)
    }
}

fn path(resource: &Resource) -> (String, Value) {
    let namespace = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    let path = format!("/{}/{namespace}{}/{{name}}", prefix(resource), resource.plural);
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters = [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")];
    let operation = json!({
        "parameters": parameters, "responses": {},
        "x-kubernetes-group-version-kind":
            {"group": resource.group, "version": resource.version, "kind": resource.kind},
    });
    (path, json!({"patch": operation.clone(), "put": operation.clone(), "post": operation}))
}

fn schema(resource: &Resource) -> (String, Value) {
    let unknown = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = resource.schema.as_ref().map_or(unknown, |s| s.root().clone());
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    (format!("{group}.{}.{}", resource.version, resource.kind), schema)
}
