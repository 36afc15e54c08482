//! Label selectors over pods and namespaces (the Kubernetes `LabelSelector`).

use std::collections::BTreeSet;

use crate::id::{LabelKey, LabelValue};
use crate::label::Labels;

/// Comparison of one selector expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// One expression of a selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorExpression {
    pub key: LabelKey,
    /// Comparison.
    pub operator: SelectorOperator,
    /// Values for `In` and `NotIn`.
    pub values: BTreeSet<LabelValue>,
}

/// A conjunction of expressions. The empty selector selects everything; "no selector" is an `Option` around
/// it and selects nothing. Expressions are a set, so equal selectors compare equal in any spelling order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LabelSelector {
    /// All must hold; `matchLabels` entries are `In` expressions with one value.
    pub expressions: BTreeSet<SelectorExpression>,
}

impl LabelSelector {
    /// A selector from `matchLabels`.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a LabelKey, &'a LabelValue)>) -> Self {
        let mut selector = Self::default();
        for (key, value) in labels {
            selector.require(key, value);
        }
        selector
    }

    /// Adds `key In [value]`.
    pub fn require(&mut self, key: &LabelKey, value: &LabelValue) {
        self.expressions.insert(SelectorExpression {
            key: key.clone(),
            operator: SelectorOperator::In,
            values: [value.clone()].into(),
        });
    }

    /// Returns whether `labels` satisfy every expression.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.expressions.iter().all(|expression| {
            let value = labels.get(&expression.key);
            match expression.operator {
                SelectorOperator::In => value.is_some_and(|value| expression.values.contains(value)),
                SelectorOperator::NotIn => value.is_none_or(|value| !expression.values.contains(value)),
                SelectorOperator::Exists => value.is_some(),
                SelectorOperator::DoesNotExist => value.is_none(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_kubernetes_does() {
        use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
        let labels: Labels = [("app".into(), "web".into())].into();
        let table = [
            ("app", In, vec!["web", "api"], true),
            ("app", In, vec!["api"], false),
            ("tier", In, vec!["web"], false),
            ("app", NotIn, vec!["api"], true),
            ("app", NotIn, vec!["web"], false),
            ("tier", NotIn, vec!["web"], true),
            ("app", Exists, vec![], true),
            ("tier", Exists, vec![], false),
            ("app", DoesNotExist, vec![], false),
            ("tier", DoesNotExist, vec![], true),
        ];
        for (key, operator, values, expected) in table {
            let expression = SelectorExpression {
                key: key.into(),
                operator,
                values: values.into_iter().map(LabelValue::from).collect(),
            };
            let selector = LabelSelector { expressions: [expression].into() };
            assert_eq!(selector.matches(&labels), expected, "{selector:?}");
        }
        assert!(LabelSelector::default().matches(&labels), "the empty selector selects everything");
    }
}
