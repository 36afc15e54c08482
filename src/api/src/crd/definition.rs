//! The envelope of a CustomResourceDefinition: names, scope, columns, subresources.

use serde_json::{Value, json};

use super::schema::Schema;

/// Everything about a custom resource except its schema.
pub(super) struct Definition {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) singular: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) category: &'static str,
    pub(super) scope: Scope,
    pub(super) columns: Vec<Column>,
    /// Paths that the scale subresource reads and writes, for kinds that have one.
    pub(super) scale: Option<Scale>,
    pub(super) description: &'static str,
    /// Refuses an object without `spec`.
    pub(super) spec_required: bool,
}

/// Scope of the objects of a kind.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    Cluster,
    Namespaced,
}

pub(super) struct Scale {
    pub(super) spec_replicas: &'static str,
    pub(super) status_replicas: &'static str,
}

/// One column of `kubectl get`.
pub(super) struct Column {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
    /// Column is shown with `-o wide` only.
    wide: bool,
}

impl Column {
    pub(super) const fn text(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: "string", wide: false }
    }

    pub(super) const fn integer(name: &'static str, path: &'static str) -> Self {
        Self { name, path, kind: "integer", wide: false }
    }

    pub(super) const fn ready() -> Self {
        Self::text("Ready", r#".status.conditions[?(@.type=="Ready")].status"#)
    }

    pub(super) const fn age() -> Self {
        Self { name: "Age", path: ".metadata.creationTimestamp", kind: "date", wide: false }
    }

    pub(super) const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }

    fn to_value(&self) -> Value {
        let mut column = json!({"jsonPath": self.path, "name": self.name});
        if self.wide {
            column["priority"] = 1.into();
        }
        column["type"] = self.kind.into();
        column
    }
}

impl Definition {
    /// The definition as a JSON value.
    pub(super) fn render(&self, spec: Schema, status: Schema) -> Value {
        let mut names = json!({
            "categories": [self.category],
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
            "plural": self.plural,
            "singular": self.singular,
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = self.short_names.into();
        }
        let mut subresources = json!({});
        if let Some(scale) = &self.scale {
            subresources["scale"] = json!({
                "specReplicasPath": scale.spec_replicas,
                "statusReplicasPath": scale.status_replicas,
            });
        }
        subresources["status"] = json!({});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "names": names,
                "scope": match self.scope {
                    Scope::Cluster => "Cluster",
                    Scope::Namespaced => "Namespaced",
                },
                "versions": [{
                    "additionalPrinterColumns":
                        self.columns.iter().map(Column::to_value).collect::<Vec<_>>(),
                    "name": self.version,
                    "schema": {"openAPIV3Schema": self.root(spec, status).into_value()},
                    "served": true,
                    "storage": true,
                    "subresources": subresources,
                }],
            },
        })
    }

    fn root(&self, spec: Schema, status: Schema) -> Schema {
        let root = Schema::object()
            .describe(self.description)
            .optional("apiVersion", Schema::string())
            .optional("kind", Schema::string())
            .optional("metadata", Schema::object());
        let root = if self.spec_required { root.required("spec", spec) } else { root.optional("spec", spec) };
        root.optional("status", status)
    }
}
