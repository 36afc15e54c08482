//! Documents that tell clients what the server serves.

use std::collections::{BTreeMap, BTreeSet};

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    answer::{self, Body},
    openapi,
    reviews::Review,
    route::Document,
};
use crate::apiserver::{
    ApiServer,
    refusal::Refusal,
    resource::{Registry, Resource},
};

/// Answers a request for a document.
pub(super) fn answer(server: &ApiServer, document: &Document) -> Response<Body> {
    if *document == Document::Health {
        return answer::text("ok");
    }
    let registry = server.read(|store| store.registry().clone());
    let found = match document {
        Document::Version => Some(version(server.version())),
        Document::CoreVersions => {
            Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
        }
        Document::Groups => {
            let groups: Vec<Value> = groups(&registry).iter().map(|(g, v)| group(g, v)).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Document::Group(name) => groups(&registry).get(name).map(|versions| {
            let mut group = group(name, versions);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            group
        }),
        Document::Resources { group, version } => resources(&registry, group, version),
        Document::OpenApiIndex => Some(openapi::index(&registry)),
        Document::OpenApi { group, version } => openapi::document(&registry, group, version),
        Document::Health => None,
    };
    match found {
        Some(value) => answer::json(StatusCode::OK, &value),
        None => answer::refused(&Refusal::no_such_path()),
    }
}

fn version(version: &str) -> Value {
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    json!({
        "major": major, "minor": minor, "gitVersion": format!("v{version}.0"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "sim/memory",
    })
}

fn groups(registry: &Registry) -> BTreeMap<String, BTreeSet<String>> {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for resource in registry.iter().filter(|r| !r.group.is_empty()) {
        groups.entry(resource.group.clone()).or_default().insert(resource.version.clone());
    }
    for group in Review::groups() {
        groups.entry(group.to_owned()).or_default().insert("v1".to_owned());
    }
    groups
}

fn group(name: &str, versions: &BTreeSet<String>) -> Value {
    let entry = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    // Stable versions first: `v1` before `v1beta1`.
    let mut ordered: Vec<&String> = versions.iter().collect();
    ordered.sort_by_key(|v| (v.contains("alpha"), v.contains("beta")));
    let entries: Vec<Value> = ordered.into_iter().map(entry).collect();
    json!({"name": name, "versions": entries, "preferredVersion": entries.first()})
}

fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = registry.iter().filter(|r| r.group == group && r.version == version).collect();
    if served.is_empty() && Review::of_group(group).next().is_none() {
        return None;
    }
    let stored = served.iter().flat_map(|r| entries(r));
    let entries: Vec<Value> = stored.chain(Review::of_group(group).map(review)).collect();
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries}))
}

fn review(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({"name": plural, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind, "verbs": ["create"]})
}

fn entries(resource: &Resource) -> Vec<Value> {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let main = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": verbs, "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    let subresource = |name: &str, kind: &str, verbs: &[&str]| {
        json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "",
            "namespaced": resource.namespaced, "kind": kind, "verbs": verbs,
        })
    };
    let mut entries = vec![main];
    if resource.has_status {
        entries.push(subresource("status", &resource.kind, &["get", "patch", "update"]));
    }
    if resource.scale.is_some() {
        let mut scale = subresource("scale", "Scale", &["get", "patch", "update"]);
        scale["group"] = json!("autoscaling");
        scale["version"] = json!("v1");
        entries.push(scale);
    }
    if resource.is_core("pods") {
        entries.push(subresource("binding", "Binding", &["create"]));
        let mut eviction = subresource("eviction", "Eviction", &["create"]);
        eviction["group"] = json!("policy");
        eviction["version"] = json!("v1");
        entries.push(eviction);
    }
    if resource.is_core("serviceaccounts") {
        entries.push(subresource("token", "TokenRequest", &["create"]));
    }
    entries
}
