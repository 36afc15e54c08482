//! Columns of `kubectl get`: what each kind shows, as `JSONPath` or as a small function of the object.
//!
//! kubectl asks the server for a `Table`, so the server must know the columns. Custom kinds bring theirs in
//! the CustomResourceDefinition; the built-in ones that people look at while debugging are listed here.

mod builtin;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use builtin::columns_of;

use super::{jsonpath::JsonPath, object};

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `OpenAPI` type of the cells: `string`, `integer`, `date`, ...
    pub kind: String,
    /// 0 is always shown, larger ones only with `-o wide`.
    pub priority: i64,
    /// Source of the cells.
    pub source: Source,
}

/// Source of the text of a cell.
#[derive(Debug, Clone)]
pub enum Source {
    /// A path into the object.
    Path(JsonPath),
    /// A function of the object.
    Computed(fn(&Value) -> Value),
}

impl Column {
    /// The cell of one object. Dates become ages, as kubectl cannot know that they are dates.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Computed(compute) => compute(object),
            Source::Path(path) => match path.first(object) {
                Some(Value::String(at)) if self.kind == "date" => json!(age(at, now)),
                Some(Value::Array(_) | Value::Object(_)) | None => Value::Null,
                Some(value) if self.kind == "string" && !value.is_string() => json!(value.to_string()),
                Some(value) => value.clone(),
            },
        }
    }
}

/// The `Table` that kubectl prints.
pub(crate) fn table(columns: &[Column], objects: &[&Value], now: Timestamp, revision: u64) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0});
    let heading = |c: &Column| json!({"name": c.name, "type": c.kind, "format": "", "description": "", "priority": c.priority});
    let headings: Vec<Value> = std::iter::once(name).chain(columns.iter().map(heading)).collect();
    let row = |o: &&Value| {
        let mut cells = vec![json!(object::name(o))];
        cells.extend(columns.iter().map(|c| c.cell(o, now)));
        json!({"cells": cells, "object": partial_metadata(o)})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": revision.to_string()},
        "columnDefinitions": headings,
        "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
    })
}

/// Age as kubectl shows it: the largest unit, or two when the larger one is small.
pub(crate) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    let seconds = (now.as_second() - since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=599 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..=10_799 => format!("{minutes}m"),
        10_800..=28_799 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..=172_799 => format!("{hours}h"),
        172_800..=691_199 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_like_those_of_kubectl() {
        let now = Timestamp::from_second(1_000_000).expect("in range");
        let cases = [
            (5, "5s"),
            (119, "119s"),
            (120, "2m"),
            (301, "5m1s"),
            (3_600, "60m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ];
        for (seconds, expected) in cases {
            let since = Timestamp::from_second(1_000_000 - seconds).expect("in range");
            assert_eq!(age(&object::rfc3339(since), now), expected, "{seconds} seconds");
        }
    }
}
