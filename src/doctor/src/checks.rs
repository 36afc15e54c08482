//! The registry: every entry of the two lists of the specification, and what was learned since. One file per part of
//! the world.

mod account;
mod classes;
mod controller;
mod credentials;
mod definitions;
mod installation;
mod interruptions;
mod joining;
mod keys;
mod network;
mod nodes;
mod pods;
mod policies;
mod pools;
mod quotas;
mod reports;
mod rights;
mod windows;
mod workloads;

pub(crate) use interruptions::queue_name;
pub(crate) use keys::volume_keys;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::check::Check;

/// Every check: first the account, then the cluster, each in the order of the specification.
pub fn all() -> Vec<Check> {
    let tables: [&[Check]; 16] = [
        account::CHECKS,
        rights::CHECKS,
        quotas::CHECKS,
        network::CHECKS,
        keys::CHECKS,
        interruptions::CHECKS,
        installation::CHECKS,
        controller::CHECKS,
        credentials::CHECKS,
        pools::CHECKS,
        classes::CHECKS,
        nodes::CHECKS,
        pods::CHECKS,
        workloads::CHECKS,
        windows::CHECKS,
        reports::CHECKS,
    ];
    let mut all: Vec<Check> = tables.concat();
    all.sort_by_key(|check| (check.id.starts_with('D'), number(check.id)));
    all
}

/// The number behind the letter.
fn number(id: &str) -> u32 {
    id.get(2..).and_then(|text| text.parse().ok()).unwrap_or(u32::MAX)
}

/// The name of an object, which every object from the API server has.
fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// `Kind namespace/name`.
fn object(kind: &str, metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    match metadata.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{}", name(metadata)),
        None => format!("{kind} {}", name(metadata)),
    }
}

/// Returns whether a selector selects objects with these labels, as Kubernetes reads it: an empty one everything, none nothing.
fn selects(selector: Option<&LabelSelector>, labels: Option<&BTreeMap<String, String>>) -> bool {
    let labels =
        labels.into_iter().flatten().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    karpenter_api::convert::selector(selector).is_some_and(|selector| selector.matches(&labels.collect()))
}
