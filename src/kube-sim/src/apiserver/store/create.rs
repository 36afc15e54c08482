//! The verb create, and its counterpart for objects that were created elsewhere.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Store, WriteOptions, admission, defaults, names};
use crate::apiserver::{
    object::{self, Key},
    refusal::Refusal,
    resource::Resource,
    versions,
};

impl Store {
    /// Creates an object in `namespace` (empty for cluster-scoped kinds).
    pub fn create(
        &mut self,
        resource: &Resource,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, Refusal> {
        versions::check_kind(resource, &object)?;
        let mut object = versions::to_stored(resource, object);
        self.name_it(resource, namespace, &mut object)?;
        let key = Key::of(&object);
        self.check_place(resource, &key)?;
        self.stamp_new(resource, &mut object);
        if !keeps_status_on_create(resource) {
            object::map_mut(&mut object, "metadata");
            object.as_object_mut().expect("invariant: an object").shift_remove("status");
        }
        defaults::apply(resource, &mut object);
        admission::on_create(self, resource, &mut object)?;
        if let Some(schema) = &resource.schema {
            schema
                .admit(&mut object, None, options.strict)
                .map_err(|violation| Refusal::by_schema(resource, &key.name, violation))?;
        }
        if options.dry_run {
            return Ok(Arc::new(object));
        }
        let stored = self.commit(&resource.table(), object);
        self.collect_late_arrival(&resource.table(), &stored);
        Ok(stored)
    }

    /// Puts an object back as another API server stored it: uid, times, owners and status are those it says, and fields
    /// that a schema does not know are refused. The revision is a new one, because the history is not restored.
    pub(crate) fn restore(&mut self, resource: &Resource, object: Value) -> Result<Arc<Value>, Refusal> {
        versions::check_kind(resource, &object)?;
        let mut object = versions::to_stored(resource, object);
        let key = Key::of(&object);
        self.check_place(resource, &key)?;
        if let Some(schema) = &resource.schema {
            schema
                .admit(&mut object, None, true)
                .map_err(|violation| Refusal::by_schema(resource, &key.name, violation))?;
        }
        Ok(self.commit(&resource.table(), object))
    }

    fn name_it(&mut self, resource: &Resource, namespace: &str, object: &mut Value) -> Result<(), Refusal> {
        let prefix = object::text(object, "/metadata/generateName").to_owned();
        if object::name(object).is_empty() && !prefix.is_empty() {
            let name = format!("{prefix}{}", self.fresh_suffix());
            object::metadata_mut(object).insert("name".to_owned(), json!(name));
        }
        let name = object::name(object).to_owned();
        if let Some(cause) = names::check(&resource.group, &name) {
            return Err(Refusal::invalid(resource, &name, vec![cause]));
        }
        let given = object::namespace(object).to_owned();
        let metadata = object::metadata_mut(object);
        if !resource.namespaced {
            metadata.shift_remove("namespace");
        } else if given.is_empty() || given == namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        } else {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    fn check_place(&self, resource: &Resource, key: &Key) -> Result<(), Refusal> {
        if resource.namespaced {
            let namespaces =
                self.registry.get("", "v1", "namespaces").expect("invariant: the kind is built in");
            let namespace = self.find(&namespaces, &Key::new("", &key.namespace))?;
            if object::is_deleting(&namespace) {
                let why = format!(
                    "unable to create new content in namespace {} because it is being terminated",
                    key.namespace
                );
                return Err(Refusal::forbidden(resource, &key.name, &why));
            }
        }
        match self.find(resource, key) {
            Ok(_) => Err(Refusal::already_exists(resource, &key.name)),
            Err(_) => Ok(()),
        }
    }

    fn stamp_new(&mut self, resource: &Resource, object: &mut Value) {
        let uid = self.fresh_uid();
        let now = object::rfc3339(self.now());
        let metadata = object::metadata_mut(object);
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"]
        {
            metadata.shift_remove(field);
        }
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("creationTimestamp".to_owned(), json!(now));
        if resource.counts_generations {
            metadata.insert("generation".to_owned(), json!(1));
        }
    }
}

/// Nodes may arrive with their status, as kube-apiserver allows; kinds without a status subresource have no
/// other way to get one.
fn keeps_status_on_create(resource: &Resource) -> bool {
    !resource.has_status || resource.is_core("nodes")
}
