//! Structural schemas of custom kinds as an API server applies them: prune, default, validate, then the CEL rules - in
//! kube-apiserver's order.
//!
//! Like kube-apiserver, which ratchets, neither structure nor rules are checked again on a `spec` that a write leaves as it
//! is: status writes are the most frequent ones, and checks the most expensive part of them.

mod cause;
mod cel;
mod defaults;
mod path;
mod prune;
mod structure;
mod texts;

use std::sync::Arc;

use kube_cel::{CompiledSchema, compile_schema};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::cause::Cause;
pub use self::prune::Unknown;
pub(crate) use self::prune::{prune, prune_metadata};
pub(crate) use self::structure::{QUANTITY, check, check_metadata};
use self::texts::Texts;

/// Violation of a schema by an object.
#[derive(Debug)]
pub enum Violation {
    /// The schema does not have the fields at these paths.
    UnknownFields(Vec<Unknown>),
    /// The schema does not allow these values.
    Values(Vec<Cause>),
}

/// A schema, compiled once per process.
pub struct Schema {
    root: Value,
    rules: Mutex<CompiledSchema>,
    /// Rules outside `spec`, if there are any.
    rules_outside_spec: Option<Mutex<CompiledSchema>>,
    /// Rules that are enough for texts that were found right before, if there are rules about texts.
    of_texts: Option<Mutex<OfTexts>>,
}

/// Rules about texts.
struct OfTexts {
    right: Texts,
    /// All rules but these.
    others: CompiledSchema,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles an `openAPIV3Schema`, or returns the equal one that was compiled before.
    pub fn compile(root: &Value) -> Arc<Self> {
        // One for the whole process: tests have a server each with the same few definitions, and to compile their rules
        // was an eighth of what such a test took.
        static COMPILED: Mutex<Vec<Arc<Schema>>> = Mutex::new(Vec::new());
        let mut compiled = COMPILED.lock();
        if let Some(known) = compiled.iter().find(|known| known.root == *root) {
            return Arc::clone(known);
        }
        let new = Arc::new(Self::compiled(root));
        compiled.push(Arc::clone(&new));
        new
    }

    fn compiled(root: &Value) -> Self {
        let mut outside = root.clone();
        if let Some(spec) = outside.pointer_mut("/properties/spec") {
            *spec = json!({"type": "object"});
        }
        let rules_outside_spec = has_rules(&outside).then(|| Mutex::new(compile_schema(&outside)));
        let mut others = root.clone();
        let of_texts = Texts::taken_out_of(&mut others)
            .map(|right| Mutex::new(OfTexts { right, others: compile_schema(&others) }));
        Self { root: root.clone(), rules: Mutex::new(compile_schema(root)), rules_outside_spec, of_texts }
    }

    /// The schema as it was given.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// Brings an object into its stored form, or refuses it. `strict` refuses unknown fields instead of dropping
    /// them. `old` is what the object replaces.
    pub fn admit(&self, object: &mut Value, old: Option<&Value>, strict: bool) -> Result<(), Violation> {
        let dropped = prune::prune(&self.root, object);
        if strict && !dropped.is_empty() {
            return Err(Violation::UnknownFields(dropped));
        }
        defaults::fill(&self.root, object);
        let causes = self.check(object, old);
        if causes.is_empty() { Ok(()) } else { Err(Violation::Values(causes)) }
    }

    /// Faults of an object. Rules are evaluated only on objects whose structure is right, as they may rely on it.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let same_spec = old.is_some_and(|old| match (old.get("spec"), object.get("spec")) {
            (Some(before), Some(after)) => same(before, after),
            (before, after) => before == after,
        });
        let causes = structure::check(&self.root, object, if same_spec { &["spec"] } else { &[] });
        if !causes.is_empty() {
            return causes;
        }
        if same_spec {
            let rules = self.rules_outside_spec.as_ref();
            return rules.map_or_else(Vec::new, |rules| cel::check(&rules.lock(), object, old));
        }
        let Some(of_texts) = &self.of_texts else { return cel::check(&self.rules.lock(), object, old) };
        let mut of_texts = of_texts.lock();
        if of_texts.right.know(object) {
            return cel::check(&of_texts.others, object, old);
        }
        let causes = cel::check(&self.rules.lock(), object, old);
        if causes.is_empty() {
            of_texts.right.learn(object);
        }
        causes
    }
}

/// Returns whether two values are equal. Nearly always one is a copy of the other, with its fields in the same order: a
/// field is looked up by its name only where it is not.
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.into_iter().all(|((name, value), (in_place, candidate))| {
                    let found = if name == in_place { Some(candidate) } else { other.get(name) };
                    found.is_some_and(|found| same(value, found))
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (one, other) => one == other,
    }
}

/// Returns whether a schema has a rule anywhere. A property of that name is taken for one, which costs time and nothing
/// else.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-kubernetes-validations") || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_whatever_the_order_of_their_fields() {
        let values = [
            json!({"a": 1, "b": {"c": [1, 2], "d": null}}),
            json!({"b": {"d": null, "c": [1, 2]}, "a": 1}),
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
            json!({"a": 1, "c": {"c": [1, 2], "d": null}}),
            json!({"a": 1.5}),
            json!([1, 2]),
            json!([1, 2, 3]),
            json!("a"),
        ];
        for one in &values {
            for other in &values {
                assert_eq!(same(one, other), one == other, "{one} {other}");
            }
        }
    }
}
