//! Requirements of pools and claims, both ways.

use karpenter_model::{Expression, LabelRegistry, Requirements};

use crate::requirement::Requirement;

/// Reads a list of requirements as written, one expression each.
pub fn expressions(written: &[Requirement]) -> Vec<Expression> {
    written.iter().map(Expression::from).collect()
}

/// Reads a list of requirements as one set: keys normalised, entries of one key intersected.
pub fn requirements(registry: &LabelRegistry, written: &[Requirement]) -> Requirements {
    Requirements::from_expressions(registry, &expressions(written))
}

impl From<&Requirement> for Expression {
    fn from(written: &Requirement) -> Self {
        Self {
            key: written.key.as_str().into(),
            operator: written.operator,
            values: written.values().iter().map(|value| value.as_str().into()).collect(),
            // The schema allows 1 to 50.
            min_values: written.min_values.and_then(|least| u32::try_from(least).ok()),
        }
    }
}

impl From<&Expression> for Requirement {
    fn from(expression: &Expression) -> Self {
        let values: Vec<String> = expression.values.iter().map(ToString::to_string).collect();
        Self {
            key: expression.key.to_string(),
            operator: expression.operator,
            values: (!values.is_empty()).then_some(values),
            min_values: expression.min_values.map(i64::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let written = [
            Requirement { min_values: Some(2), ..Requirement::new("a", crate::Operator::In, ["x", "y"]) },
            Requirement::new("b", crate::Operator::Exists, []),
            Requirement::new("c", crate::Operator::Gte, ["4"]),
        ];
        let again: Vec<Requirement> = expressions(&written).iter().map(Requirement::from).collect();
        assert_eq!(again, written);
    }

    #[test]
    fn one_set_has_one_entry_per_canonical_key() {
        let registry = LabelRegistry::core();
        let set = requirements(
            &registry,
            &[
                Requirement::new("failure-domain.beta.kubernetes.io/zone", crate::Operator::In, ["a", "b"]),
                Requirement::new(karpenter_model::names::label::ZONE, crate::Operator::NotIn, ["b"]),
            ],
        );
        assert_eq!(set.len(), 1);
        assert_eq!(set.to_string(), format!("{} In [a]", karpenter_model::names::label::ZONE));
    }
}
