//! Event patterns: every field of the pattern must match; an array lists the accepted values.
//!
//! Content filters beyond `prefix`, `suffix`, `exists` and `anything-but` never match.

use serde_json::Value;

/// A JSON object.
pub(super) fn is_well_formed(pattern: &str) -> bool {
    matches!(serde_json::from_str::<Value>(pattern), Ok(Value::Object(fields)) if !fields.is_empty())
}

/// True when the event has everything the pattern asks for.
pub(super) fn matches(pattern: &str, event: &Value) -> bool {
    serde_json::from_str::<Value>(pattern).is_ok_and(|pattern| fits(&pattern, Some(event)))
}

fn fits(pattern: &Value, value: Option<&Value>) -> bool {
    match pattern {
        Value::Object(fields) => {
            fields.iter().all(|(name, inner)| fits(inner, value.and_then(|value| value.get(name))))
        }
        Value::Array(accepted) => accepted.iter().any(|rule| accepts(rule, value)),
        _ => false,
    }
}

fn accepts(rule: &Value, value: Option<&Value>) -> bool {
    if let Some(Value::Array(values)) = value {
        return values.iter().any(|value| accepts(rule, Some(value)));
    }
    let Value::Object(filter) = rule else { return value == Some(rule) };
    let text = value.and_then(Value::as_str);
    filter.iter().all(|(kind, argument)| match (kind.as_str(), argument) {
        ("prefix", Value::String(start)) => text.is_some_and(|text| text.starts_with(start.as_str())),
        ("suffix", Value::String(end)) => text.is_some_and(|text| text.ends_with(end.as_str())),
        ("exists", Value::Bool(wanted)) => value.is_some() == *wanted,
        ("anything-but", Value::Array(refused)) => value.is_some_and(|value| !refused.contains(value)),
        ("anything-but", refused) => value.is_some_and(|value| value != refused),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_add_up_and_values_are_alternatives() {
        let event = json!({
            "source": "aws.ec2",
            "detail-type": "EC2 Instance State-change Notification",
            "detail": {"state": "stopping", "instance-id": "i-1"},
            "resources": ["arn:1", "arn:2"],
        });
        for (pattern, expected) in [
            (r#"{"source":["aws.ec2"]}"#, true),
            (r#"{"source":["aws.health"]}"#, false),
            (r#"{"source":["aws.health","aws.ec2"],"detail":{"state":["stopping","stopped"]}}"#, true),
            (r#"{"source":["aws.ec2"],"detail":{"state":["running"]}}"#, false),
            (r#"{"source":[{"prefix":"aws."}]}"#, true),
            (r#"{"detail":{"state":[{"anything-but":["running","pending"]}]}}"#, true),
            (r#"{"detail":{"missing":[{"exists":false}]}}"#, true),
            (r#"{"resources":["arn:2"]}"#, true),
            (r#"{"detail":{"missing":["x"]}}"#, false),
            (r#"{"source":[{"wildcard":"aws.*"}]}"#, false),
        ] {
            assert_eq!(matches(pattern, &event), expected, "{pattern}");
        }
    }

    #[test]
    fn only_filled_objects_are_patterns() {
        assert!(is_well_formed(r#"{"source":["aws.ec2"]}"#));
        for malformed in ["", "{}", "[]", "\"x\"", "{"] {
            assert!(!is_well_formed(malformed), "{malformed}");
        }
    }
}
