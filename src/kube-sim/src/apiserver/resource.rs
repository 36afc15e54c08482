//! Description of one kind of object: names, scope, subresources, columns and schema.
//!
//! Built-in kinds come from the table in [`super::builtin`], custom ones from stored
//! CustomResourceDefinitions ([`super::crd`]). Both end up in one [`Registry`], so no verb asks which of the
//! two it has in hand except through the fields of [`Resource`].

use std::{collections::BTreeMap, sync::Arc};

use karpenter_api::schema::Schema;

use super::columns::Column;

/// One served version of one kind.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts of a kind, as discovery documents list them"
)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// Served version, for example `v1`.
    pub version: String,
    /// Kind, for example `NodeClaim`.
    pub kind: String,
    /// Plural name used in paths.
    pub plural: String,
    /// Singular name that kubectl accepts.
    pub singular: String,
    /// Short names that kubectl accepts.
    pub short_names: Vec<String>,
    /// Categories, for example `all`.
    pub categories: Vec<String>,
    /// True if objects live in a namespace.
    pub namespaced: bool,
    /// True if `/status` exists and status is writable only through it.
    pub has_status: bool,
    /// Paths of the scale subresource, when there is one.
    pub scale: Option<Scale>,
    /// True if writes of the spec count `metadata.generation` up.
    pub counts_generations: bool,
    /// True if the kind is defined by a CustomResourceDefinition.
    pub custom: bool,
    /// Columns of `kubectl get` after the name.
    pub columns: Vec<Column>,
    /// Schema of a custom kind.
    pub schema: Option<Arc<Schema>>,
}

/// JSON pointers of the scale subresource.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Path of the wanted count.
    pub spec: String,
    /// Path of the observed count.
    pub status: String,
    /// Path of the label selector, in text or structured form; empty when there is none.
    pub selector: String,
}

/// The table that all versions of one kind share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name.
    pub plural: String,
}

impl TableName {
    /// A table name.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.to_owned(), plural: plural.to_owned() }
    }
}

impl Resource {
    /// `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The table its objects are stored in. Both APIs of events share one, as in a real cluster.
    pub fn table(&self) -> TableName {
        let group = if self.group == "events.k8s.io" { "" } else { &self.group };
        TableName::new(group, &self.plural)
    }

    /// `plural.group`, as kube-apiserver names a resource in messages.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `Kind.group`, as kube-apiserver names a kind in validation messages.
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Returns whether this is the core resource `plural`.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }
}

/// Every resource the server serves, by path.
#[derive(Debug, Default, Clone)]
pub struct Registry {
    by_path: BTreeMap<(String, String, String), Arc<Resource>>,
}

impl Registry {
    /// A registry of the given resources.
    pub fn of(resources: impl IntoIterator<Item = Resource>) -> Self {
        let mut registry = Self::default();
        for resource in resources {
            registry.insert(resource);
        }
        registry
    }

    /// Adds or replaces a resource.
    pub fn insert(&mut self, resource: Resource) {
        let path = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        self.by_path.insert(path, Arc::new(resource));
    }

    /// Stops serving every version of a resource.
    pub fn remove(&mut self, table: &TableName) {
        self.by_path.retain(|(group, _, plural), _| *group != table.group || *plural != table.plural);
    }

    /// The resource served at `group/version/plural`.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    /// Any served version of a table.
    pub(crate) fn of_table(&self, table: &TableName) -> Option<Arc<Resource>> {
        self.iter().find(|r| r.group == table.group && r.plural == table.plural).cloned()
    }

    /// The resource of a kind, in any version when `version` is empty.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let matches = |r: &&Arc<Resource>| {
            r.group == group && r.kind == kind && (version.is_empty() || r.version == version)
        };
        self.iter().find(matches).cloned()
    }

    /// All resources in order of group, version and plural name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_path.values()
    }
}
