//! Streams of YAML and JSON documents as objects, each with the file and the line it begins at.
//!
//! JSON is YAML, but much faster to read as JSON, which counts for the offerings of an export. Items of a JSON list
//! have the line of their list.

use std::path::PathBuf;

use karpenter_api::yaml;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use crate::objects::{Objects, text};
use crate::yaml::{Misread, misread};

/// An object, and where it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub object: Value,
    /// Its place; `None` for one that is of no file.
    pub origin: Option<Origin>,
}

/// Place at which an object begins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
}

/// Files that have no objects of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A text that is not a stream of objects.
    #[error("cannot read `{file}`, line {line}{}: {problem}; correct it or leave the file out", of_field(.field))]
    Malformed {
        file: String,
        /// Counted from 1.
        line: usize,
        /// Empty where it is about no single one.
        field: String,
        /// Description of what is wrong with it.
        problem: String,
    },
    /// Nothing is in what was named.
    #[error("cannot find an object in {}; name files or folders with manifests", quoted(.paths))]
    Empty {
        /// Paths as the user gave them.
        paths: Vec<PathBuf>,
    },
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self { object, origin: None }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Reads a stream of YAML or JSON documents; the items of lists count as objects of their own.
pub(crate) fn manifests(file: &str, stream: &str) -> Result<Vec<Manifest>, Unreadable> {
    let mut found = Vec::new();
    for document in documents(stream) {
        let failed = |line: usize, field: &str, problem: String| Unreadable::Malformed {
            file: file.to_owned(),
            line,
            field: field.to_owned(),
            problem,
        };
        let value =
            parse(&document).map_err(|Misread { line, field, problem }| failed(line, &field, problem))?;
        let Some(value) = value else { continue };
        let line = document.first_line();
        let kind = text(&value, "/kind").to_owned();
        let items = value.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List"));
        let Some(items) = items else {
            if kind.is_empty() {
                return Err(failed(line, "kind", "is missing, and every object has one".to_owned()));
            }
            let origin = Some(Origin { file: file.to_owned(), line });
            found.push(Manifest { object: value, origin });
            continue;
        };
        let lines = lines_of_items(&document);
        for (number, item) in items.iter().enumerate() {
            let line = lines.get(number).copied().unwrap_or(line);
            let object = item_of(&value, &kind, item)
                .ok_or_else(|| failed(line, &format!("items[{number}]"), "is not an object".to_owned()))?;
            found.push(Manifest { object, origin: Some(Origin { file: file.to_owned(), line }) });
        }
    }
    Ok(found)
}

/// The objects of `texts`, each with the name of its file, that `paths` led to, in their order. None at all is an error: a
/// path that names nothing was not meant.
pub fn manifests_of<'a>(
    paths: &[PathBuf],
    texts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Manifest>, Unreadable> {
    let mut all = Vec::new();
    for (file, text) in texts {
        all.extend(manifests(file, text)?);
    }
    if all.is_empty() && !paths.is_empty() {
        return Err(Unreadable::Empty { paths: paths.to_vec() });
    }
    Ok(all)
}

impl Objects {
    /// Reads the objects of a stream, without their places.
    pub fn read(file: &str, stream: &str) -> Result<Vec<Value>, Unreadable> {
        Ok(manifests(file, stream)?.into_iter().map(|manifest| manifest.object).collect())
    }
}

/// An item of a list. `kubectl get --output json` of one kind leaves kind and version out of its items.
fn item_of(list: &Value, kind: &str, item: &Value) -> Option<Value> {
    let mut item = item.is_object().then(|| item.clone())?;
    if item.get("kind").is_none() && kind != "List" {
        item["kind"] = json!(kind.trim_end_matches("List"));
        item["apiVersion"] = list["apiVersion"].clone();
    }
    Some(item)
}

fn of_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", field `{field}`") }
}

fn quoted(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

/// Text between two lines that begin with three dashes.
struct Document {
    /// Lines of the stream before it.
    before: usize,
    text: String,
}

impl Document {
    fn is_json(&self) -> bool {
        self.text.trim_start().starts_with('{')
    }

    /// The line of the stream with the first word that is no comment.
    fn first_line(&self) -> usize {
        let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        self.before + 1 + self.text.lines().position(says).unwrap_or(0)
    }
}

fn documents(stream: &str) -> Vec<Document> {
    let mut documents = vec![Document { before: 0, text: String::new() }];
    for (index, line) in stream.lines().enumerate() {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                documents.push(Document { before: index + 1, text: String::new() });
            }
            _ => {
                if let Some(last) = documents.last_mut() {
                    last.text.push_str(line);
                    last.text.push('\n');
                }
            }
        }
    }
    documents.retain(|document| !document.text.trim().is_empty());
    documents
}

/// One document; `None` if there is nothing but comments in it.
fn parse(document: &Document) -> Result<Option<Value>, Misread> {
    if document.is_json()
        && let Ok(value) = serde_json::from_str(&document.text)
    {
        return Ok(Some(yaml::sent(value)));
    }
    let value: Option<Value> = serde_saphyr::from_str_with_options(&document.text, yaml::options())
        .map_err(|error| misread(&document.text, &error))
        .map_err(|found| Misread { line: document.before + found.line, ..found })?;
    Ok(value.filter(|value| !value.is_null()).map(yaml::sent))
}

/// The lines that items of a list begin at; none of a list in JSON.
fn lines_of_items(document: &Document) -> Vec<usize> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Spanned<IgnoredAny>>,
    }
    if document.is_json() {
        return Vec::new();
    }
    let list = serde_saphyr::from_str::<List>(&document.text);
    let items = list.map(|list| list.items).unwrap_or_default();
    let line = |item: &Spanned<IgnoredAny>| usize::try_from(item.referenced.line()).unwrap_or(1);
    items.iter().map(|item| document.before + line(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &str) -> Vec<Manifest> {
        manifests("all.yaml", stream).unwrap()
    }

    #[test]
    fn a_stream_is_yaml_json_and_lists_of_either() {
        let stream = "# nothing here\n---\nkind: Pod\nmetadata: {name: a}\n--- # next\n{\"kind\": \"Node\", \
                      \"metadata\": {\"name\": \"n\"}}\n---\n# two\nkind: List\nitems:\n- kind: Pod\n  metadata: {name: b}\n\
                      - {kind: Pod, metadata: {name: d}}\n---\nkind: PodList\napiVersion: v1\nitems:\n\
                      - metadata: {name: c}\n";
        let objects = read(stream);
        let said = |one: &Manifest| {
            let place = one.origin.as_ref().unwrap();
            format!("{} {} {place}", text(&one.object, "/kind"), text(&one.object, "/metadata/name"))
        };
        let said: Vec<String> = objects.iter().map(said).collect();
        assert_eq!(
            said,
            [
                "Pod a all.yaml:3",
                "Node n all.yaml:6",
                "Pod b all.yaml:11",
                "Pod d all.yaml:13",
                "Pod c all.yaml:18",
            ]
        );
        assert_eq!(objects[4].object["apiVersion"], "v1");
    }

    #[test]
    fn files_without_any_object_are_refused_by_the_names_they_were_given() {
        let paths = ["a.yaml".into(), "later".into()];
        let pod = "kind: Pod\nmetadata: {name: a}\n";
        let found = manifests_of(&paths, [("a.yaml", pod), ("later/b.yaml", "# later\n")]).unwrap();
        assert_eq!(found, manifests("a.yaml", pod).unwrap());
        let error = manifests_of(&paths, [("later/b.yaml", "# later\n")]).unwrap_err().to_string();
        assert_eq!(error, "cannot find an object in `a.yaml`, `later`; name files or folders with manifests");
        assert_eq!(manifests_of(&[], []), Ok(Vec::new()), "none was named");
    }

    #[test]
    fn what_cannot_be_read_is_named_by_file_line_and_field() {
        for (stream, expected) in [
            (
                "kind: Pod\nmetadata: {name: a}\n---\n# no\nfoo: 1\n",
                "line 5, field `kind`: is missing, and every object has one",
            ),
            (
                "kind: Pod\nmetadata: {name: a}\n---\nkind: [\n",
                "line 4, field `kind`: is no YAML here: unclosed bracket '['",
            ),
            ("kind: PodList\nitems: [{}, foo]\n", "line 2, field `items[1]`: is not an object"),
        ] {
            let error = manifests("a.yaml", stream).unwrap_err().to_string();
            let expected = format!("cannot read `a.yaml`, {expected}; correct it or leave the file out");
            assert_eq!(error, expected);
        }
    }
}
