//! Streams of YAML and JSON documents as objects, each with the file and the line it begins at.
//!
//! A document that cannot be read does not keep the others from being read: every fault of every file is named at once. JSON
//! is YAML, but much faster to read as JSON, which counts for the offerings of an export.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use karpenter_api::yaml::{self, Node, json_documents, split};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::objects::{Objects, kinds, text};
use crate::yaml::misread;

/// An object, and where it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub object: Value,
    /// Its place; `None` for one that is of no file.
    pub origin: Option<Origin>,
    /// The text it was read from, for the lines of its fields.
    source: Option<Source>,
}

/// Place at which an object begins, or a field of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Origin {
    /// The file, as it was named.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
}

/// A place in a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// File and line.
    pub origin: Origin,
    /// Empty where it is about no single one.
    pub field: String,
    /// Description of what is wrong with it.
    pub problem: String,
}

/// Everything that was read, and what was not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Objects, in the order of the files.
    pub manifests: Vec<Manifest>,
    /// Places that cannot be read, in the order of the files.
    pub faults: Vec<Fault>,
}

/// Files that have no objects of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Texts that are not streams of objects.
    #[error("{}", faulty(.0))]
    Malformed(Vec<Fault>),
    /// Nothing is in what was named.
    #[error("cannot find an object in {}; name files or folders with manifests", quoted(.paths))]
    Empty {
        /// Paths as the user gave them.
        paths: Vec<PathBuf>,
    },
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self { object, origin: None, source: None }
    }
}

impl Manifest {
    /// The place of a field, such as `spec.template.spec.nodeSelector`, or of what is nearest around it.
    pub(crate) fn origin_of(&self, field: &str) -> Option<Origin> {
        let origin = self.origin.as_ref()?;
        let line = self.source.as_ref().and_then(|source| source.line_of(field));
        Some(Origin { file: origin.file.clone(), line: line.unwrap_or(origin.line) })
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { origin: Origin { file, line }, field, problem } = self;
        let field = if field.is_empty() { String::new() } else { format!(", field `{field}`") };
        write!(f, "`{file}`, line {line}{field}: {problem}")
    }
}

/// The text of faults that end a command.
fn faulty(faults: &[Fault]) -> String {
    match faults {
        [one] => format!("cannot read {one}; correct it or leave the file out"),
        all => {
            let lines: String = all.iter().map(|fault| format!("\n  {fault}")).collect();
            format!("cannot read {} places; correct them or leave their files out:{lines}", all.len())
        }
    }
}

/// A text that objects were read from, and the path from its root to one of them.
#[derive(Clone, Debug)]
struct Source {
    document: Arc<Text>,
    at: String,
}

#[derive(Debug)]
struct Text {
    written: String,
    /// Lines of the file before it.
    before: usize,
    /// Read once a line is asked for.
    tree: OnceLock<Option<Node>>,
}

impl Source {
    fn line_of(&self, field: &str) -> Option<usize> {
        let Text { written, before, tree } = &*self.document;
        let tree = tree.get_or_init(|| Node::parse(written, *before).ok().flatten()).as_ref()?;
        Some(tree.line_at(&format!("{}.{field}", self.at)))
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        (&self.document.written, self.document.before, &self.at)
            == (&other.document.written, other.document.before, &other.at)
    }
}

/// Reads a stream of YAML or JSON documents; the items of lists count as objects of their own.
pub fn read_stream(file: &str, stream: &str) -> Reading {
    let mut reader = Reader { file, reading: Reading::default() };
    for document in split(stream.trim_start_matches('\u{feff}')) {
        if !document.text.trim().is_empty() {
            reader.document(&document.text, document.lines_before);
        }
    }
    reader.reading
}

/// Reads `texts`, each with the name of its file, that `paths` led to, in their order. None at all is an error: a path that
/// names nothing was not meant.
///
/// # Errors
/// [`Unreadable::Empty`].
pub fn read_streams<'a>(
    paths: &[PathBuf],
    texts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Reading, Unreadable> {
    let mut all = Reading::default();
    for (file, text) in texts {
        let one = read_stream(file, text);
        all.manifests.extend(one.manifests);
        all.faults.extend(one.faults);
    }
    if all == Reading::default() && !paths.is_empty() {
        return Err(Unreadable::Empty { paths: paths.to_vec() });
    }
    Ok(all)
}

impl Reading {
    /// The objects, if every place could be read.
    ///
    /// # Errors
    /// [`Unreadable::Malformed`], with every fault.
    pub fn whole(self) -> Result<Vec<Manifest>, Unreadable> {
        if self.faults.is_empty() { Ok(self.manifests) } else { Err(Unreadable::Malformed(self.faults)) }
    }
}

impl Objects {
    /// Reads the objects of a stream, without their places.
    ///
    /// # Errors
    /// [`Unreadable::Malformed`].
    pub fn read(file: &str, stream: &str) -> Result<Vec<Value>, Unreadable> {
        let manifests = read_stream(file, stream).whole()?;
        Ok(manifests.into_iter().map(|manifest| manifest.object).collect())
    }
}

struct Reader<'a> {
    file: &'a str,
    reading: Reading,
}

impl Reader<'_> {
    fn fault(&mut self, line: usize, field: &str, problem: impl Into<String>) {
        let origin = Origin { file: self.file.to_owned(), line };
        self.reading.faults.push(Fault { origin, field: field.to_owned(), problem: problem.into() });
    }

    fn document(&mut self, text: &str, before: usize) {
        let is_json = text.trim_start().starts_with(['{', '[']);
        if let Some(documents) = is_json.then(|| json_documents(text)).flatten() {
            let is_alone = documents.len() == 1;
            let whole = is_alone.then(|| text_of(text, before));
            for one in documents {
                let line = before + 1 + one.lines_before;
                self.root(yaml::sent(one.value), whole.clone(), line);
            }
            return;
        }
        match serde_saphyr::from_str_with_options::<Option<Value>>(text, yaml::options()) {
            // Nothing but comments.
            Ok(None | Some(Value::Null)) => {}
            Ok(Some(value)) => {
                let line = before + 1 + text.lines().position(says).unwrap_or(0);
                self.root(yaml::sent(value), Some(text_of(text, before)), line);
            }
            Err(error) => {
                let found = misread(text, &error);
                self.fault(before + found.line, &found.field, found.problem);
            }
        }
    }

    fn root(&mut self, value: Value, document: Option<Arc<Text>>, line: usize) {
        let source = document.map(|document| Source { document, at: String::new() });
        match value {
            Value::Object(_) => self.object(value, source, line),
            Value::Array(_) => self.fault(
                line,
                "",
                "is a list, and a manifest is an object; write its items as documents of their own, with a line of `---` \
                 between them, or below `items` of a `kind: List`",
            ),
            _ => self.fault(line, "", "is no object with `apiVersion`, `kind` and `metadata`"),
        }
    }

    fn object(&mut self, value: Value, source: Option<Source>, line: usize) {
        let at = |field: &str| source.as_ref().and_then(|source| source.line_of(field)).unwrap_or(line);
        let kind = text(&value, "/kind").to_owned();
        let is_list = kind == "List" || kind.ends_with("List") && value.get("items").is_some();
        if kind.is_empty() {
            let problem = match value.get("kind").filter(|kind| !kind.is_null()) {
                Some(other) => format!("is {other}, and must be a text such as `NodePool`"),
                None => "is missing, and every object has one".to_owned(),
            };
            return self.fault(at("kind"), "kind", problem);
        }
        if text(&value, "/apiVersion").is_empty() {
            let example = kinds::example_of(&kind).map(|example| format!("; write `{example}`"));
            let problem = match value.get("apiVersion").filter(|version| !version.is_null()) {
                Some(other) => format!("is {other}, and must be a text"),
                None => "is missing, and every object has one".to_owned(),
            };
            return self.fault(at("apiVersion"), "apiVersion", problem + &example.unwrap_or_default());
        }
        if !is_list {
            let origin = Some(Origin { file: self.file.to_owned(), line });
            // An API server has checked it, so no line of it is asked for.
            let source = source.filter(|_| text(&value, "/metadata/uid").is_empty());
            return self.reading.manifests.push(Manifest { object: value, origin, source });
        }
        let items = match value.get("items") {
            None | Some(Value::Null) => return,
            Some(Value::Array(items)) => items.clone(),
            Some(_) => return self.fault(at("items"), "items", "must be a list"),
        };
        for (number, item) in items.into_iter().enumerate() {
            let field = format!("items[{number}]");
            let line = at(&field);
            let below =
                source.clone().map(|source| Source { at: format!("{}.{field}", source.at), ..source });
            match item_of(&value, &kind, item) {
                Some(item) => self.object(item, below, line),
                None => self.fault(line, &field, "is not an object"),
            }
        }
    }
}

fn text_of(text: &str, before: usize) -> Arc<Text> {
    Arc::new(Text { written: text.to_owned(), before, tree: OnceLock::new() })
}

/// Returns whether a line has more than a comment.
fn says(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with('#')
}

/// An item of a list. `kubectl get --output json` of one kind leaves kind and version out of its items.
fn item_of(list: &Value, kind: &str, item: Value) -> Option<Value> {
    let mut item = item.is_object().then_some(item)?;
    if item.get("kind").is_none() && kind != "List" {
        item["kind"] = json!(kind.trim_end_matches("List"));
        item["apiVersion"] = list["apiVersion"].clone();
    }
    Some(item)
}

fn quoted(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &str) -> Vec<Manifest> {
        read_stream("all.yaml", stream).whole().unwrap()
    }

    #[test]
    fn a_stream_is_yaml_json_and_lists_of_either() {
        let stream = "# nothing here\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: a}\n--- # next\n{\"kind\": \"Node\", \
                      \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"n\"}}\n---\n# two\nkind: List\napiVersion: v1\nitems:\n\
                      - kind: Pod\n  apiVersion: v1\n  metadata: {name: b}\n\
                      - {kind: Pod, apiVersion: v1, metadata: {name: d}}\n---\nkind: PodList\napiVersion: v1\nitems:\n\
                      - metadata: {name: c}\n--- {kind: Pod, apiVersion: v1, metadata: {name: e}}\n---# f\n\
                      {\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"f\"}}\n\
                      {\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [\n\
                      {\"kind\": \"Pod\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"g\"}}]}\n";
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
                "Node n all.yaml:7",
                "Pod b all.yaml:13",
                "Pod d all.yaml:16",
                "Pod c all.yaml:21",
                "Pod e all.yaml:22",
                "Pod f all.yaml:24",
                "Pod g all.yaml:25",
            ]
        );
        assert_eq!(objects[4].object["apiVersion"], "v1");
    }

    #[test]
    fn files_without_any_object_are_refused_by_the_names_they_were_given() {
        let paths = ["a.yaml".into(), "later".into()];
        let pod = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n";
        let found = read_streams(&paths, [("a.yaml", pod), ("later/b.yaml", "# later\n")]).unwrap();
        assert_eq!(found, read_stream("a.yaml", pod));
        let error = read_streams(&paths, [("later/b.yaml", "# later\n")]).unwrap_err().to_string();
        assert_eq!(error, "cannot find an object in `a.yaml`, `later`; name files or folders with manifests");
        assert_eq!(read_streams(&[], []), Ok(Reading::default()), "none was named");
    }

    #[test]
    fn every_place_that_cannot_be_read_is_named_by_file_line_and_field() {
        let pod = "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n";
        for (stream, expected) in [
            (
                format!("{pod}---\n# no\nfoo: 1\n"),
                vec!["6, field `kind`: is missing, and every object has one"],
            ),
            (
                format!("kind: [\n---\n{pod}---\n- a\n---\nkind: Deployment\n"),
                vec![
                    "1, field `kind`: is no YAML here: unclosed bracket '['",
                    "7: is a list, and a manifest is an object; write its items as documents of their own, with a line of \
                     `---` between them, or below `items` of a `kind: List`",
                    "9, field `apiVersion`: is missing, and every object has one; write `apps/v1`",
                ],
            ),
            (
                "kind: PodList\napiVersion: v1\nitems:\n- {}\n- foo\n".to_owned(),
                vec!["5, field `items[1]`: is not an object"],
            ),
            ("kind: List\napiVersion: v1\nitems: {}\n".to_owned(), vec!["3, field `items`: must be a list"]),
            ("kind: 3\n".to_owned(), vec!["1, field `kind`: is 3, and must be a text such as `NodePool`"]),
            ("hello\n".to_owned(), vec!["1: is no object with `apiVersion`, `kind` and `metadata`"]),
            (
                "{\"kind\": \"Pod\",\n\"kind\": \"Node\"}\n".to_owned(),
                vec!["2, field `kind`: is there twice; leave one of them out"],
            ),
        ] {
            let faults: Vec<String> =
                read_stream("a.yaml", &stream).faults.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected.iter().map(|one| format!("`a.yaml`, line {one}")).collect();
            assert_eq!(faults, expected, "{stream}");
        }
        let error = read_stream("a.yaml", "kind: [\n").whole().unwrap_err().to_string();
        let place = "`a.yaml`, line 1, field `kind`: is no YAML here: unclosed bracket '['";
        assert_eq!(error, format!("cannot read {place}; correct it or leave the file out"));
        let error = read_stream("a.yaml", "kind: [\n---\nkind: [\n").whole().unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        assert_eq!(lines[0], "cannot read 2 places; correct them or leave their files out:");
    }

    #[test]
    fn fields_of_objects_have_lines() {
        let list =
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n";
        let found = read(list);
        assert_eq!(found[0].origin_of("metadata.name").unwrap().line, 7);
        assert_eq!(found[0].origin_of("spec").unwrap().line, 4);
        assert_eq!(Manifest::from(json!({})).origin_of("spec"), None);
    }
}
