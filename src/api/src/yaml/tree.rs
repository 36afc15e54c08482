//! A YAML or JSON document as a tree whose nodes know the line they stand on.
//!
//! Every entry of the report names a line, so the tree is kept until a value has been read. Fields keep the order in
//! which they are written. JSON is read as the YAML that it is.

use std::fmt;

use super as yaml;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// A value and its line, counted from 1 in the file.
#[derive(Clone, Debug)]
pub struct Node {
    /// Counted from 1 in the file.
    pub line: usize,
    /// Content.
    pub data: Data,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub enum Data {
    /// Text, number, boolean or nothing.
    Scalar(Value),
    /// Items in their order.
    List(Vec<Node>),
    /// Fields in their order. The line of a value is that of its key.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Reads one document that begins `lines_before` lines into its file; `None` for one without content.
    pub fn parse(text: &str, lines_before: usize) -> Result<Option<Self>, serde_saphyr::Error> {
        let mut documents = serde_saphyr::from_multiple_with_options::<Spanned<Data>>(text, yaml::options())?;
        if documents.is_empty() {
            return Ok(None);
        }
        let mut node = Self::from(documents.remove(0));
        node.move_down(lines_before);
        Ok(Some(node))
    }

    /// The field of this name, if this is a map that has it with a value.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Data::Map(fields) = &self.data else { return None };
        fields.iter().find(|(key, node)| key == name && !node.is_null()).map(|(_, node)| node)
    }

    /// The text, if this is one.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Items of a list; none of anything else.
    pub fn items(&self) -> &[Self] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// Returns whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Scalar(Value::Null))
    }

    /// Returns the value of the node, without lines.
    pub fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::List(items) => items.iter().map(Self::to_value).collect(),
            Data::Map(fields) => {
                let fields = fields.iter().map(|(key, node)| (key.clone(), node.to_value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// The line of the field at `path`, as in `spec.template.spec.requirements[0].key`, or of the nearest one around it. Keys with
    /// dots may stand in brackets or not: `limits[nvidia.com/gpu]`, `limits.nvidia.com/gpu`.
    pub fn line_at(&self, path: &str) -> usize {
        let path = path.trim_start_matches('.');
        let below = match &self.data {
            Data::Map(fields) => {
                let inner = path.strip_prefix('[').and_then(|path| path.split_once(']'));
                let rest_after = |key: &str| {
                    if let Some((name, rest)) = inner {
                        return (name.trim_matches('"') == key).then_some(rest);
                    }
                    let rest = path.strip_prefix(key)?;
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
                };
                let matching = fields.iter().filter_map(|(key, node)| Some((key, node, rest_after(key)?)));
                matching.max_by_key(|(key, ..)| key.len()).map(|(_, node, rest)| node.line_at(rest))
            }
            Data::List(items) => {
                let index = path.strip_prefix('[').and_then(|path| path.split_once(']'));
                index
                    .and_then(|(index, rest)| Some((items.get(index.parse::<usize>().ok()?)?, rest)))
                    .map(|(node, rest)| node.line_at(rest))
            }
            Data::Scalar(_) => None,
        };
        below.unwrap_or(self.line)
    }

    fn move_down(&mut self, lines: usize) {
        self.line += lines;
        match &mut self.data {
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|node| node.move_down(lines)),
            Data::Map(fields) => fields.iter_mut().for_each(|(_, node)| node.move_down(lines)),
        }
    }
}

impl From<Spanned<Data>> for Node {
    fn from(spanned: Spanned<Data>) -> Self {
        Self { line: line_of(&spanned), data: spanned.value }
    }
}

fn line_of<T>(spanned: &Spanned<T>) -> usize {
    usize::try_from(spanned.referenced.line()).unwrap_or_default()
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of YAML")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Data, E> {
        Ok(Data::Scalar(yaml::float(value)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<Spanned<Data>>()? {
            items.push(item.into());
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let line = line_of(&key);
            let data = map.next_value::<Spanned<Data>>()?.value;
            fields.push((key.value, Node { line, data }));
        }
        Ok(Data::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(node: &Node) -> Vec<usize> {
        let below: Vec<usize> = match &node.data {
            Data::Scalar(_) => Vec::new(),
            Data::List(items) => items.iter().flat_map(lines).collect(),
            Data::Map(fields) => fields.iter().flat_map(|(_, node)| lines(node)).collect(),
        };
        [vec![node.line], below].concat()
    }

    #[test]
    fn values_know_the_line_of_their_key_and_items_their_own() {
        let text = "a: 1\nb:\n  c: [x, 'y']\n  d:\n  - e: true\n  - null\n";
        let node = Node::parse(text, 10).unwrap().unwrap();
        let value = json!({"a": 1, "b": {"c": ["x", "y"], "d": [{"e": true}, null]}});
        assert_eq!(node.to_value(), value);
        assert_eq!(lines(&node), [11, 11, 12, 13, 13, 13, 14, 15, 15, 16]);
    }

    #[test]
    fn the_line_of_a_field_is_found_by_its_path() {
        let text = "a:\n  b.c/d: 1\n  e:\n  - f: 2\n    g:\n      h: 3\n";
        let node = Node::parse(text, 0).unwrap().unwrap();
        for (path, line) in [
            ("a", 1),
            ("a.b.c/d", 2),
            ("a[b.c/d]", 2),
            ("a.e[0].g.h", 6),
            ("a.e[0].g.missing", 5),
            ("a.e[7]", 3),
            ("other", 1),
            ("", 1),
        ] {
            assert_eq!(node.line_at(path), line, "{path}");
        }
    }

    #[test]
    fn json_is_read_too() {
        let node = Node::parse("{\n\t\"a\": {\n\t\t\"b\": 1.5}\n}", 0).unwrap().unwrap();
        assert_eq!(node.to_value(), json!({"a": {"b": 1.5}}));
        assert_eq!(lines(&node), [1, 2, 3]);
    }

    #[test]
    fn a_document_of_comments_has_no_content() {
        assert!(Node::parse("# nothing\n", 0).unwrap().is_none());
        assert!(Node::parse("", 0).unwrap().is_none());
    }
}
