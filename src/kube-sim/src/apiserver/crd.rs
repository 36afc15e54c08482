//! CustomResourceDefinitions: from the stored definition to the resources it makes the server serve.

use karpenter_api::schema::Schema;
use serde_json::{Value, json};

use super::{
    columns::{Column, Source},
    jsonpath::JsonPath,
    object::{list, text},
    resource::{Resource, Scale, TableName},
};

/// Returns whether a table holds definitions.
pub(crate) fn is_crd_table(table: &TableName) -> bool {
    table.group == "apiextensions.k8s.io" && table.plural == "customresourcedefinitions"
}

/// The table of the kind a definition defines.
pub(crate) fn table_of(definition: &Value) -> TableName {
    TableName::new(text(definition, "/spec/group"), text(definition, "/spec/names/plural"))
}

/// One resource per served version.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let served = |version: &&Value| version["served"] == true;
    list(definition, "/spec/versions").iter().filter(served).map(|v| resource(definition, v)).collect()
}

/// The status that the apiextensions controllers would write: names accepted, established.
pub(crate) fn established_status(definition: &Value, now: &str) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now});
    let stored = list(definition, "/spec/versions").iter().filter(|v| v["storage"] == true);
    json!({
        "acceptedNames": definition.pointer("/spec/names").cloned().unwrap_or_default(),
        "storedVersions": stored.map(|v| v["name"].clone()).collect::<Vec<_>>(),
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    })
}

fn resource(definition: &Value, version: &Value) -> Resource {
    let names = |pointer: &str| {
        let list = list(definition, pointer).iter().filter_map(Value::as_str);
        list.map(str::to_owned).collect::<Vec<_>>()
    };
    let kind = text(definition, "/spec/names/kind").to_owned();
    let singular = text(definition, "/spec/names/singular");
    let subresources = &version["subresources"];
    let pointer = |name: &str| text(&subresources["scale"], name).replace('.', "/");
    let schema = version.pointer("/schema/openAPIV3Schema");
    Resource {
        group: text(definition, "/spec/group").to_owned(),
        version: text(version, "/name").to_owned(),
        singular: if singular.is_empty() { kind.to_lowercase() } else { singular.to_owned() },
        kind,
        plural: text(definition, "/spec/names/plural").to_owned(),
        short_names: names("/spec/names/shortNames"),
        categories: names("/spec/names/categories"),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        has_status: subresources.get("status").is_some(),
        scale: subresources.get("scale").map(|_| Scale {
            spec: pointer("/specReplicasPath"),
            status: pointer("/statusReplicasPath"),
            selector: pointer("/labelSelectorPath"),
        }),
        counts_generations: true,
        custom: true,
        columns: columns(version),
        schema: schema.map(Schema::compile),
    }
}

fn columns(version: &Value) -> Vec<Column> {
    let declared = list(version, "/additionalPrinterColumns");
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    let declared = if declared.is_empty() { std::slice::from_ref(&age) } else { declared };
    let column = |c: &Value| {
        Some(Column {
            name: text(c, "/name").to_owned(),
            kind: text(c, "/type").to_owned(),
            priority: c["priority"].as_i64().unwrap_or(0),
            source: Source::Path(JsonPath::parse(text(c, "/jsonPath"))?),
        })
    };
    declared.iter().filter_map(column).collect()
}
