//! The service account that every namespace has.

use serde_json::json;

use super::{StandIn, cluster::Cluster};
use crate::apiserver::object;

pub(super) struct ServiceAccounts;

impl StandIn for ServiceAccounts {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("", "namespaces"), ("", "serviceaccounts")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let accounts = cluster.list("", "serviceaccounts");
        for namespace in cluster.list("", "namespaces").iter().filter(|n| !object::is_deleting(n)) {
            let name = object::name(namespace);
            if !accounts.iter().any(|a| object::namespace(a) == name && object::name(a) == "default") {
                cluster.create("", "serviceaccounts", name, json!({"metadata": {"name": "default"}}));
            }
        }
    }
}
