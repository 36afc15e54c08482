//! Name, labels and annotations of an object, without what API servers and controllers write into it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::kind::requirements;
use crate::log::{Kind, Log};
use crate::names;

/// Fields that clients do not write.
const OF_SERVER: [&str; 12] = [
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "generateName",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
];

/// Name, labels and annotations of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// Reads field `metadata`; an object without a name is refused.
    pub(crate) fn read(object: &mut Fields, log: &Log) -> Self {
        let Some(mut fields) = object.section("metadata") else {
            log.say(Kind::Refused, "metadata", "is missing; give the object a name");
            return Self::default();
        };
        let name = fields.read::<String>("name");
        if name.is_none() {
            log.say(Kind::Refused, "metadata.name", "is missing; give the object a name");
        }
        let labels = fields.texts("labels").map(|found| found.value).unwrap_or_default();
        let rename = |key: String| names::label_today(&key).map_or(key, str::to_owned);
        let labels = labels.into_iter().map(|(key, value)| (rename(key), value.value)).collect();
        let annotations = requirements::annotations(&mut fields, "metadata.annotations", log);
        let left_out: Vec<&str> = OF_SERVER.into_iter().filter(|name| fields.take(name).is_some()).collect();
        if !left_out.is_empty() {
            let text =
                format!("left out: {}; the API server and the controller set them", left_out.join(", "));
            log.say(Kind::Noted, "metadata", text);
        }
        fields.finish();
        Self {
            name: name.map(|found| found.value).unwrap_or_default(),
            labels,
            annotations: annotations.unwrap_or_default(),
        }
    }

    /// Returns the metadata under another name.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// The object of this name with a spec, in the order in which people write it.
    pub(crate) fn object(&self, api_version: &str, kind: &str, spec: &Value) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(self.name));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), json!(self.annotations));
        }
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    }
}
