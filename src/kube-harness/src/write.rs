//! The one place that writes objects of the API server.
//!
//! Changes are JSON merge patches of exactly the fields that change. A patch that replaces a list carries the
//! resource version it was computed from, so that a change by another client is a conflict and not lost.
//!
//! A write whose answer is lost because the connection ended, as happens whenever an API server restarts, is repeated
//! at once. That is safe because each names its object: a patch or a deletion done twice is done once, and what a
//! repeated creation finds under its name is what the first one has made.

mod lost;

use std::fmt::Debug;

use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use lost::repeated;

/// An object of the API server that passes may write.
pub trait Object: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned> Object for K {}

/// Merges `change` into the object; `None` when it is not there.
pub async fn merge<K: Object>(api: &Api<K>, name: &str, change: &Value) -> Result<Option<K>, Error> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    found("patch", name, repeated(|| api.patch(name, &params, &patch)).await)
}

/// Merges `change` into the object through its status subresource; `None` when it is not there.
pub async fn merge_status<K: Object>(api: &Api<K>, name: &str, change: &Value) -> Result<Option<K>, Error> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    found("patch status of", name, repeated(|| api.patch_status(name, &params, &patch)).await)
}

/// The object as the API server has it now, for another attempt at a write that conflicted; `None` when it is gone.
pub async fn read<K: Object>(api: &Api<K>, name: &str) -> Result<Option<K>, Error> {
    repeated(|| api.get_opt(name)).await.map_err(|source| failed::<K>("get", name, source))
}

/// Returns whether there is no object of the kind at all, by a consistent read.
pub async fn none<K: Object>(api: &Api<K>) -> Result<bool, Error> {
    let first = ListParams::default().limit(1);
    let one = repeated(|| api.list(&first)).await;
    one.map(|list| list.items.is_empty()).map_err(|source| failed::<K>("list", "", source))
}

/// Creates the object, which must have a name, and returns it as the API server has it. An object of the same name
/// that another client has created is a conflict.
pub async fn create<K: Object>(api: &Api<K>, object: &K) -> Result<K, Error> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    let (params, mut tries) = (PostParams::default(), 0);
    let created = repeated(|| {
        tries += 1;
        api.create(&params, object)
    })
    .await;
    let refused = match created {
        Ok(created) => return Ok(created),
        Err(refused) => refused,
    };
    let exists = matches!(&refused, kube::Error::Api(status) if status.is_already_exists());
    if exists
        && tries > 1
        && let Some(found) = read(api, name).await?
        && lost::is_what_was_sent(&found, object)
    {
        return Ok(found);
    }
    Err(failed::<K>("create", name, refused))
}

/// Asks for the deletion of exactly the object with this uid; false when it is not there (any more).
pub async fn delete<K: Object>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<bool, Error> {
    let params = DeleteParams {
        preconditions: uid.clone().map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
        ..DeleteParams::default()
    };
    let Err(refused) = repeated(|| api.delete(name, &params)).await else { return Ok(true) };
    let code = if let kube::Error::Api(status) = &refused { status.code } else { 0 };
    // A conflict is the precondition, so that the object with that uid is gone; or another client has changed it
    // meanwhile, and it is still there.
    let gone = match (code, uid) {
        (404, _) => true,
        (409, Some(uid)) => read(api, name).await?.is_none_or(|found| found.uid().as_ref() != Some(&uid)),
        _ => false,
    };
    if gone { Ok(false) } else { Err(failed::<K>("delete", name, refused)) }
}

/// Makes `change` fail when `object` is no longer what it was computed from.
pub fn locked<K: Resource>(object: &K, mut change: Value) -> Value {
    if let Some(version) = object.meta().resource_version.as_deref() {
        change["metadata"]["resourceVersion"] = json!(version);
    }
    change
}

/// A patch that takes `finalizer` off `object`; `None` when it is not there.
pub fn without_finalizer<K: ResourceExt>(object: &K, finalizer: &str) -> Option<Value> {
    let present = object.finalizers();
    if !present.iter().any(|one| one == finalizer) {
        return None;
    }
    let left: Vec<&String> = present.iter().filter(|one| *one != finalizer).collect();
    Some(locked(object, json!({"metadata": {"finalizers": left}})))
}

/// A patch that puts `finalizer` on `object`; `None` when it is there.
pub fn with_finalizer<K: ResourceExt>(object: &K, finalizer: &str) -> Option<Value> {
    let present = object.finalizers();
    if present.iter().any(|one| one == finalizer) {
        return None;
    }
    let all: Vec<&str> = present.iter().map(String::as_str).chain([finalizer]).collect();
    Some(locked(object, json!({"metadata": {"finalizers": all}})))
}

fn found<K: Object>(
    verb: &'static str,
    name: &str,
    answer: Result<K, kube::Error>,
) -> Result<Option<K>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(source) => Err(failed::<K>(verb, name, source)),
    }
}

fn failed<K: Object>(verb: &'static str, name: &str, source: kube::Error) -> Error {
    Error { verb, kind: K::kind(&()).into_owned(), name: name.to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::{with_finalizer, without_finalizer};

    fn node(finalizers: &[&str]) -> Node {
        let mut node = Node::default();
        node.metadata.resource_version = Some("7".to_owned());
        node.metadata.finalizers = Some(finalizers.iter().map(ToString::to_string).collect());
        node
    }

    #[test]
    fn finalizers_of_others_stay_and_the_list_is_locked() {
        assert_eq!(
            without_finalizer(&node(&["a", "b"]), "a"),
            Some(json!({"metadata": {"finalizers": ["b"], "resourceVersion": "7"}}))
        );
        assert_eq!(
            with_finalizer(&node(&["b"]), "a"),
            Some(json!({"metadata": {"finalizers": ["b", "a"], "resourceVersion": "7"}}))
        );
    }

    #[test]
    fn nothing_is_written_when_nothing_changes() {
        assert_eq!(without_finalizer(&node(&["b"]), "a"), None);
        assert_eq!(with_finalizer(&node(&["a"]), "a"), None);
    }
}
