//! Node selectors and required node affinity.

use serde_json::Value;

use crate::apiserver::object::{self, at, list, text};

/// Returns whether the pod may run on the node as far as labels and names are concerned.
pub(in crate::kube_system) fn admits(pod: &Value, node: &Value) -> bool {
    let selector = pod["spec"]["nodeSelector"].as_object();
    let selected =
        selector.into_iter().flatten().all(|(key, value)| object::label(node, key) == value.as_str());
    selected && required(pod).is_none_or(|required| selects(required, node))
}

/// Returns whether one of the terms of a node selector selects the node.
pub(super) fn selects(selector: &Value, node: &Value) -> bool {
    list(selector, "/nodeSelectorTerms").iter().any(|term| term_matches(term, node))
}

/// Returns whether there may be nodes that the pod must not run on.
pub(super) fn restricts(pod: &Value) -> bool {
    pod["spec"].get("nodeSelector").is_some() || required(pod).is_some()
}

fn required(pod: &Value) -> Option<&Value> {
    at(pod, "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
}

/// Returns whether a term selects the node; an empty one selects none.
pub(super) fn term_matches(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
    let labels = |e: &Value| matches(e, object::label(node, text(e, "/key")));
    let names = |e: &Value| matches(e, (text(e, "/key") == "metadata.name").then(|| object::name(node)));
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(labels)
        && fields.iter().all(names)
}

fn matches(expression: &Value, actual: Option<&str>) -> bool {
    let values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
    let bound = || values.first()?.parse::<i64>().ok();
    let number = || actual?.parse::<i64>().ok();
    match text(expression, "/operator") {
        "In" => actual.is_some_and(|a| values.contains(&a)),
        "NotIn" => actual.is_none_or(|a| !values.contains(&a)),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(n, b)| n > b),
        "Lt" => number().zip(bound()).is_some_and(|(n, b)| n < b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terms_are_alternatives_and_expressions_are_not() {
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "cores": "8"}}});
        let pod = |terms: Value| {
            json!({"spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}})
        };
        let e = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let cases = [
            (
                json!([{"matchExpressions": [e("zone", "In", &["b"])]}, {"matchExpressions": [e("zone", "In", &["a"])]}]),
                true,
            ),
            (json!([{"matchExpressions": [e("zone", "In", &["a"]), e("cores", "Gt", &["8"])]}]), false),
            (json!([{"matchExpressions": [e("cores", "Lt", &["9"]), e("gpu", "DoesNotExist", &[])]}]), true),
            (json!([{"matchExpressions": [e("gpu", "NotIn", &["x"]), e("zone", "Exists", &[])]}]), true),
            (json!([{"matchFields": [e("metadata.name", "In", &["n"])]}]), true),
            (json!([{"matchFields": [e("metadata.name", "In", &["m"])]}]), false),
            (json!([{}]), false),
        ];
        for (terms, expected) in cases {
            assert_eq!(admits(&pod(terms.clone()), &node), expected, "{terms}");
        }
        assert!(!admits(&json!({"spec": {"nodeSelector": {"zone": "b"}}}), &node));
    }
}
