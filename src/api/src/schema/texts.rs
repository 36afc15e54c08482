//! Texts that the rules of a schema have found right once.
//!
//! A rule about a text gives the same result every time, unless it reads the old one. Those of the requirements of a claim
//! look for patterns, and CEL compiles a pattern whenever it looks for one: that was nearly all of what it took to create a
//! claim.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

const RULES: &str = "x-kubernetes-validations";

/// Texts that are remembered in one place, most: they may be values of users, of which there is no end.
const MANY: usize = 1_000;

/// Texts remembered below one place of a schema.
#[derive(Default)]
pub(super) struct Texts {
    /// Texts that are right here; `None` where no rule is only about the text.
    right: Option<HashSet<String>>,
    fields: BTreeMap<String, Texts>,
    /// Entries of a list, and values of a map whose fields have no names of their own.
    items: Option<Box<Texts>>,
}

impl Texts {
    /// Takes the rules that are only about a text out of a schema; `None` when there are none.
    pub(super) fn taken_out_of(schema: &mut Value) -> Option<Self> {
        let map = schema.as_object_mut()?;
        let mut texts = Self::default();
        if map.get("type").is_some_and(|kind| kind == "string") && map.get(RULES).is_some_and(are_timeless) {
            map.shift_remove(RULES);
            texts.right = Some(HashSet::new());
        }
        for (field, below) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            texts.fields.extend(Self::taken_out_of(below).map(|below| (field.clone(), below)));
        }
        for entries in ["items", "additionalProperties"] {
            if let Some(below) = map.get_mut(entries).and_then(Self::taken_out_of) {
                texts.items = Some(Box::new(below));
            }
        }
        let some = texts.right.is_some() || !texts.fields.is_empty() || texts.items.is_some();
        some.then_some(texts)
    }

    /// Returns whether all texts of a value that such rules are about are known to be right.
    pub(super) fn know(&self, value: &Value) -> bool {
        let here =
            self.right.as_ref().is_none_or(|right| value.as_str().is_some_and(|text| right.contains(text)));
        here && match value {
            Value::Object(map) => map.iter().all(|(field, value)| {
                self.fields.get(field).or(self.items.as_deref()).is_none_or(|below| below.know(value))
            }),
            Value::Array(list) => {
                self.items.as_deref().is_none_or(|below| list.iter().all(|value| below.know(value)))
            }
            _ => true,
        }
    }

    /// Remembers the texts of a value that all rules have found right.
    pub(super) fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                if let Some(right) = self.right.as_mut().filter(|right| right.len() < MANY) {
                    right.insert(text.clone());
                }
            }
            Value::Object(map) => self.learn_fields(map),
            Value::Array(list) => {
                if let Some(below) = &mut self.items {
                    for value in list {
                        below.learn(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_fields(&mut self, map: &Map<String, Value>) {
        for (field, value) in map {
            if let Some(below) = self.fields.get_mut(field).or(self.items.as_deref_mut()) {
                below.learn(value);
            }
        }
    }
}

/// Returns whether no rule reads the old value.
fn are_timeless(rules: &Value) -> bool {
    let mut rules = rules.as_array().into_iter().flatten();
    rules.all(|rule| rule["rule"].as_str().is_some_and(|rule| !rule.contains("oldSelf")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_right_in_the_same_place_is_known() {
        let ruled = |rule: &str| json!({"type": "string", RULES: [{"rule": rule}]});
        let mut schema = json!({"type": "object", "properties": {
            "key": ruled("self != 'x'"),
            "was": ruled("self == oldSelf"),
            "list": {"type": "array", "items": {"type": "object", "properties": {"key": ruled("self != 'y'")}}},
            "map": {"type": "object", "additionalProperties": ruled("self != 'z'")},
            "number": {"type": "integer", RULES: [{"rule": "self > 0"}]},
        }});
        let mut texts = Texts::taken_out_of(&mut schema).expect("there are such rules");
        assert!(schema["properties"]["key"].get(RULES).is_none());
        assert!(schema["properties"]["was"].get(RULES).is_some());
        assert!(schema["properties"]["number"].get(RULES).is_some());
        let right = json!({"key": "a", "was": "b", "list": [{"key": "c"}], "map": {"any": "d"}, "number": 1});
        assert!(!texts.know(&right));
        texts.learn(&right);
        assert!(texts.know(&right));
        assert!(texts.know(&json!({"was": "other", "map": {"another": "d"}, "number": 2})));
        for other in [
            json!({"key": "c"}),
            json!({"key": null}),
            json!({"list": [{"key": "c"}, {"key": "a"}]}),
            json!({"map": {"any": "a"}}),
        ] {
            assert!(!texts.know(&other), "{other}");
        }
        assert!(Texts::taken_out_of(&mut json!({"type": "string"})).is_none());
    }
}
