//! Structural schemas of custom kinds: prune, default, validate, then the CEL rules - in kube-apiserver's order.

mod cel;
mod defaults;
mod prune;
mod structure;

use std::sync::Mutex;

use kube_cel::{CompiledSchema, compile_schema};
use serde_json::Value;

use super::{
    object,
    refusal::{Cause, Refusal},
    resource::Resource,
};

/// A schema, compiled once per CustomResourceDefinition.
pub struct Schema {
    root: Value,
    rules: Mutex<CompiledSchema>,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles an `openAPIV3Schema`.
    pub fn compile(root: &Value) -> Self {
        Self { root: root.clone(), rules: Mutex::new(compile_schema(root)) }
    }

    /// The schema as it was given.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// Brings an object into its stored form, or refuses it. `strict` refuses unknown fields instead of dropping
    /// them. `old` is what the object replaces.
    pub fn admit(
        &self,
        resource: &Resource,
        object: &mut Value,
        old: Option<&Value>,
        strict: bool,
    ) -> Result<(), Refusal> {
        let dropped = prune::prune(&self.root, object);
        if strict && !dropped.is_empty() {
            let fields: Vec<String> = dropped.iter().map(|f| format!("unknown field \"{f}\"")).collect();
            return Err(Refusal::bad_request(format!("strict decoding error: {}", fields.join(", "))));
        }
        defaults::fill(&self.root, object);
        let causes = self.check(object, old);
        if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(resource, object::name(object), causes)) }
    }

    /// What is wrong with an object. Rules are evaluated only on objects whose structure is right, as they may
    /// rely on it.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let causes = structure::check(&self.root, object);
        if !causes.is_empty() {
            return causes;
        }
        let rules = self.rules.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        cel::check(&rules, object, old)
    }
}
