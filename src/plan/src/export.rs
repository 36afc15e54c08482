//! A cluster as one stream of documents: the objects a plan reads, what of them it reads, and what pools can launch.
//!
//! Only fields that are listed are written, so secrets, environment variables, commands and images of containers never
//! are, whatever is added to Kubernetes. [`anonymous`](self::anonymous) replaces names and labels of users.

mod anonymous;
mod fields;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_model::{PoolName, Zone};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::buffers;
use crate::objects::Objects;
use crate::offerings::{API_VERSION, INSTANCE_TYPE, Offerings};

/// Kind of the document that says when and how an export was made.
const HEADER: &str = "Export";

/// Time and settings of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Header {
    /// The instant plans of it are for.
    pub(crate) taken_at: Timestamp,
    /// Settings of the controller that differ from their defaults, as `name=value`.
    #[serde(default)]
    settings: Vec<String>,
    /// Zones the cluster is shifted away from.
    #[serde(default)]
    pub(crate) zones_away: BTreeSet<Zone>,
    /// Reasons why the types of a pool are not known.
    #[serde(default)]
    pub(crate) problems: BTreeMap<PoolName, String>,
    /// Remarks on its origin; left out of anonymous exports, because they name things.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// Types were missing in the list.
    #[serde(default)]
    pub(crate) partial: bool,
}

impl Header {
    /// Takes the header out of objects; `None` when they are no export.
    pub(crate) fn take(objects: &mut Objects) -> Result<Option<Self>, serde_json::Error> {
        let found = objects.of_kind(HEADER).next().map(|(key, _)| key.clone());
        let header = found.and_then(|key| objects.remove(&key));
        header.map(|header| Self::deserialize(&header["spec"])).transpose()
    }
}

/// Returns whether objects are those of an export.
pub fn is_export(objects: &[Value]) -> bool {
    objects.iter().any(|one| one["kind"] == HEADER && one["apiVersion"] == API_VERSION)
}

/// Returns whether plans read objects of this kind.
pub(crate) fn reads(kind: &str) -> bool {
    fields::kept(kind, &Value::Null).is_some()
}

/// The settings that objects of an export were planned with, as `name=value`; none for other objects.
pub fn settings_of(objects: &[Value]) -> Vec<String> {
    let header = objects.iter().find(|one| one["kind"] == HEADER && one["apiVersion"] == API_VERSION);
    let settings = header.and_then(|header| header.pointer("/spec/settings")).and_then(Value::as_array);
    settings.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Settings and remarks of an export.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// Settings of the controller that differ from their defaults, as `name=value`.
    pub settings: &'a [String],
    /// Remarks on its origin.
    pub notes: &'a [String],
}

/// The stream. Documents are JSON on one line each, which YAML includes.
pub(crate) fn stream(
    objects: &Objects,
    at: Timestamp,
    offerings: &Offerings,
    about: About<'_>,
    anonymous: bool,
) -> String {
    let header = Header {
        taken_at: at,
        settings: about.settings.to_vec(),
        notes: if anonymous { Vec::new() } else { about.notes.to_vec() },
        zones_away: offerings.zones_away.clone(),
        problems: offerings.problems.clone(),
        partial: offerings.partial,
    };
    let mut documents = vec![
        json!({"apiVersion": API_VERSION, "kind": HEADER, "metadata": {"name": "export"}, "spec": header}),
    ];
    let read =
        objects.all().filter(|(key, _)| ![INSTANCE_TYPE, buffers::TEMPLATE].contains(&key.kind.as_str()));
    documents.extend(read.filter_map(|(key, object)| fields::kept(&key.kind, object)));
    documents.extend(buffers::written(objects).iter().filter_map(|one| fields::kept(buffers::TEMPLATE, one)));
    documents.extend(offerings.written());
    if anonymous {
        documents = anonymous::anonymous(documents);
    }
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}
