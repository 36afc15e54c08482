//! Structural schemas of custom kinds as an API server applies them: prune, default, validate, then the CEL rules - in
//! kube-apiserver's order.
//!
//! Like kube-apiserver, which ratchets, neither structure nor rules are checked again on a `spec` that a write leaves as it
//! is: status writes are the most frequent ones, and checks the most expensive part of them.

mod builtin;
mod cause;
mod cel;
mod defaults;
mod path;
mod prune;
mod structure;
mod texts;

use std::sync::{Arc, LazyLock};

use kube_cel::{CompiledSchema, compile_schema};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use self::cause::Cause;
pub use self::prune::Unknown;
use self::texts::Texts;
use crate::validation;
use crate::yaml::without_nulls;

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

/// Fields that neither our definitions nor Kubernetes v1.35 have, in an object of one of our kinds or of a built-in kind that is
/// read; none for objects of other kinds and versions. A strict write, as of `kubectl apply`, is refused because of them.
pub fn unknown_fields(object: &Value) -> Vec<Unknown> {
    let mut object = object.clone();
    let Some(schema) = schema_of(&object).or_else(|| builtin::schema_of(&object)) else { return Vec::new() };
    let mut unknown = prune::prune(schema, &mut object);
    if let Some(metadata) = object.get_mut("metadata") {
        unknown.extend(prune::prune_metadata(builtin::metadata(), metadata));
    }
    unknown
}

/// Causes for which an API server with our definitions refuses an object of one of our kinds, or of a built-in kind that is
/// read, its unknown fields aside; none for objects of other kinds and versions.
pub fn refusals(object: &Value) -> Vec<Cause> {
    let Some(schema) = schema_of(object) else { return of_builtin(object) };
    let mut causes = of_metadata(object);
    let mut object = object.clone();
    match Schema::compile(schema).admit(&mut object, None, false) {
        Err(Violation::Values(of_schema)) => causes.extend(of_schema),
        Ok(()) | Err(Violation::UnknownFields(_)) => {}
    }
    causes
}

/// Returns whether objects of this kind and version are checked: one of ours, or a built-in kind that is read.
pub fn is_checked(object: &Value) -> bool {
    schema_of(object).or_else(|| builtin::schema_of(object)).is_some()
}

/// Fields of a value that a schema does not have, and what it refuses of the others. It may be any JSON schema: an object
/// without fields of its own may have any.
pub fn against(schema: &Value, value: &Value) -> (Vec<Unknown>, Vec<Cause>) {
    let mut open = schema.clone();
    open_up(&mut open);
    (prune::prune(&open, &mut value.clone()), structure::check(schema, value, &[]))
}

/// Lets objects whose fields a schema does not name have any.
fn open_up(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        let is_open = !fields.contains_key("properties") && !fields.contains_key("additionalProperties");
        if is_open && fields.get("type").is_none_or(|kind| kind == "object") {
            fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
        }
        for (name, below) in fields.iter_mut() {
            match name.as_str() {
                "properties" => below.as_object_mut().into_iter().flatten().for_each(|(_, one)| open_up(one)),
                "items" | "additionalProperties" => open_up(below),
                _ => {}
            }
        }
    }
}

/// Refusals of a built-in kind: rules about values are checked only where the structure is right, as they may rely on it.
fn of_builtin(object: &Value) -> Vec<Cause> {
    let Some(schema) = builtin::schema_of(object) else { return Vec::new() };
    let mut object = object.clone();
    without_nulls(&mut object);
    let mut causes = of_metadata(&object);
    let structure = structure::check(schema, &object, &[]);
    if structure.is_empty() {
        causes.extend(validation::of_kind(&object));
    }
    causes.extend(structure);
    causes
}

fn of_metadata(object: &Value) -> Vec<Cause> {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    without_nulls(&mut metadata);
    let causes = structure::check_metadata(builtin::metadata(), &metadata);
    if causes.is_empty() { validation::of_metadata(object, &metadata) } else { causes }
}

/// The object as an API server with our definitions stores it, defaults filled in; objects of other kinds and versions as they
/// are. Unknown fields are dropped.
///
/// # Errors
/// Every field that is refused, and why.
pub fn admitted(object: &Value) -> Result<Value, Vec<Cause>> {
    let mut object = object.clone();
    let Some(schema) = schema_of(&object) else { return Ok(object) };
    match Schema::compile(schema).admit(&mut object, None, false) {
        Err(Violation::Values(causes)) => Err(causes),
        Ok(()) | Err(Violation::UnknownFields(_)) => Ok(object),
    }
}

/// The schema of an object of one of our kinds.
fn schema_of(object: &Value) -> Option<&'static Value> {
    // Made once: a folder may have thousands of objects.
    static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(crate::crd_values);
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/')?;
    let defines = |definition: &&Value| {
        definition["spec"]["group"] == group && definition["spec"]["names"]["kind"] == text("/kind")
    };
    let served = |definition: &'static Value| {
        let versions = definition["spec"]["versions"].as_array()?;
        let served = versions.iter().find(|one| one["name"] == version)?;
        served.pointer("/schema/openAPIV3Schema")
    };
    DEFINITIONS.iter().find(defines).and_then(served)
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

    #[test]
    fn every_field_that_is_refused_is_named_and_what_is_unknown_is_not() {
        let pool = |spec: Value| json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec});
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        let right = json!({"template": {"spec": {"requirements": [], "nodeClassRef": class}}, "weigth": 5});
        let fields =
            |object: &Value| refusals(object).into_iter().map(|cause| cause.field).collect::<Vec<_>>();
        assert_eq!(fields(&pool(right.clone())), Vec::<String>::new());
        let mut wrong = right;
        wrong["weight"] = json!(0);
        wrong["replicas"] = json!("3");
        assert_eq!(fields(&pool(wrong.clone())), ["spec.weight", "spec.replicas"]);
        let mut other = pool(wrong);
        other["apiVersion"] = json!("karpenter.sh/v1beta1");
        assert_eq!(fields(&other), Vec::<String>::new(), "no version of ours");
    }
}
