//! YAML and JSON as `kubectl` reads and sends them.
//!
//! `kubectl` reads YAML 1.1, in which `0755` is octal. It sends JSON, in which a number that is whole has neither point nor
//! exponent: of `1e+06`, which templates write for a million, it makes `1000000`. Streams are cut into documents as `kubectl`
//! cuts them, and a document can be read as a tree whose nodes have lines.

mod document;
mod json;
mod tree;

use serde_json::Value;

pub use document::{Document, split};
pub use json::{JsonDocument, json_documents};
pub use tree::{Data, Node};

/// Most nodes of a document: `kubectl get pods --output yaml` of a large cluster is a list of them all in one.
const NODES_MAX: usize = 50_000_000;

/// Options for reading texts of objects. Errors come without the lines around them.
pub fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        with_snippet: false,
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_events: 2 * NODES_MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
        },
    }
}

/// The value with its numbers as `kubectl` sends them.
pub fn sent(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(written) => float(written),
            None => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(sent).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, sent(value))).collect(),
        other => other,
    }
}

/// A number that was written with a point or an exponent, or is too large for an integer.
pub fn float(written: f64) -> Value {
    let whole = (written.fract() == 0.0).then(|| format!("{written:.0}"));
    let integer = whole.and_then(|whole| whole.parse::<i64>().ok());
    integer.map_or_else(|| Value::from(written), Value::from)
}

/// Drops fields that are null: an API server takes them for absent, and applies the default. Items of lists are left.
pub fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_those_that_kubectl_sends() {
        for (written, expected) in [
            ("0755", json!(493)),
            ("0o755", json!(493)),
            ("0x1ed", json!(493)),
            ("1_000", json!(1000)),
            ("1e+06", json!(1_000_000)),
            ("2.5e+01", json!(25)),
            ("755.0", json!(755)),
            ("-1", json!(-1)),
            ("-1e+02", json!(-100)),
            ("08", json!(8)),
            ("0.5", json!(0.5)),
            ("9223372036854775807", json!(i64::MAX)),
            ("1e+30", json!(1e30)),
            ("'0755'", json!("0755")),
            ("0.5.1", json!("0.5.1")),
            ("yes", json!(true)),
        ] {
            let read: Value = serde_saphyr::from_str_with_options(written, options()).unwrap();
            assert_eq!(sent(read), expected, "{written}");
        }
    }

    #[test]
    fn fields_that_are_null_are_absent() {
        let mut object =
            json!({"spec": {"budgets": null, "list": [{"a": null, "b": 1}, null]}, "status": null});
        without_nulls(&mut object);
        assert_eq!(object, json!({"spec": {"list": [{"b": 1}, null]}}));
    }
}
