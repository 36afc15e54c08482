//! Syntax of label keys, label values and requirements (spec scheduling 3.2).

use crate::label::LabelRegistry;
use crate::requirement::{Expression, Operator};

/// Longest name part of a key and longest value.
const NAME_MAX: usize = 63;
/// Longest prefix part of a key.
const PREFIX_MAX: usize = 253;

/// Reason why a requirement cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum ExpressionError {
    /// The key belongs to the controller or to the host.
    #[error("label `{0}` is restricted, use a well-known label or one of your own domain")]
    Restricted(String),
    /// The key is not a qualified name.
    #[error("label key `{0}` is not a qualified name of at most 63 characters, with an optional DNS prefix")]
    Key(String),
    /// A value is not a label value.
    #[error("value `{value}` of label `{key}` is not a label value of at most 63 characters")]
    Value { key: String, value: String },
    /// `In` without values.
    #[error("operator In of label `{0}` needs at least one value")]
    NoValues(String),
    /// A bound without exactly one integer.
    #[error("operator {operator} of label `{key}` needs one integer that is not negative")]
    Bound { key: String, operator: &'static str },
    /// None of the values is one the label can have.
    #[error("none of the values of label `{0}` is known")]
    UnknownValues(String),
    /// `minValues` larger than the number of usable values.
    #[error("minValues {min_values} of label `{key}` is more than its {values} known values")]
    MinValues {
        key: String,
        /// Number of values asked for.
        min_values: u32,
        /// Number of usable values.
        values: usize,
    },
}

/// Checks one requirement the way pools and pods are checked, after normalising its key.
pub fn check(registry: &LabelRegistry, expression: &Expression) -> Result<(), ExpressionError> {
    let key = registry.normalize_key(&expression.key);
    let text = || key.as_str().to_owned();
    if registry.is_restricted(key.as_str()) {
        return Err(ExpressionError::Restricted(text()));
    }
    check_known_values(registry, expression)?;
    if !is_qualified_name(key.as_str()) {
        return Err(ExpressionError::Key(text()));
    }
    let integer =
        || matches!(&expression.values[..], [one] if one.as_str().parse().is_ok_and(|n: i64| n >= 0));
    if expression.operator.is_bound() && !integer() {
        return Err(ExpressionError::Bound { key: text(), operator: expression.operator.as_str() });
    }
    if let Some(value) = expression.values.iter().find(|value| !is_label_value(value.as_str())) {
        return Err(ExpressionError::Value { key: text(), value: value.to_string() });
    }
    if expression.operator == Operator::In {
        if expression.values.is_empty() {
            return Err(ExpressionError::NoValues(text()));
        }
        check_min_values(expression, expression.values.len())?;
    }
    Ok(())
}

/// Keys with a closed value set need at least one known value, and `minValues` known ones; further unknown
/// values are tolerated.
fn check_known_values(registry: &LabelRegistry, expression: &Expression) -> Result<(), ExpressionError> {
    let key = registry.normalize_key(&expression.key);
    let Some(known) = registry.well_known_values.get(&key) else { return Ok(()) };
    if expression.operator != Operator::In || expression.values.is_empty() {
        return Ok(());
    }
    let values = expression.values.iter().map(|value| registry.normalize_value(&key, value));
    let count = values.filter(|value| known.contains(value)).count();
    if count == 0 {
        return Err(ExpressionError::UnknownValues(key.as_str().to_owned()));
    }
    check_min_values(expression, count)
}

fn check_min_values(expression: &Expression, values: usize) -> Result<(), ExpressionError> {
    match expression.min_values {
        Some(min_values) if usize::try_from(min_values).is_ok_and(|min_values| min_values > values) => {
            Err(ExpressionError::MinValues { key: expression.key.to_string(), min_values, values })
        }
        _ => Ok(()),
    }
}

/// `[prefix/]name` with a DNS subdomain as prefix.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
    }
}

/// Empty, or at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= NAME_MAX && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

/// At most 253 characters: labels of lower-case letters, digits and `-` inside, with dots between.
pub fn is_dns_subdomain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|byte| plain(*byte))
            && bytes.last().is_some_and(|byte| plain(*byte))
            && bytes.iter().all(|byte| plain(*byte) || *byte == b'-')
    };
    text.len() <= PREFIX_MAX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_follow_kubernetes() {
        let long = "a".repeat(64);
        let table = [
            ("a", true),
            ("A.b_c-1", true),
            ("example.com/a", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a b", false),
            ("Example.com/a", false),
            ("/a", false),
            ("example.com/", false),
            ("a/b/c", false),
            ("exa..mple/a", false),
            (long.as_str(), false),
            (&long[1..], true),
        ];
        for (text, expected) in table {
            assert_eq!(is_qualified_name(text), expected, "{text:?}");
        }
        assert!(is_label_value("") && !is_label_value(&long));
    }

    #[test]
    fn requirements_are_checked_after_normalisation() {
        use Operator::{Exists, Gt, In, NotIn};
        let registry = LabelRegistry::core();
        let min =
            |expression: Expression, min_values| Expression { min_values: Some(min_values), ..expression };
        let table = [
            (Expression::new("team", In, &["a"]), None),
            (
                Expression::new("kubernetes.io/hostname", In, &["a"]),
                Some("label `kubernetes.io/hostname` is restricted"),
            ),
            (Expression::new("karpenter.sh/registered", Exists, &[]), Some("restricted")),
            (Expression::new("team", In, &[]), Some("at least one value")),
            (Expression::new("team", NotIn, &[]), None),
            (Expression::new("team", Gt, &["-1"]), Some("needs one integer")),
            (Expression::new("team", Gt, &["1", "2"]), Some("needs one integer")),
            (Expression::new("team", Gt, &["a"]), Some("needs one integer")),
            (Expression::new("team x", In, &["a"]), Some("qualified name")),
            (Expression::new("team", In, &["a b"]), Some("not a label value")),
            (Expression::new("karpenter.sh/capacity-type", In, &["sport"]), Some("none of the values")),
            (Expression::new("karpenter.sh/capacity-type", In, &["sport", "spot"]), None),
            (
                min(Expression::new("karpenter.sh/capacity-type", In, &["sport", "spot"]), 2),
                Some("1 known values"),
            ),
            (min(Expression::new("team", In, &["a"]), 2), Some("minValues 2")),
        ];
        for (expression, expected) in table {
            match (check(&registry, &expression), expected) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
                (result, expected) => panic!("{expression:?}: {result:?}, expected {expected:?}"),
            }
        }
    }
}
