//! A small language for structural schemas: what can be said here is what the API server understands.
//!
//! Values instead of `JSONSchemaProps` structs, so that integers stay integers in the generated YAML and
//! keys keep the order in which they are written.

use serde_json::{Map, Value, json};

/// The schema of one value.
#[derive(Clone, Debug)]
pub(super) struct Schema(Map<String, Value>);

impl Schema {
    pub(super) fn object() -> Self {
        Self::of("object")
    }

    pub(super) fn string() -> Self {
        Self::of("string")
    }

    pub(super) fn boolean() -> Self {
        Self::of("boolean")
    }

    pub(super) fn int32() -> Self {
        Self::of("integer").set("format", "int32")
    }

    pub(super) fn int64() -> Self {
        Self::of("integer").set("format", "int64")
    }

    pub(super) fn date_time() -> Self {
        Self::string().set("format", "date-time")
    }

    /// A resource quantity, written as integer or as text.
    pub(super) fn quantity() -> Self {
        Self(Map::new())
            .set("anyOf", json!([{"type": "integer"}, {"type": "string"}]))
            .set("pattern", super::pattern::QUANTITY)
            .set("x-kubernetes-int-or-string", true)
    }

    pub(super) fn list(items: Self) -> Self {
        Self::of("array").set("items", items.into_value())
    }

    pub(super) fn map(values: Self) -> Self {
        Self::of("object").set("additionalProperties", values.into_value())
    }

    fn of(kind: &str) -> Self {
        Self(Map::new()).set("type", kind)
    }

    pub(super) fn describe(self, text: &str) -> Self {
        self.set("description", text)
    }

    /// Adds a property that may be left out.
    pub(super) fn optional(mut self, name: &str, schema: Self) -> Self {
        self.member("properties", json!({})).insert(name.to_owned(), schema.into_value());
        self
    }

    /// Adds a property that must be there.
    pub(super) fn required(self, name: &str, schema: Self) -> Self {
        let mut with_property = self.optional(name, schema);
        let required = with_property.0.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(names) = required {
            names.push(name.into());
        }
        with_property
    }

    pub(super) fn default_value(self, value: impl Into<Value>) -> Self {
        self.set("default", value)
    }

    pub(super) fn one_of<const N: usize>(self, values: [&str; N]) -> Self {
        self.set("enum", values.to_vec())
    }

    pub(super) fn pattern(self, regex: &str) -> Self {
        self.set("pattern", regex)
    }

    pub(super) fn length(self, range: impl std::ops::RangeBounds<i64>) -> Self {
        self.bounds(&range, "minLength", "maxLength")
    }

    pub(super) fn items(self, range: impl std::ops::RangeBounds<i64>) -> Self {
        self.bounds(&range, "minItems", "maxItems")
    }

    pub(super) fn entries(self, range: impl std::ops::RangeBounds<i64>) -> Self {
        self.bounds(&range, "minProperties", "maxProperties")
    }

    pub(super) fn within(self, range: impl std::ops::RangeBounds<i64>) -> Self {
        self.bounds(&range, "minimum", "maximum")
    }

    /// Keeps fields that no property describes.
    pub(super) fn keep_unknown(self) -> Self {
        self.set("x-kubernetes-preserve-unknown-fields", true)
    }

    /// `atomic`, `set` or `map`: how server-side apply merges the list.
    pub(super) fn list_type(self, kind: &str) -> Self {
        self.set("x-kubernetes-list-type", kind)
    }

    /// A list whose items are distinguished by one field.
    pub(super) fn keyed_by(self, field: &str) -> Self {
        self.set("x-kubernetes-list-map-keys", json!([field])).list_type("map")
    }

    /// Server-side apply replaces the map as a whole.
    pub(super) fn atomic_map(self) -> Self {
        self.set("x-kubernetes-map-type", "atomic")
    }

    /// Adds a CEL rule; `self` is the value the schema describes.
    pub(super) fn rule(mut self, rule: &str, message: &str) -> Self {
        let rules = self.0.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
        if let Value::Array(rules) = rules {
            rules.push(json!({"message": message, "rule": rule}));
        }
        self
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    fn bounds(self, range: &impl std::ops::RangeBounds<i64>, low: &str, high: &str) -> Self {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let with_low = match range.start_bound() {
            Included(&least) => self.set(low, least),
            Excluded(&below) => self.set(low, below + 1),
            Unbounded => self,
        };
        match range.end_bound() {
            Included(&most) => with_low.set(high, most),
            Excluded(&above) => with_low.set(high, above - 1),
            Unbounded => with_low,
        }
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn member(&mut self, key: &str, empty: Value) -> &mut Map<String, Value> {
        let member = self.0.entry(key).or_insert(empty);
        member.as_object_mut().expect("invariant: `properties` is only ever set to an object")
    }
}
