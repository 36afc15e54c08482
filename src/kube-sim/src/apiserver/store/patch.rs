//! The verb patch: four formats, one update.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Part, Store, WriteOptions};
use crate::apiserver::{
    object::{self, Key},
    patch::{apply, json_patch, merge, strategic},
    refusal::Refusal,
    resource::Resource,
    versions,
};

/// A patch as it arrived.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Its format.
    pub kind: PatchKind,
    pub body: Value,
}

/// Formats of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Merge with knowledge of the lists of built-in kinds.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchKind {
    /// The format of a content type.
    pub(crate) fn of_content_type(content_type: &str) -> Result<Self, Refusal> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/json-patch+json" => Ok(Self::Json),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Self::Apply),
            other => Err(Refusal::unsupported_media_type(format!(
                "the body of the request was in an unknown format - `{other}` is no patch format"
            ))),
        }
    }
}

impl Store {
    /// Patches an object; server-side apply creates it when it does not exist.
    pub fn patch(
        &mut self,
        resource: &Resource,
        key: &Key,
        patch: &Patch,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        if patch.kind == PatchKind::Apply {
            return self.apply(resource, key, &patch.body, part, options);
        }
        if patch.kind == PatchKind::Strategic && resource.custom {
            return Err(Refusal::unsupported_media_type(
                "strategic merge patch is not supported for custom resources; send a merge patch or a JSON patch",
            ));
        }
        let stored = self.find(resource, key)?;
        let current = versions::to_served(resource, &stored);
        let mut patched = if part == Part::Status && is_about_status(patch) {
            seen_by_status_writes(&current)
        } else {
            current.into_owned()
        };
        match patch.kind {
            PatchKind::Merge => merge::merge(&mut patched, &patch.body),
            PatchKind::Json => patched = json_patch::patched(resource, &key.name, &patched, &patch.body)?,
            PatchKind::Strategic | PatchKind::Apply => strategic::merge(&mut patched, &patch.body)?,
        }
        if object::text(&patched, "/metadata/resourceVersion").is_empty() {
            object::metadata_mut(&mut patched)
                .insert("resourceVersion".to_owned(), stored["metadata"]["resourceVersion"].clone());
        }
        self.update(resource, key, patched, part, options)
    }

    fn apply(
        &mut self,
        resource: &Resource,
        key: &Key,
        intent: &Value,
        part: Part,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        if options.manager.is_empty() {
            return Err(Refusal::bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value",
            ));
        }
        versions::check_kind(resource, intent)?;
        let now = object::rfc3339(self.now());
        let intent = versions::to_stored(resource, intent.clone());
        let request = apply::Request {
            intent: &intent,
            manager: &options.manager,
            force: options.force,
            subresource: if part == Part::Status { "status" } else { "" },
            now: &now,
        };
        match self.find(resource, key) {
            Ok(current) => {
                let mut applied = apply::applied(resource, &current, &request)?;
                if object::text(&intent, "/metadata/resourceVersion").is_empty() {
                    object::metadata_mut(&mut applied)
                        .insert("resourceVersion".to_owned(), current["metadata"]["resourceVersion"].clone());
                }
                self.update(resource, key, applied, part, options)
            }
            Err(_) if part == Part::Main => {
                let named = json!({"metadata": {"name": key.name}});
                let empty = merge::merged(&json!({}), &named);
                let applied = apply::applied(resource, &empty, &request)?;
                self.create(resource, &key.namespace, applied, options)
            }
            Err(missing) => Err(missing),
        }
    }
}

/// Fields that a write of the status reads.
const OF_STATUS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Returns whether a patch merges into these fields and contains no others.
fn is_about_status(patch: &Patch) -> bool {
    let merges = matches!(patch.kind, PatchKind::Merge | PatchKind::Strategic);
    let fields = patch.body.as_object();
    merges && fields.is_some_and(|fields| fields.keys().all(|field| OF_STATUS.contains(&field.as_str())))
}

/// An object without what a write of the status takes from the stored one again: most writes are of the status, and the
/// rest of an object is most of it.
fn seen_by_status_writes(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let seen = fields.filter(|(field, _)| OF_STATUS.contains(&field.as_str()));
    Value::Object(seen.map(|(field, value)| (field.clone(), value.clone())).collect())
}
