//! Text and API forms of a requirement.

use std::fmt;

use super::{Expression, Operator, Requirement};
use crate::id::LabelValue;

/// Most values a text form lists.
const SHOWN_VALUES: usize = 5;

impl Requirement {
    /// Returns the requirement as API expressions, each with `minValues`: one per bound, one for listed values, and `Exists`
    /// where values are excluded and the label is required. Reading them back intersects them, so nothing is lost.
    pub fn to_expressions(&self) -> Vec<Expression> {
        let expression = |operator, values| Expression {
            key: self.key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bound = |operator, bound: i64| expression(operator, vec![LabelValue::from(bound.to_string())]);
        let mut expressions = Vec::new();
        expressions.extend(self.gte.map(|gte| bound(Operator::Gte, gte)));
        expressions.extend(self.lte.map(|lte| bound(Operator::Lte, lte)));
        if self.present && !self.values.is_empty() && expressions.is_empty() {
            expressions.push(expression(Operator::Exists, Vec::new()));
        }
        if expressions.is_empty() || !self.values.is_empty() {
            expressions.push(expression(self.operator(), self.values.iter().cloned().collect()));
        }
        expressions
    }
}

impl fmt::Display for Requirement {
    /// `key Op [v1 v2]`, at most five values, then bounds and `minValues`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = self.operator();
        write!(f, "{} {}", self.key, operator.as_str())?;
        if matches!(operator, Operator::In | Operator::NotIn) {
            let shown: Vec<&str> = self.values.iter().take(SHOWN_VALUES).map(LabelValue::as_str).collect();
            write!(f, " [{}", shown.join(" "))?;
            if self.values.len() > SHOWN_VALUES {
                write!(f, " and {} others", self.values.len() - SHOWN_VALUES)?;
            }
            f.write_str("]")?;
        }
        if let Some(gte) = self.gte {
            write!(f, " >={gte}")?;
        }
        if let Some(lte) = self.lte {
            write!(f, " <={lte}")?;
        }
        if let Some(min_values) = self.min_values {
            write!(f, " minValues {min_values}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
