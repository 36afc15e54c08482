//! The CustomResourceDefinitions, generated from the schemas in the modules below.
//!
//! The definitions are the contract with users: defaults, patterns, enumerations and CEL rules are those of
//! Karpenter v1.14 with the AWS provider's additions, quirks included. [`crate::cases`] pins both sides of
//! every rule; the tables run here, in the simulated API server and on a real kube-apiserver.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

mod capacitybuffer;
mod condition;
mod definition;
mod ec2nodeclass;
mod node_template;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod pattern;
mod schema;

#[cfg(test)]
mod tests;

/// Every definition as a JSON value, ordered by name.
pub fn crd_values() -> Vec<Value> {
    vec![
        capacitybuffer::definition(),
        ec2nodeclass::definition(),
        nodeclaim::definition(),
        nodeoverlay::definition(),
        nodepool::definition(),
    ]
}

/// Every definition, ordered by name.
pub fn crds() -> Vec<CustomResourceDefinition> {
    crd_values()
        .into_iter()
        .map(|value| serde_json::from_value(value).expect("invariant: the builder only makes definitions"))
        .collect()
}

/// Every definition as one YAML stream, ordered by name, each document introduced by `---`.
pub fn crds_yaml() -> String {
    let mut stream = String::new();
    for value in crd_values() {
        let yaml = serde_saphyr::to_string(&value).expect("invariant: JSON values have a YAML form");
        stream.push_str("---\n");
        stream.push_str(yaml.trim_end());
        stream.push('\n');
    }
    stream
}
