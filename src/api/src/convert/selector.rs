//! Label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;
use karpenter_model::LabelSelector;
use karpenter_model::label::selector::{SelectorExpression, SelectorOperator};

/// Reads a selector. `None`, which selects nothing, also stands for one that cannot be understood
/// (spec scheduling 18.2).
pub fn selector(written: Option<&ApiSelector>) -> Option<LabelSelector> {
    let written = written?;
    let mut selector = LabelSelector::default();
    for (key, value) in written.match_labels.iter().flatten() {
        selector.require(&key.as_str().into(), &value.as_str().into());
    }
    for expression in written.match_expressions.iter().flatten() {
        selector.expressions.insert(SelectorExpression {
            key: expression.key.as_str().into(),
            operator: match expression.operator.as_str() {
                "In" => SelectorOperator::In,
                "NotIn" => SelectorOperator::NotIn,
                "Exists" => SelectorOperator::Exists,
                "DoesNotExist" => SelectorOperator::DoesNotExist,
                _ => return None,
            },
            values: expression.values.iter().flatten().map(|value| value.as_str().into()).collect(),
        });
    }
    Some(selector)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Option<LabelSelector> {
        let written: Option<ApiSelector> = serde_json::from_value(value).unwrap();
        selector(written.as_ref())
    }

    #[test]
    fn absent_and_senseless_select_nothing_and_empty_selects_all() {
        assert_eq!(read(json!(null)), None);
        assert_eq!(
            read(json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]})),
            None
        );
        assert_eq!(read(json!({})), Some(LabelSelector::default()));
    }

    #[test]
    fn labels_are_expressions_with_one_value() {
        let labels = read(json!({"matchLabels": {"a": "b"}}));
        let expressions =
            read(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}));
        assert_eq!(labels, expressions);
    }
}
