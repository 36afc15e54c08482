//! Label and field selectors of list, watch and deletecollection.
//!
//! Field selectors are generic: any path may be compared. kube-apiserver allows only the fields its kinds
//! declare; a test double that allows more cannot make a correct client fail.

use serde_json::Value;

use super::refusal::Refusal;

/// Label selector and field selector of one request.
#[derive(Debug, Clone, Default)]
pub struct Selectors {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    path: Vec<String>,
    value: String,
    equal: bool,
}

impl Selectors {
    /// Parses the query parameters `labelSelector` and `fieldSelector`.
    pub fn parse(labels: &str, fields: &str) -> Result<Self, Refusal> {
        let fields = fields.split(',').filter(|t| !t.is_empty());
        Ok(Self {
            labels: split_outside_parentheses(labels).map(requirement).collect::<Result<_, _>>()?,
            fields: fields.map(field_requirement).collect::<Result<_, _>>()?,
        })
    }

    /// Returns whether the object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|r| r.matches(labels)) && self.fields.iter().all(|f| f.matches(object))
    }
}

/// Returns whether a structured `LabelSelector` (of a workload or a budget) selects `labels`. An absent selector selects
/// nothing, an empty one everything.
pub fn label_selector_matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let equal = wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal && super::object::list(selector, "/matchExpressions").iter().all(|e| expression(e).matches(labels))
}

/// The textual form of a structured `LabelSelector`, as the scale subresource shows it.
pub(crate) fn label_selector_text(selector: &Value) -> String {
    let pairs = selector.get("matchLabels").and_then(Value::as_object);
    let equal = pairs.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    let expressions = super::object::list(selector, "/matchExpressions").iter().map(|e| expression(e).text());
    equal.chain(expressions).collect::<Vec<_>>().join(",")
}

fn expression(entry: &Value) -> Requirement {
    let key = super::object::text(entry, "/key").to_owned();
    let values = super::object::list(entry, "/values").iter().filter_map(Value::as_str).map(str::to_owned);
    match super::object::text(entry, "/operator") {
        "Exists" => Requirement::Exists(key),
        "DoesNotExist" => Requirement::Absent(key),
        "NotIn" => Requirement::NotIn(key, values.collect()),
        _ => Requirement::In(key, values.collect()),
    }
}

impl Requirement {
    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &String| labels.get(key).and_then(Value::as_str);
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
            Self::In(key, values) => value(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(key, values) => value(key).is_none_or(|v| values.iter().all(|w| w != v)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Exists(key) => key.clone(),
            Self::Absent(key) => format!("!{key}"),
            Self::In(key, values) => format!("{key} in ({})", values.join(",")),
            Self::NotIn(key, values) => format!("{key} notin ({})", values.join(",")),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Value) -> bool {
        let found = self.path.iter().try_fold(object, |at, step| at.get(step));
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        (text == self.value) == self.equal
    }
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

fn requirement(text: &str) -> Result<Requirement, Refusal> {
    let values = |list: &str| -> Option<Vec<String>> {
        let inside = list.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inside.split(',').map(|v| v.trim().to_owned()).collect())
    };
    let malformed = || Refusal::bad_request(format!("unable to parse requirement: `{text}`"));
    if let Some((key, list)) = text.split_once(" notin ") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), values(list).ok_or_else(malformed)?));
    }
    if let Some((key, list)) = text.split_once(" in ") {
        return Ok(Requirement::In(key.trim().to_owned(), values(list).ok_or_else(malformed)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if text.contains(char::is_whitespace) {
        return Err(malformed());
    }
    Ok(match text.strip_prefix('!') {
        Some(key) => Requirement::Absent(key.trim().to_owned()),
        None => Requirement::Exists(text.to_owned()),
    })
}

fn field_requirement(text: &str) -> Result<FieldRequirement, Refusal> {
    let (path, value, equal) = if let Some((path, value)) = text.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (path, value, true)
    } else {
        return Err(Refusal::bad_request(format!("invalid field selector: `{text}`")));
    };
    let path = path.trim().split('.').map(str::to_owned).collect();
    Ok(FieldRequirement { path, value: value.to_owned(), equal })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selectors_select_as_kubernetes_defines() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front"}}});
        let cases = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web,tier=front", true),
            ("app==db", false),
            ("app!=db", true),
            ("other!=x", true),
            ("app in (db, web),tier notin (back)", true),
            ("app notin (web)", false),
            ("other notin (x)", true),
            ("other in (x)", false),
        ];
        for (text, expected) in cases {
            let selectors = Selectors::parse(text, "").expect(text);
            assert_eq!(selectors.matches(&object), expected, "{text}");
        }
    }

    #[test]
    fn field_selectors_compare_any_path_and_absent_is_empty() {
        let pod =
            json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        let cases = [
            ("spec.nodeName=n1", true),
            ("spec.nodeName!=n1", false),
            ("status.phase!=Failed,metadata.name==a", true),
            ("spec.schedulerName=", true),
        ];
        for (text, expected) in cases {
            assert_eq!(Selectors::parse("", text).expect(text).matches(&pod), expected, "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused() {
        assert!(Selectors::parse("app in web", "").is_err());
        assert!(Selectors::parse("", "spec.nodeName").is_err());
    }

    #[test]
    fn an_absent_structured_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!label_selector_matches(&Value::Null, &json!({"a": "b"})));
        assert!(label_selector_matches(&json!({}), &json!({"a": "b"})));
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]});
        assert!(label_selector_matches(&selector, &json!({"a": "b"})));
        assert!(!label_selector_matches(&selector, &json!({"a": "b", "c": "d"})));
    }
}
