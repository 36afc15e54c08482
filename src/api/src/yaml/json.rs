//! Streams of JSON documents, read much faster than as the YAML that JSON is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A document of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonDocument {
    /// Number of line feeds of the stream before it.
    pub lines_before: usize,
    /// Content.
    pub value: Value,
}

/// The documents of a stream, which need nothing between them. `None` where it is no JSON, or a key is there twice: the reader
/// of YAML names the place.
pub fn json_documents(stream: &str) -> Option<Vec<JsonDocument>> {
    let mut documents = Vec::new();
    let (mut counted, mut lines_before) = (0, 0);
    let mut reader = serde_json::Deserializer::from_str(stream).into_iter::<Unique>();
    loop {
        let rest = stream.get(reader.byte_offset()..)?;
        let start = stream.len() - rest.trim_start().len();
        let Some(value) = reader.next() else { return Some(documents) };
        lines_before += stream.get(counted..start)?.matches('\n').count();
        counted = start;
        documents.push(JsonDocument { lines_before, value: value.ok()?.0 });
    }
}

/// A value in which no key is there twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Unique(item)) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Unique(value) = map.next_value()?;
            if let Some(_twice) = fields.insert(key, value) {
                return Err(A::Error::custom("a key is there twice"));
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_follow_one_another_without_a_marker() {
        let read =
            json_documents("{\"a\": [1, null, \"x\"]}\n\n{\"b\": {\"c\": 1.5}} {\"d\": true}\n").unwrap();
        let read: Vec<_> = read.into_iter().map(|one| (one.lines_before, one.value)).collect();
        let expected =
            [(0, json!({"a": [1, null, "x"]})), (2, json!({"b": {"c": 1.5}})), (2, json!({"d": true}))];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_no_json_or_has_a_key_twice_is_left_to_the_reader_of_yaml() {
        for text in ["{\"a\": 1,}", "{'a': 1}", "{\"a\": {\"b\": 1, \"b\": 2}}", "{\"a\": 1}\nb: 2\n"] {
            assert_eq!(json_documents(text), None, "{text}");
        }
    }
}
