//! What an API server makes of an object of a manifest: fields it does not know, values it refuses, what it stores.
//!
//! Objects of our kinds are judged by their definitions. Of Kubernetes, the kinds that are read are judged by the schemas of
//! v1.35 and by the rules that no schema states.

mod builtin;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::convert::validation;
use crate::schema::{self, Cause, Schema, Unknown, Violation};
use crate::yaml::without_nulls;

/// Fields that neither our definitions nor Kubernetes v1.35 have, in an object of one of our kinds or of a built-in kind that is
/// read; none for objects of other kinds and versions. A strict write, as of `kubectl apply`, is refused because of them.
pub fn unknown_fields(object: &Value) -> Vec<Unknown> {
    let mut object = object.clone();
    let Some(schema) = schema_of(&object).or_else(|| builtin::schema_of(&object)) else { return Vec::new() };
    let mut unknown = schema::prune(schema, &mut object);
    if let Some(metadata) = object.get_mut("metadata") {
        unknown.extend(schema::prune_metadata(builtin::metadata(), metadata));
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

/// Everything for which an API server refuses a strict write of an object: [unknown fields](unknown_fields), and its
/// [refusals] unless the object is a part of one that is there.
pub fn faults(object: &Value, is_whole: bool) -> Vec<Cause> {
    let unknown = unknown_fields(object).into_iter().map(|one| Cause::unknown(one.field));
    unknown.chain(if is_whole { refusals(object) } else { Vec::new() }).collect()
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
    (schema::prune(&open, &mut value.clone()), schema::check(schema, value, &[]))
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
    let structure = schema::check(schema, &object, &[]);
    if structure.is_empty() {
        causes.extend(validation::of_kind(&object));
    }
    causes.extend(structure);
    causes
}

fn of_metadata(object: &Value) -> Vec<Cause> {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    without_nulls(&mut metadata);
    let causes = schema::check_metadata(builtin::metadata(), &metadata);
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

#[cfg(test)]
mod tests {
    use super::*;

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
