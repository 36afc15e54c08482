//! The set of values one label may have (spec scheduling 8.1).
//!
//! A requirement is either a finite set of values or the complement of one, narrowed by optional inclusive
//! integer bounds. With a bound set, only integers are allowed. The empty finite set is `DoesNotExist`.
//!
//! Invariant: finite sets carry no bounds; construction and intersection apply them and drop them. A complement without
//! excluded values, or with a bound, asks for the label.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{LabelKey, LabelValue};
use crate::label::LabelRegistry;

/// Comparison of an expression; pods may use the first six only. Serialized as it is spelled in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of the list.
    In,
    /// None of the values; an absent label passes.
    NotIn,
    /// Any value.
    Exists,
    /// No value.
    DoesNotExist,
    /// An integer greater than the value.
    Gt,
    /// An integer less than the value.
    Lt,
    /// An integer at least the value.
    Gte,
    /// An integer at most the value.
    Lte,
}

impl Operator {
    /// All operators, in the order of the CRD schema.
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    /// The operator as it is spelled in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    /// The operator spelled `text`, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == text)
    }

    /// Returns whether the operator compares with one integer.
    pub(crate) const fn is_bound(self) -> bool {
        matches!(self, Self::Gt | Self::Lt | Self::Gte | Self::Lte)
    }
}

/// A requirement in API form, as written by users and as written to claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expression {
    pub key: LabelKey,
    /// Comparison.
    pub operator: Operator,
    /// Operands of the comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<LabelValue>,
    /// Fewest distinct values the chosen instance types must offer, 1 to 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

impl Expression {
    /// An expression without `minValues`.
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let values = values.iter().map(|value| LabelValue::from(*value)).collect();
        Self { key: key.into(), operator, values, min_values: None }
    }
}

/// The values one label may have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    key: LabelKey,
    complement: bool,
    /// Shared: requirements are copied much more often than they are made.
    values: Arc<BTreeSet<LabelValue>>,
    gte: Option<i64>,
    lte: Option<i64>,
    /// True if a complement demands the label itself, as by `Exists` and by bounds.
    present: bool,
    min_values: Option<u32>,
}

impl Requirement {
    /// The requirement `expression` states. Key and values are normalised first. A bound that is not an
    /// integer counts as 0: expressions are validated before they get here.
    pub fn new(registry: &LabelRegistry, expression: &Expression) -> Self {
        let key = registry.normalize_key(&expression.key);
        let normalized = expression.values.iter().map(|value| registry.normalize_value(&key, value));
        let values = Arc::new(normalized.collect());
        let bound =
            || expression.values.first().and_then(|value| value.as_str().parse().ok()).unwrap_or(0i64);
        let base = Self {
            key,
            complement: true,
            values: Arc::default(),
            gte: None,
            lte: None,
            present: true,
            min_values: expression.min_values,
        };
        match expression.operator {
            Operator::In => Self { complement: false, present: false, values, ..base },
            Operator::NotIn => Self { values, present: false, ..base },
            Operator::Exists => base,
            Operator::DoesNotExist => Self { complement: false, present: false, ..base },
            Operator::Gt => base.bounded(bound().checked_add(1).map(|gte| (Some(gte), None))),
            Operator::Lt => base.bounded(bound().checked_sub(1).map(|lte| (None, Some(lte)))),
            Operator::Gte => base.bounded(Some((Some(bound()), None))),
            Operator::Lte => base.bounded(Some((None, Some(bound())))),
        }
    }

    /// `key In [values]`, both taken as canonical.
    pub fn one_of(key: LabelKey, values: impl IntoIterator<Item = LabelValue>) -> Self {
        let values = Arc::new(values.into_iter().collect());
        Self { key, complement: false, values, gte: None, lte: None, present: false, min_values: None }
    }

    /// `key Exists`: no constraint on the value.
    pub fn exists(key: LabelKey) -> Self {
        Self { complement: true, present: true, ..Self::one_of(key, []) }
    }

    /// `key DoesNotExist`.
    pub fn does_not_exist(key: LabelKey) -> Self {
        Self::one_of(key, [])
    }

    /// A bound nothing can pass (`Gt` of the largest integer) is `DoesNotExist` without `minValues`.
    fn bounded(self, bounds: Option<(Option<i64>, Option<i64>)>) -> Self {
        match bounds {
            Some((gte, lte)) => Self { gte, lte, ..self },
            None => Self::does_not_exist(self.key),
        }
    }

    /// The canonical label key.
    pub fn key(&self) -> &LabelKey {
        &self.key
    }

    /// The operator that describes the set; a bounded set is `Exists` or, with exclusions, `NotIn`.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
        }
    }

    /// The listed values: allowed ones, or excluded ones of a complement.
    pub fn values(&self) -> &BTreeSet<LabelValue> {
        &self.values
    }

    /// The allowed values, when they are finitely many and listed.
    pub fn concrete(&self) -> Option<&BTreeSet<LabelValue>> {
        (!self.complement).then_some(&self.values)
    }

    /// Inclusive lower bound.
    pub fn lower(&self) -> Option<i64> {
        self.gte
    }

    /// Inclusive upper bound.
    pub fn upper(&self) -> Option<i64> {
        self.lte
    }

    /// Fewest distinct values the chosen instance types must offer.
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// Returns the set with another `minValues`.
    #[must_use]
    pub fn with_min_values(self, min_values: Option<u32>) -> Self {
        Self { min_values, ..self }
    }

    /// Returns whether a node without the label passes: nothing is allowed, or only named values are not and nothing asks
    /// for the label.
    pub fn accepts_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist) && !self.present
    }

    /// Returns whether the label may have `value`.
    pub fn allows(&self, value: &str) -> bool {
        self.values.contains(value) != self.complement && within(value, self.gte, self.lte)
    }

    /// Returns the values that both requirements allow. `minValues` is the larger one.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (gte, lte) = self.common_bounds(other);
        let min_values = self.min_values.max(other.min_values);
        if crossed(gte, lte) {
            return Self::does_not_exist(self.key.clone()).with_min_values(min_values);
        }
        let complement = self.complement && other.complement;
        let values: BTreeSet<LabelValue> = match (self.complement, other.complement) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let values = Arc::new(values.into_iter().filter(|value| within(value.as_str(), gte, lte)).collect());
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        let present = complement && (self.present || other.present);
        Self { key: self.key.clone(), complement, values, gte, lte, present, min_values }
    }

    /// Returns whether some value passes both, without building the intersection.
    pub fn intersects(&self, other: &Self) -> bool {
        let (gte, lte) = self.common_bounds(other);
        if crossed(gte, lte) {
            return false;
        }
        let within = |value: &&LabelValue| within(value.as_str(), gte, lte);
        match (self.complement, other.complement) {
            (true, true) => {
                let excluded: BTreeSet<&LabelValue> =
                    self.values.union(&other.values).filter(within).collect();
                !exhausts(&excluded, gte, lte)
            }
            (true, false) => other.values.iter().filter(within).any(|value| !self.values.contains(value)),
            (false, true) => self.values.iter().filter(within).any(|value| !other.values.contains(value)),
            (false, false) => self.values.iter().filter(within).any(|value| other.values.contains(value)),
        }
    }

    /// Returns whether no value passes.
    pub fn is_empty(&self) -> bool {
        if self.complement {
            let excluded =
                self.values.iter().filter(|value| within(value.as_str(), self.gte, self.lte)).collect();
            crossed(self.gte, self.lte) || exhausts(&excluded, self.gte, self.lte)
        } else {
            self.values.is_empty()
        }
    }

    /// A label value that passes: the first listed one, or the smallest integer from 0 or the lower bound on
    /// that is not excluded. Label values cannot be negative, so a purely negative range has none.
    pub fn any(&self) -> Option<LabelValue> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let lowest = self.gte.unwrap_or(0).max(0);
        (lowest..=self.lte.unwrap_or(i64::MAX))
            .map(|integer| LabelValue::from(integer.to_string()))
            .find(|value| !self.values.contains(value))
    }

    fn common_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.gte.max(other.gte), lte)
    }
}

fn crossed(gte: Option<i64>, lte: Option<i64>) -> bool {
    matches!((gte, lte), (Some(gte), Some(lte)) if gte > lte)
}

/// Returns whether `value` respects the bounds; with any bound, only integers do.
fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    let Ok(integer) = value.parse::<i64>() else { return false };
    gte.is_none_or(|gte| integer >= gte) && lte.is_none_or(|lte| integer <= lte)
}

/// Returns whether `excluded`, all within the bounds, leaves no integer of a range bounded on both sides.
fn exhausts(excluded: &BTreeSet<&LabelValue>, gte: Option<i64>, lte: Option<i64>) -> bool {
    let (Some(gte), Some(lte)) = (gte, lte) else { return false };
    let integers: BTreeSet<i64> = excluded.iter().filter_map(|value| value.as_str().parse().ok()).collect();
    usize::try_from(lte.abs_diff(gte)).is_ok_and(|span| integers.len() > span)
}

pub mod set;
pub mod syntax;
#[cfg(test)]
mod tests;
