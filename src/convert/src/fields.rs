//! Reading the fields of a map one by one, so that none is overlooked.
//!
//! Fields that are read are taken out. Fields left at the end are unknown to the old version too, and reported by their path:
//! an API server would have refused or pruned them, and a typing error must not disappear without a word.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::log::{Kind, Log};
use karpenter_api::yaml::{Data, Node};

/// A map that is being read.
pub(crate) struct Fields<'a> {
    path: String,
    entries: Vec<(String, Node)>,
    /// Names that were asked for, to suggest one for a misspelt field.
    known: Vec<&'static str>,
    log: &'a Log,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Found<T> {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) value: T,
}

impl<'a> Fields<'a> {
    /// The fields of a map; anything else is reported and has none.
    pub(crate) fn of(found: Found<Node>, log: &'a Log) -> Self {
        let Found { path, line, value } = found;
        let entries = match value.data {
            Data::Map(entries) => entries,
            Data::Scalar(Value::Null) => Vec::new(),
            _ => {
                log.at(
                    Kind::Dropped,
                    &path,
                    line,
                    "is not a map of fields; compare it with the old version's reference",
                );
                Vec::new()
            }
        };
        Self { path, entries, known: Vec::new(), log }
    }

    /// The field of this name, whatever it holds; `null` is the same as absent.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Found<Node>> {
        self.known.push(name);
        let at = self.entries.iter().position(|(key, _)| key == name)?;
        let (_, value) = self.entries.remove(at);
        let found = Found { path: self.child(name), line: value.line, value };
        (!found.value.is_null()).then_some(found)
    }

    /// The map in a field; empty when absent.
    pub(crate) fn section(&mut self, name: &'static str) -> Option<Fields<'a>> {
        Some(Fields::of(self.take(name)?, self.log))
    }

    /// The items of a list with their paths; anything else is reported and has none.
    pub(crate) fn list(&mut self, name: &'static str) -> Option<Found<Vec<Found<Node>>>> {
        let Found { path, line, value } = self.take(name)?;
        let Data::List(items) = value.data else {
            let text = "is not a list; write each item with a `-` before it";
            self.log.at(Kind::Dropped, &path, line, text);
            return None;
        };
        let item = |(index, value): (usize, Node)| Found {
            path: format!("{path}[{index}]"),
            line: value.line,
            value,
        };
        let value = items.into_iter().enumerate().map(item).collect();
        Some(Found { path, line, value })
    }

    /// The value of a field as a type of the API. What the type does not know is reported.
    pub(crate) fn read<T: DeserializeOwned + Serialize>(&mut self, name: &'static str) -> Option<Found<T>> {
        let found = self.take(name)?;
        read(&found, self.log)
    }

    /// A map of texts, such as labels. Numbers and booleans are taken as texts.
    pub(crate) fn texts(&mut self, name: &'static str) -> Option<Found<BTreeMap<String, Found<String>>>> {
        let found = self.take(name)?;
        let line = found.line;
        let mut section = Fields::of(found, self.log);
        let mut texts = BTreeMap::new();
        for (key, node) in std::mem::take(&mut section.entries) {
            let path = section.child(&key);
            if let Some(value) = scalar(&node) {
                texts.insert(key, Found { path, line: node.line, value });
            } else {
                self.log.at(Kind::Dropped, &path, node.line, "is not a text; write one value for each key");
            }
        }
        Some(Found { path: section.path, line, value: texts })
    }

    /// Reports what was not read.
    pub(crate) fn finish(self) {
        for (key, node) in &self.entries {
            let path = self.child(key);
            let hint = match nearest(key, &self.known) {
                Some(known) => format!("; is `{known}` meant?"),
                None => "; remove it, or look for its name in the reference of that version".to_owned(),
            };
            self.log.at(
                Kind::Dropped,
                &path,
                node.line,
                format!("is no field of this kind and version{hint}"),
            );
        }
    }

    fn child(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// A value as a type of the API. What the type does not know is reported.
pub(crate) fn read<T: DeserializeOwned + Serialize>(found: &Found<Node>, log: &Log) -> Option<Found<T>> {
    let value = match serde_json::from_value::<T>(found.value.to_value()) {
        Ok(value) => value,
        Err(error) => {
            let text = format!("cannot be read: {error}; compare it with the old version's reference");
            log.at(Kind::Dropped, &found.path, found.line, text);
            return None;
        }
    };
    let again = serde_json::to_value(&value).unwrap_or_default();
    unknown(&found.value, &again, &found.path, log);
    Some(Found { path: found.path.clone(), line: found.line, value })
}

/// Reports what is in the text and not in what was read from it.
fn unknown(node: &Node, again: &Value, path: &str, log: &Log) {
    match &node.data {
        Data::Scalar(_) => {}
        Data::List(items) => {
            for (index, item) in items.iter().enumerate() {
                unknown(item, &again[index], &format!("{path}[{index}]"), log);
            }
        }
        Data::Map(fields) => {
            for (key, field) in fields {
                let path = format!("{path}.{key}");
                // Types leave out `false` and `null` where absent means the same.
                let is_default = field.is_null() || matches!(field.data, Data::Scalar(Value::Bool(false)));
                match again.get(key) {
                    Some(again) => unknown(field, again, &path, log),
                    None if is_default => {}
                    None => log.at(Kind::Dropped, &path, field.line, "is no field of this kind; remove it"),
                }
            }
        }
    }
}

/// A scalar as text.
pub(crate) fn scalar(node: &Node) -> Option<String> {
    match &node.data {
        Data::Scalar(Value::String(text)) => Some(text.clone()),
        Data::Scalar(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
        _ => None,
    }
}

/// The known name that differs from `name` by at most two letters, or by case.
pub(crate) fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let distance = |known: &str| strsim::levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let best = known.iter().copied().min_by_key(|known| distance(known))?;
    (distance(best) <= 2.min(best.len() / 3)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_have_a_suggestion() {
        let known = ["requirements", "labels", "ttlSecondsAfterEmpty", "tags"];
        let cases = [
            ("requirement", Some("requirements")),
            ("TTLSecondsAfterEmpty", Some("ttlSecondsAfterEmpty")),
            ("lables", Some("labels")),
            ("tag", Some("tags")),
            ("zones", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(nearest(name, &known), wanted, "{name}");
        }
    }
}
