//! The subset of `JSONPath` that printer columns use: fields, escaped dots, indices and one equality filter.
//!
//! Examples: `.spec.nodeName`, `.metadata.labels.karpenter\.sh/capacity-type`,
//! `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
    Filter { field: String, value: String },
}

impl JsonPath {
    /// Parses a path; `None` when it uses something outside the subset.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = if let Some(tail) = rest.strip_prefix('.') {
                let (field, tail) = field(tail);
                if !field.is_empty() {
                    steps.push(Step::Field(field));
                }
                tail
            } else {
                let (inside, tail) = rest.strip_prefix('[')?.split_once(']')?;
                steps.push(bracket(inside)?);
                tail
            };
        }
        Some(Self(steps))
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let found = self.0.iter().try_fold(value, |at, step| match step {
            Step::Field(name) => at.get(name),
            Step::Index(index) => at.get(index),
            Step::Filter { field, value } => {
                at.as_array()?.iter().find(|entry| entry.get(field).and_then(Value::as_str) == Some(value))
            }
        })?;
        (!found.is_null()).then_some(found)
    }
}

fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

fn bracket(inside: &str) -> Option<Step> {
    if let Ok(index) = inside.parse() {
        return Some(Step::Index(index));
    }
    if let Some(name) = inside.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        return Some(Step::Field(name.to_owned()));
    }
    let condition = inside.strip_prefix("?(@.")?.strip_suffix(')')?;
    let (field, value) = condition.split_once("==")?;
    let value = value.trim().trim_matches(|c| c == '"' || c == '\'');
    Some(Step::Filter { field: field.trim().to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_what_printer_columns_ask_for() {
        let object = json!({
            "metadata": {"labels": {"karpenter.sh/capacity-type": "spot"}},
            "status": {"conditions": [
                {"type": "Launched", "status": "True"}, {"type": "Ready", "status": "False"}]},
        });
        let cases = [
            (".metadata.labels.karpenter\\.sh/capacity-type", Some(json!("spot"))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("False"))),
            (".status.conditions[?(@.type=='Launched')].status", Some(json!("True"))),
            (".status.conditions[1].type", Some(json!("Ready"))),
            (".metadata.labels['karpenter.sh/capacity-type']", Some(json!("spot"))),
            (".status.conditions[?(@.type==\"Drifted\")].status", None),
            (".spec.nothing", None),
        ];
        for (path, expected) in cases {
            let parsed = JsonPath::parse(path).expect(path);
            assert_eq!(parsed.first(&object), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        assert_eq!(JsonPath::parse(".status.conditions[?(@.a>1)]"), None);
        assert_eq!(JsonPath::parse("status"), None);
    }
}
