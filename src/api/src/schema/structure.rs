//! Structural validation: types, enums, patterns, bounds, required fields, formats, and lists that are sets or
//! maps. Errors are worded as kube-apiserver words them.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use regex::Regex;
use serde_json::{Map, Value};

use super::Cause;
use super::path::Path;

/// Format of amounts in the schemas of built-in kinds: a number or a text.
pub(crate) const QUANTITY: &str = "quantity";

/// Faults in the structure of `object`, in the order of its fields; those at the top that are known to be right are left
/// out.
pub(crate) fn check(schema: &Value, object: &Value, right: &[&str]) -> Vec<Cause> {
    let mut causes = Vec::new();
    Walk { right, causes: &mut causes }.walk(schema, object, &Path::Root);
    causes
}

/// Faults in the structure of the metadata of an object.
pub(crate) fn check_metadata(schema: &Value, metadata: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    Walk { right: &[], causes: &mut causes }.walk(schema, metadata, &Path::Field(&Path::Root, "metadata"));
    causes
}

struct Walk<'a> {
    right: &'a [&'a str],
    causes: &'a mut Vec<Cause>,
}

impl Walk<'_> {
    fn walk(&mut self, schema: &Value, value: &Value, path: &Path<'_>) {
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        if !check_type(schema, value, path, self.causes) {
            return;
        }
        check_enum(schema, value, path, self.causes);
        match value {
            Value::String(text) => check_string(schema, text, path, self.causes),
            Value::Number(number) => {
                check_number(schema, number.as_f64().unwrap_or(f64::NAN), path, self.causes);
            }
            Value::Array(list) => self.check_list(schema, list, path),
            Value::Object(map) => self.check_map(schema, map, value, path),
            _ => {}
        }
        self.check_branches(schema, value, path);
    }

    fn check_list(&mut self, schema: &Value, list: &[Value], path: &Path<'_>) {
        let length = list.len() as u64;
        if let Some(max) = schema["maxItems"].as_u64().filter(|&max| length > max) {
            self.causes.push(Cause {
                reason: "FieldValueTooMany".to_owned(),
                message: format!("Too many: {length}: must have at most {max} items"),
                field: path.text(),
            });
        }
        if let Some(min) = schema["minItems"].as_u64().filter(|&min| length < min) {
            let path = path.text();
            let why = format!("{path} in body should have at least {min} items");
            self.causes.push(Cause::invalid(&path, &Value::from(length), &why));
        }
        check_unique(schema, list, path, self.causes);
        if let Some(items) = schema.get("items") {
            for (index, entry) in list.iter().enumerate() {
                self.walk(items, entry, &Path::Item(path, index));
            }
        }
    }

    fn check_map(&mut self, schema: &Value, map: &Map<String, Value>, value: &Value, path: &Path<'_>) {
        for field in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(field) {
                self.causes.push(Cause::required(&Path::Field(path, field).text(), ""));
            }
        }
        let size = map.len() as u64;
        if let Some(max) = schema["maxProperties"].as_u64().filter(|&max| size > max) {
            self.causes.push(Cause {
                reason: "FieldValueTooMany".to_owned(),
                message: format!("Too many: {size}: must have at most {max} items"),
                field: path.text(),
            });
        }
        if let Some(min) = schema["minProperties"].as_u64().filter(|&min| size < min) {
            let path = path.text();
            let why = format!("{path} in body should have at least {min} properties");
            self.causes.push(Cause::invalid(&path, value, &why));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let additional = schema.get("additionalProperties").filter(|a| a.is_object());
        for (field, below) in map {
            let schema = properties.and_then(|p| p.get(field)).or(additional);
            if path.is_root() && (field == "metadata" || self.right.contains(&field.as_str())) {
                continue;
            }
            if let Some(schema) = schema {
                self.walk(schema, below, &Path::Field(path, field));
            }
        }
    }

    fn check_branches(&mut self, schema: &Value, value: &Value, path: &Path<'_>) {
        let right = self.right;
        let fits = |branch: &Value| {
            let mut found = Vec::new();
            Walk { right, causes: &mut found }.walk(branch, value, path);
            found.is_empty()
        };
        let branches = |name: &str| schema.get(name).and_then(Value::as_array);
        for branch in branches("allOf").into_iter().flatten() {
            self.walk(branch, value, path);
        }
        let mut refuse = |why: &str| {
            let path = path.text();
            self.causes.push(Cause::invalid(&path, value, &format!("{path} in body {why}")));
        };
        if branches("anyOf").is_some_and(|list| !list.iter().any(fits)) {
            refuse("must validate at least one schema (anyOf)");
        }
        if branches("oneOf").is_some_and(|list| list.iter().filter(|b| fits(b)).count() != 1) {
            refuse("must validate one and only one schema (oneOf)");
        }
        if schema.get("not").is_some_and(fits) {
            refuse("must not validate the schema (not)");
        }
    }
}

fn check_type(schema: &Value, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) -> bool {
    let actual = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() || n.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = if schema["x-kubernetes-int-or-string"] == true {
        matches!(actual, "integer" | "string")
    } else if schema["format"] == QUANTITY {
        matches!(actual, "integer" | "number" | "string")
    } else {
        match schema["type"].as_str() {
            None | Some("") => true,
            Some("number") => matches!(actual, "integer" | "number"),
            Some(expected) => expected == actual,
        }
    };
    if !fits {
        let quantity = (schema["format"] == QUANTITY).then_some("a quantity");
        let expected = schema["type"].as_str().or(quantity).unwrap_or("integer,string");
        let path = path.text();
        let at = if path.is_empty() { "<nil>" } else { &path };
        causes.push(Cause {
            reason: "FieldValueTypeInvalid".to_owned(),
            message: format!(
                "Invalid value: \"{actual}\": {path} in body must be of type {expected}: \"{actual}\""
            ),
            field: at.to_owned(),
        });
    }
    fits
}

fn check_enum(schema: &Value, value: &Value, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let Some(allowed) = schema["enum"].as_array() else { return };
    if !allowed.contains(value) {
        let names = allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        causes.push(Cause::unsupported(&path.text(), value, &names.collect::<Vec<_>>()));
    }
}

fn check_string(schema: &Value, text: &str, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut invalid = |why: &dyn Fn(&str) -> String| {
        let path = path.text();
        causes.push(Cause::invalid(&path, &Value::String(text.to_owned()), &why(&path)));
    };
    let length = text.chars().count() as u64;
    if let Some(max) = schema["maxLength"].as_u64().filter(|&max| length > max) {
        invalid(&|_| format!("may not be more than {max} bytes"));
    }
    if let Some(min) = schema["minLength"].as_u64().filter(|&min| length < min) {
        invalid(&|path| format!("{path} in body should be at least {min} chars long"));
    }
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !matches(pattern, text)) {
        invalid(&|path| format!("{path} in body should match '{pattern}'"));
    }
    if schema["format"] == QUANTITY
        && let Err(error) = crate::quantity::amount(text)
    {
        invalid(&|_| format!("{error}"));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        invalid(&|path| format!("{path} in body must be of type date-time: \"{text}\""));
    }
}

/// Patterns search, they are not anchored. A pattern that this engine cannot compile accepts everything, so that
/// the double is never stricter than the original by accident.
fn matches(pattern: &str, text: &str) -> bool {
    // One for the whole process: tests have a thread and a server each, and compiling costs more than the rest of a write.
    static COMPILED: RwLock<BTreeMap<String, Option<Regex>>> = RwLock::new(BTreeMap::new());
    let fits = |regex: &Option<Regex>| regex.as_ref().is_none_or(|regex| regex.is_match(text));
    if let Some(regex) = COMPILED.read().get(pattern) {
        return fits(regex);
    }
    let mut compiled = COMPILED.write();
    fits(compiled.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()))
}

fn check_number(schema: &Value, number: f64, path: &Path<'_>, causes: &mut Vec<Cause>) {
    let mut invalid = |why: &str, bound: f64| {
        let path = path.text();
        let shown = serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number);
        let shown = if number.fract() == 0.0 { Value::String(format!("{number:.0}")) } else { shown };
        let text = shown.as_str().map_or_else(|| shown.to_string(), str::to_owned);
        causes.push(Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {text}: {path} in body should be {why} {bound}"),
            field: path,
        });
    };
    if let Some(max) = schema["maximum"].as_f64() {
        let exclusive = schema["exclusiveMaximum"] == true;
        if number > max || (exclusive && number >= max) {
            let bound = if exclusive { "less than" } else { "less than or equal to" };
            invalid(bound, max);
        }
    }
    if let Some(min) = schema["minimum"].as_f64() {
        let exclusive = schema["exclusiveMinimum"] == true;
        if number < min || (exclusive && number <= min) {
            let bound = if exclusive { "greater than" } else { "greater than or equal to" };
            invalid(bound, min);
        }
    }
}

fn check_unique(schema: &Value, list: &[Value], path: &Path<'_>, causes: &mut Vec<Cause>) {
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = || schema["x-kubernetes-list-map-keys"].as_array();
    let keys: Option<Vec<&str>> = match kind {
        Some("set") => None,
        Some("map") if keys().is_some() => keys().map(|keys| keys.iter().filter_map(Value::as_str).collect()),
        _ => return,
    };
    let same = |one: &Value, other: &Value| match &keys {
        None => one == other,
        Some(keys) => keys.iter().all(|key| one[*key] == other[*key]),
    };
    for (index, entry) in list.iter().enumerate() {
        if list[..index].iter().any(|before| same(before, entry)) {
            let own = match &keys {
                None => entry.clone(),
                Some(keys) => {
                    let pairs = keys.iter().map(|key| ((*key).to_owned(), entry[*key].clone()));
                    pairs.collect::<Map<_, _>>().into()
                }
            };
            let mut cause = Cause::duplicate(&Path::Item(path, index).text(), &own);
            cause.message = format!("Duplicate value: {own}");
            causes.push(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_constraint_names_its_field() {
        let schema = json!({"type": "object", "required": ["need"], "properties": {
            "s": {"type": "string", "pattern": "^a+$", "maxLength": 3, "enum": ["a", "aa", "aaaa"]},
            "n": {"type": "integer", "minimum": 1, "maximum": 10},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 2, "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object"}},
            "ios": {"x-kubernetes-int-or-string": true},
            "any": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}});
        let cases = [
            (json!({"need": 1}), vec![]),
            (json!({}), vec!["need"]),
            (json!({"need": 1, "s": "b"}), vec!["s", "s"]),
            (json!({"need": 1, "s": "aaaa"}), vec!["s"]),
            (json!({"need": 1, "s": 5}), vec!["s"]),
            (json!({"need": 1, "n": 0}), vec!["n"]),
            (json!({"need": 1, "n": 11}), vec!["n"]),
            (json!({"need": 1, "set": ["a", "a"]}), vec!["set[1]"]),
            (json!({"need": 1, "set": ["a", "b", "c"]}), vec!["set"]),
            (json!({"need": 1, "map": [{"k": 1}, {"k": 2}, {"k": 1}]}), vec!["map[2]"]),
            (json!({"need": 1, "ios": "5"}), vec![]),
            (json!({"need": 1, "ios": true}), vec!["ios"]),
            (json!({"need": 1, "any": true}), vec!["any"]),
        ];
        for (object, expected) in cases {
            let fields: Vec<String> = check(&schema, &object, &[]).into_iter().map(|c| c.field).collect();
            assert_eq!(fields, expected, "{object}");
        }
    }
}
