//! The objects of a cluster as JSON, one per kind, namespace and name; what files, exports and API servers say alike.
//!
//! A later object takes the place of an earlier one of the same name, so a file given last wins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Kinds whose objects are in a namespace, which is `default` when a manifest does not say.
const NAMESPACED: [&str; 14] = [
    "BufferTemplate",
    "CapacityBuffer",
    "DaemonSet",
    "Deployment",
    "Job",
    "LimitRange",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "ReplicaSet",
    "ResourceClaim",
    "Secret",
    "StatefulSet",
];

/// Which object it is. API groups are left out: the kinds that are read have different names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ObjectKey {
    pub(crate) kind: String,
    /// Empty for objects of the whole cluster.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub(crate) fn of(object: &Value) -> Self {
        let kind = text(object, "/kind").to_owned();
        let mut namespace = text(object, "/metadata/namespace").to_owned();
        if namespace.is_empty() && NAMESPACED.contains(&kind.as_str()) {
            "default".clone_into(&mut namespace);
        }
        Self { kind, namespace, name: text(object, "/metadata/name").to_owned() }
    }
}

/// A text that is not a stream of Kubernetes objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read document {document} of `{source_name}`: {problem}; correct it or leave the file out")]
pub struct Unreadable {
    /// The file.
    source_name: String,
    /// Its number in the file, from 1.
    document: usize,
    problem: String,
}

/// The objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    by_key: BTreeMap<ObjectKey, Value>,
}

impl Objects {
    /// Reads a stream of YAML or JSON documents; the items of lists count as objects of their own.
    pub fn read(source: &str, stream: &str) -> Result<Vec<Value>, Unreadable> {
        let mut found = Vec::new();
        for (index, (lines_before, document)) in documents(stream).into_iter().enumerate() {
            let failed =
                |problem: String| Unreadable { source_name: source.to_owned(), document: index + 1, problem };
            let value = parse(&document, lines_before).map_err(failed)?;
            let Some(value) = value else { continue };
            let kind = text(&value, "/kind").to_owned();
            match value.get("items").and_then(Value::as_array) {
                // `kubectl get --output json` of one kind leaves kind and version out of its items.
                Some(items) if kind.ends_with("List") => {
                    for (number, item) in items.iter().enumerate() {
                        let mut item = item.clone();
                        if !item.is_object() {
                            return Err(failed(format!("`items[{number}]` is not an object")));
                        }
                        if item.get("kind").is_none() && kind != "List" {
                            item["kind"] = json!(kind.trim_end_matches("List"));
                            item["apiVersion"] = value["apiVersion"].clone();
                        }
                        found.push(item);
                    }
                }
                _ if kind.is_empty() => return Err(failed("it has no `kind`".to_owned())),
                _ => found.push(value),
            }
        }
        Ok(found)
    }

    /// Puts an object in, instead of an earlier one of its name. Objects without a name are left out.
    pub(crate) fn put(&mut self, mut object: Value) {
        let key = ObjectKey::of(&object);
        if key.name.is_empty() {
            return;
        }
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        self.by_key.insert(key, object);
    }

    /// Puts in what a manifest asks for: an object that exists keeps its identity, its status and the annotations and
    /// labels the manifest is silent about, as after `kubectl apply`.
    pub(crate) fn apply(&mut self, mut object: Value) {
        let key = ObjectKey::of(&object);
        if let Some(before) = self.by_key.get(&key) {
            let mut metadata = before["metadata"].clone();
            for map in ["labels", "annotations"] {
                for (name, value) in object["metadata"][map].as_object().into_iter().flatten() {
                    metadata[map][name] = value.clone();
                }
            }
            object["metadata"] = metadata;
            if let Some(status) = before.get("status") {
                object["status"] = status.clone();
            }
        }
        self.put(object);
    }

    /// The object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.by_key.get(key)
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Value> {
        self.by_key.remove(key)
    }

    /// Every object of a kind, by namespace and name.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.by_key.iter().filter(move |(key, _)| key.kind == kind)
    }

    /// The same, to be changed.
    pub(crate) fn of_kind_mut<'a>(
        &'a mut self,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a mut Value)> {
        self.by_key.iter_mut().filter(move |(key, _)| key.kind == kind)
    }

    /// Every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.by_key.iter()
    }

    /// Every object by itself.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.by_key.values().cloned().collect()
    }
}

impl FromIterator<Value> for Objects {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        let mut all = Self::default();
        objects.into_iter().for_each(|object| all.put(object));
        all
    }
}

/// The text at `pointer`, empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The documents of a stream, what is between lines that begin with three dashes, each with the number of lines before it.
fn documents(stream: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(0, String::new())];
    for (index, line) in stream.lines().enumerate() {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                documents.push((index + 1, String::new()));
            }
            _ => {
                if let Some((_, last)) = documents.last_mut() {
                    last.push_str(line);
                    last.push('\n');
                }
            }
        }
    }
    documents.retain(|(_, document)| !document.trim().is_empty());
    documents
}

/// One document that begins `lines_before` lines into its stream; `None` if there is nothing but comments in it. JSON is
/// YAML, but much faster to read as JSON, which counts for the offerings of an export.
fn parse(document: &str, lines_before: usize) -> Result<Option<Value>, String> {
    if document.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(document)
    {
        return Ok(Some(value));
    }
    let value: Option<Value> = match serde_saphyr::from_str(document) {
        Ok(value) => value,
        Err(_) => return Err(problem(document, lines_before)),
    };
    Ok(value.filter(|value| !value.is_null()))
}

/// What is wrong with a document that cannot be read, with its place in the stream.
fn problem(document: &str, lines_before: usize) -> String {
    let options = serde_saphyr::options! { with_snippet: false };
    let in_place = "\n".repeat(lines_before) + document;
    let read = serde_saphyr::from_str_with_options::<Option<Value>>(&in_place, options);
    read.err().map(|error| error.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: &[Value]) -> Vec<String> {
        objects.iter().map(|one| format!("{} {}", text(one, "/kind"), text(one, "/metadata/name"))).collect()
    }

    #[test]
    fn a_stream_is_yaml_json_and_lists_of_either() {
        let stream = "# nothing here\n---\nkind: Pod\nmetadata: {name: a}\n--- # next\n{\"kind\": \"Node\", \
                      \"metadata\": {\"name\": \"n\"}}\n---\nkind: List\nitems:\n- {kind: Pod, metadata: {name: b}}\n\
                      ---\nkind: PodList\napiVersion: v1\nitems:\n- metadata: {name: c}\n";
        let objects = Objects::read("all.yaml", stream).unwrap();
        assert_eq!(names(&objects), ["Pod a", "Node n", "Pod b", "Pod c"]);
        assert_eq!(objects[3]["apiVersion"], "v1");
    }

    #[test]
    fn what_cannot_be_read_is_named_by_file_and_document() {
        let error = Objects::read("a.yaml", "kind: Pod\nmetadata: {name: a}\n---\nfoo: 1\n").unwrap_err();
        let expected =
            "cannot read document 2 of `a.yaml`: it has no `kind`; correct it or leave the file out";
        assert_eq!(error.to_string(), expected);
        let said = |stream| Objects::read("a.yaml", stream).unwrap_err().to_string();
        let second = said("kind: Pod\nmetadata: {name: a}\n---\nkind: [\n");
        assert!(
            second.starts_with("cannot read document 2 of `a.yaml`: ") && second.contains("line 4"),
            "{second}"
        );
        assert!(!second.contains('\n'), "{second}");
        assert!(said("kind: PodList\nitems: [{}, foo]\n").contains("`items[1]` is not an object"));
    }

    #[test]
    fn a_manifest_changes_what_it_says_and_keeps_what_it_does_not() {
        let mut objects: Objects = [json!({
            "kind": "NodePool", "metadata": {"name": "a", "uid": "1", "annotations": {"x": "1", "y": "1"}},
            "spec": {"weight": 1}, "status": {"nodes": 3},
        })]
        .into_iter()
        .collect();
        let changed = json!({"kind": "NodePool", "metadata": {"name": "a", "annotations": {"x": "2"}},
            "spec": {"weight": 2}});
        objects.apply(changed);
        let expected = json!({
            "kind": "NodePool", "metadata": {"name": "a", "uid": "1", "annotations": {"x": "2", "y": "1"}},
            "spec": {"weight": 2}, "status": {"nodes": 3},
        });
        assert_eq!(objects.values(), [expected]);
    }

    #[test]
    fn objects_of_a_namespace_are_in_the_default_one_unless_they_say() {
        let objects: Objects =
            [json!({"kind": "Pod", "metadata": {"name": "a"}}), json!({"kind": "Pod", "metadata": {}})]
                .into_iter()
                .collect();
        let values = objects.values();
        assert_eq!(values.len(), 1);
        assert_eq!(values[0]["metadata"]["namespace"], "default");
    }
}
