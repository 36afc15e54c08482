//! Objects as the client wants to see them: whole, as rows of a table, or without spec and status.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::apiserver::{columns, object, resource::Resource, store::Store, versions};

/// Representation of objects that the client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Full,
    Table,
    Metadata,
}

impl View {
    /// The view that an `Accept` header asks for first.
    pub(super) fn wanted(accept: &str) -> Self {
        let first = accept.split(',').next().unwrap_or_default();
        match first {
            f if f.contains("as=Table") => Self::Table,
            f if f.contains("as=PartialObjectMetadata") => Self::Metadata,
            _ => Self::Full,
        }
    }

    /// One object in this view.
    pub(super) fn one<'a>(self, resource: &Resource, stored: &'a Value, store: &Store) -> Cow<'a, Value> {
        match self {
            Self::Full => versions::to_served(resource, stored),
            Self::Table => {
                let revision = object::revision(stored);
                Cow::Owned(columns::table(&resource.columns, &[stored], store.now(), revision))
            }
            Self::Metadata => Cow::Owned(metadata_only(stored)),
        }
    }
}

/// An object without anything but its metadata.
pub(super) fn metadata_only(stored: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": stored["metadata"]})
}
