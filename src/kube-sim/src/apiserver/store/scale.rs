//! The scale subresource.

use serde_json::{Value, json};

use super::{Part, Patch, PatchKind, Store, WriteOptions};
use crate::apiserver::{
    Cause,
    object::{self, Key},
    patch::{json_patch, merge},
    refusal::Refusal,
    resource::{Resource, Scale},
    selector::label_selector_text,
};

impl Store {
    /// The `Scale` of an object.
    pub fn scale(&self, resource: &Resource, key: &Key) -> Result<Value, Refusal> {
        let paths = resource.scale.as_ref().ok_or_else(Refusal::no_such_path)?;
        Ok(view(paths, &*self.find(resource, key)?))
    }

    /// Sets the wanted count from a `Scale`.
    pub(crate) fn set_scale(
        &mut self,
        resource: &Resource,
        key: &Key,
        scale: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Refusal> {
        let paths = resource.scale.as_ref().ok_or_else(Refusal::no_such_path)?;
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", &json!(replicas), why);
            return Err(Refusal::invalid(resource, &key.name, vec![cause]));
        }
        let current = self.find(resource, key)?;
        let given = object::text(scale, "/metadata/resourceVersion");
        if !given.is_empty() && given != object::text(&current, "/metadata/resourceVersion") {
            return Err(Refusal::stale(resource, &key.name));
        }
        let mut object = Value::clone(&current);
        set(&mut object, &paths.spec, json!(replicas));
        let object = crate::apiserver::versions::to_served(resource, &object).into_owned();
        let stored = self.update(resource, key, object, Part::Main, options)?;
        Ok(view(paths, &stored))
    }

    /// Patches the `Scale` of an object.
    pub fn patch_scale(
        &mut self,
        resource: &Resource,
        key: &Key,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Value, Refusal> {
        let current = self.scale(resource, key)?;
        let patched = match patch.kind {
            PatchKind::Json => json_patch::patched(resource, &key.name, &current, &patch.body)?,
            PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => {
                merge::merged(&current, &patch.body)
            }
        };
        self.set_scale(resource, key, &patched, options)
    }
}

fn view(paths: &Scale, object: &Value) -> Value {
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = match object.pointer(&paths.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(structured) if !paths.selector.is_empty() => label_selector_text(structured),
        _ => String::new(),
    };
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": count(&paths.spec)},
        "status": {"replicas": count(&paths.status), "selector": selector},
    })
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.trim_start_matches('/').split('/') {
        at = &mut at[step];
    }
    *at = value;
}
