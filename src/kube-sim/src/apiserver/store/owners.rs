//! Owners and their dependents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::apiserver::{
    object::{self, Key},
    resource::TableName,
};

/// The finalizer that holds an owner until its dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Dependents of objects, by uid of the owner.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    dependents: BTreeMap<String, BTreeSet<(TableName, Key)>>,
    gone: BTreeSet<String>,
}

impl Owners {
    pub(super) fn learn(&mut self, table: &TableName, key: &Key, object: &Value) {
        for owner in object::owner_uids(object) {
            self.dependents.entry(owner.to_owned()).or_default().insert((table.clone(), key.clone()));
        }
    }

    pub(super) fn forget(&mut self, table: &TableName, key: &Key, object: &Value) {
        for owner in object::owner_uids(object) {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(&(table.clone(), key.clone()));
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// Remembers an object that was erased.
    pub(super) fn mark_gone(&mut self, uid: &str) {
        self.gone.insert(uid.to_owned());
    }

    pub(super) fn of(&self, uid: &str) -> Vec<(TableName, Key)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Returns whether every owner the object names has existed and is gone. Owners that never existed do not count: tests make
    /// them up.
    pub(super) fn all_gone(&self, object: &Value) -> bool {
        let mut owners = object::owner_uids(object).peekable();
        owners.peek().is_some() && owners.all(|uid| self.gone.contains(uid))
    }
}
