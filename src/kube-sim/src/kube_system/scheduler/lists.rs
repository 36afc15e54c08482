//! Where the scheduler reads objects: a cluster, or a list of them.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::object::text;
use crate::kube_system::cluster::Cluster;

/// Objects by core group and plural name.
pub(super) trait Lists {
    fn list(&self, group: &str, plural: &str) -> Vec<Arc<Value>>;
}

impl Lists for Cluster<'_> {
    fn list(&self, group: &str, plural: &str) -> Vec<Arc<Value>> {
        Cluster::list(self, group, plural)
    }
}

/// Objects that no server keeps.
pub(super) struct Objects<'a>(pub(super) &'a [Arc<Value>]);

impl Lists for Objects<'_> {
    /// Finds kinds by their plural names, which are regular for all that the scheduler reads.
    fn list(&self, _group: &str, plural: &str) -> Vec<Arc<Value>> {
        let is_listed = |object: &&Arc<Value>| {
            let kind = text(object, "/kind").to_lowercase();
            plural.strip_prefix(&kind).is_some_and(|end| matches!(end, "s" | "es"))
        };
        self.0.iter().filter(is_listed).cloned().collect()
    }
}
