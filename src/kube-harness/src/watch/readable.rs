//! Objects of kinds whose definition another release may have widened: one that this release cannot decode is an event
//! like any other, which says so. As an error it would end the watch, and every watch that begins again would meet it
//! again: one object would hide all others of its kind.
//!
//! Kinds that Kubernetes itself defines are decoded as they are: the API server checks them, and their types take whatever a
//! field may hold.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::Api;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Key, Seen, Troubles, follow, key};

/// An object, decoded if it can be.
#[derive(Clone, Debug)]
pub enum Readable<K> {
    /// All of it.
    Whole(K),
    /// It does not fit its type.
    Undecoded(Box<Undecoded>),
}

/// An object that could not be decoded.
#[derive(Clone, Debug)]
pub struct Undecoded {
    /// Its metadata, which every release writes in one form.
    pub metadata: ObjectMeta,
    /// The whole object.
    pub value: Value,
    /// The path of the field, and what is wrong with it.
    pub problem: String,
}

/// Follows every object behind `api` like [`follow`]. What cannot be decoded is logged once per version.
pub async fn follow_readable<K>(
    kind: &str,
    api: Api<Readable<K>>,
    troubles: &Troubles,
    shutdown: CancellationToken,
    mut listener: impl FnMut(Seen<Readable<K>>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut logged = Logged::default();
    let listener = |seen: Seen<Readable<K>>| {
        logged.note(kind, &seen);
        listener(seen);
    };
    follow(kind, api, troubles, shutdown, listener).await;
}

/// The versions of objects that were logged because they cannot be decoded.
#[derive(Debug, Default)]
pub struct Logged(BTreeMap<Key, Option<String>>);

impl Logged {
    /// Logs what `seen` brings that cannot be decoded, once per version.
    pub fn note<K: Resource>(&mut self, kind: &str, seen: &Seen<Readable<K>>) {
        match seen {
            Seen::Listing => {}
            Seen::Listed(Readable::Undecoded(object)) | Seen::Applied(Readable::Undecoded(object)) => {
                self.log(kind, object);
            }
            Seen::Listed(object) | Seen::Applied(object) | Seen::Deleted(object) => {
                self.0.remove(&key(object));
            }
            Seen::Complete(keys) => self.0.retain(|key, _| keys.contains(key)),
        }
    }

    fn log(&mut self, kind: &str, object: &Undecoded) {
        let version = object.metadata.resource_version.clone();
        let (namespace, name) = object.key();
        if self.0.insert((namespace, name.clone()), version.clone()) != Some(version) {
            tracing::warn!(kind, name, problem = object.problem, "cannot decode an object, it takes no part");
        }
    }
}

impl Undecoded {
    /// Namespace and name.
    pub fn key(&self) -> Key {
        let (namespace, name) = (self.metadata.namespace.clone(), self.metadata.name.clone());
        (namespace.unwrap_or_default(), name.unwrap_or_default())
    }

    /// The text at this JSON pointer, unless it is empty.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

impl<K: Resource + Default> Readable<K> {
    /// The object, or one of this name that says nothing else: enough for what is gone.
    pub fn or_nameplate(self) -> K {
        match self {
            Self::Whole(object) => object,
            Self::Undecoded(object) => {
                let mut nameplate = K::default();
                *nameplate.meta_mut() = object.metadata;
                nameplate
            }
        }
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let problem = match serde_path_to_error::deserialize(&value) {
            Ok(object) => return Ok(Self::Whole(object)),
            Err(error) => error.to_string(),
        };
        let metadata = ObjectMeta::deserialize(&value["metadata"]).map_err(D::Error::custom)?;
        Ok(Self::Undecoded(Box::new(Undecoded { metadata, value, problem })))
    }
}

impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Whole(object) => object.meta(),
            Self::Undecoded(object) => &object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Whole(object) => object.meta_mut(),
            Self::Undecoded(object) => &mut object.metadata,
        }
    }
}

#[cfg(test)]
mod tests;
