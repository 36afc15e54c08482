//! The verbs delete and deletecollection: grace periods, finalizers, preconditions, propagation.

mod cascade;

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{ListQuery, Store, owners::FOREGROUND};
use crate::apiserver::{
    object::{self, Key},
    refusal::Refusal,
    resource::Resource,
};

/// Options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds a pod gets to stop; `None` for the pod's own value.
    pub grace_seconds: Option<i64>,
    /// Delete only if the object still has this uid; empty for any.
    pub uid: String,
    /// Delete only if the object still has this `resourceVersion`; empty for any.
    pub resource_version: String,
    /// Fate of dependents.
    pub propagation: Propagation,
}

/// Fate of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl DeleteOptions {
    /// Options of a `DeleteOptions` body.
    pub fn parse(body: &Value) -> Self {
        let propagation = match object::text(body, "/propagationPolicy") {
            "Foreground" => Propagation::Foreground,
            "Orphan" => Propagation::Orphan,
            _ if body["orphanDependents"] == true => Propagation::Orphan,
            _ => Propagation::Background,
        };
        Self {
            grace_seconds: body["gracePeriodSeconds"].as_i64(),
            uid: object::text(body, "/preconditions/uid").to_owned(),
            resource_version: object::text(body, "/preconditions/resourceVersion").to_owned(),
            propagation,
        }
    }
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// Deletion has begun; finalizers or a grace period hold the object.
    Begun(Arc<Value>),
    /// The object is gone; this was its last state.
    Gone(Arc<Value>),
}

impl Store {
    /// Deletes one object, or begins to.
    pub fn delete(
        &mut self,
        resource: &Resource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deleted, Refusal> {
        let current = self.find(resource, key)?;
        check_preconditions(resource, key, &current, options)?;
        let uid = object::uid(&current).to_owned();
        if options.propagation == Propagation::Orphan {
            self.orphan_dependents(&uid);
        }
        let deleted = self.begin_or_finish(resource, key, &current, options);
        if options.propagation == Propagation::Foreground {
            self.delete_dependents(&uid);
        }
        if resource.is_core("namespaces") {
            self.empty_namespace(&key.name);
        }
        Ok(match (deleted, self.find(resource, key)) {
            (Deleted::Begun(_), Ok(object)) => Deleted::Begun(object),
            (Deleted::Begun(last), Err(_)) => Deleted::Gone(last),
            (gone, _) => gone,
        })
    }

    /// Deletes every object that matches; returns those that matched.
    pub fn delete_collection(
        &mut self,
        resource: &Resource,
        query: &ListQuery,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Value>>, Refusal> {
        let page = self.list(resource, query)?;
        for object in &page.items {
            match self.delete(resource, &Key::of(object), options) {
                // A dependent may have gone with its owner earlier in this loop.
                Ok(_) | Err(Refusal { code: 404, .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(page.items)
    }

    fn begin_or_finish(
        &mut self,
        resource: &Resource,
        key: &Key,
        current: &Arc<Value>,
        options: &DeleteOptions,
    ) -> Deleted {
        let grace = grace_seconds(resource, current, options);
        let foreground = options.propagation == Propagation::Foreground && self.has_dependents(current);
        let held = !object::finalizers(current).is_empty() || foreground || resource.is_core("namespaces");
        if grace == 0 && !held {
            let last = self.erase(&resource.table(), key);
            return Deleted::Gone(last.unwrap_or_else(|| current.clone()));
        }
        let mut object = Value::clone(current);
        if !self.mark_deleting(&mut object, grace) {
            return Deleted::Begun(current.clone());
        }
        if foreground {
            let metadata = object::metadata_mut(&mut object);
            object::default_to(metadata, "finalizers", json!([]));
            if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
                list.push(json!(FOREGROUND));
            }
        }
        if resource.is_core("namespaces") {
            Self::terminate_namespace(&mut object);
        }
        if resource.counts_generations {
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = json!(generation);
        }
        Deleted::Begun(self.commit(&resource.table(), object))
    }

    fn has_dependents(&self, object: &Value) -> bool {
        !self.owners.of(object::uid(object)).is_empty()
    }

    /// Sets the time of deletion; a second deletion can only bring it forward. `false` when nothing changes.
    fn mark_deleting(&self, object: &mut Value, grace: i64) -> bool {
        let metadata = &object["metadata"];
        let granted = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        if object::is_deleting(object) && grace >= granted {
            return false;
        }
        let now = self.now();
        let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        let metadata = object::metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), json!(object::rfc3339(at)));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        true
    }
}

fn check_preconditions(
    resource: &Resource,
    key: &Key,
    current: &Value,
    options: &DeleteOptions,
) -> Result<(), Refusal> {
    let uid = object::uid(current);
    if !options.uid.is_empty() && options.uid != uid {
        let why =
            format!("Precondition failed: UID in precondition: {}, UID in object meta: {uid}", options.uid);
        return Err(Refusal::conflict(resource, &key.name, &why));
    }
    let version = object::text(current, "/metadata/resourceVersion");
    if !options.resource_version.is_empty() && options.resource_version != version {
        let why = format!(
            "Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {version}",
            options.resource_version
        );
        return Err(Refusal::conflict(resource, &key.name, &why));
    }
    Ok(())
}

/// Returns the time to stop: only pods have one, and only those that may be running somewhere.
fn grace_seconds(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if !resource.is_core("pods") {
        return 0;
    }
    let unscheduled = object::text(object, "/spec/nodeName").is_empty();
    let finished = matches!(object::text(object, "/status/phase"), "Succeeded" | "Failed");
    if unscheduled || finished {
        return 0;
    }
    let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options.grace_seconds.or(own).unwrap_or(30).max(0)
}
