//! Changes of a table of the API server since a stand-in for a system controller read it last.

use std::sync::Arc;

use serde_json::Value;

use crate::apiserver::{
    ApiServer, Resource, TableName,
    store::{Change, ListQuery, Store},
};

/// Revision up to which a stand-in has read a table.
#[derive(Default)]
pub(super) struct Cursor(Option<u64>);

/// Content of a table that a stand-in has not read yet.
pub(super) enum Unread {
    /// Changes, oldest first.
    Changes(Vec<Change>),
    /// Everything there is, because it has seen nothing yet or the changes are no longer kept.
    All(Vec<Arc<Value>>),
}

impl Cursor {
    /// Returns the writes to the table of a built-in kind since the last time.
    pub(super) fn news(&mut self, server: &ApiServer, group: &str, plural: &str) -> Unread {
        server.read(|store| {
            let table = TableName::new(group, plural);
            let since = self.0.replace(store.revision());
            if let Some(Ok(changes)) = since.map(|since| store.unseen(&table, since)) {
                return Unread::Changes(changes);
            }
            let page = store.list(&resource(store, group, plural), &ListQuery::default());
            Unread::All(page.map(|page| page.items).unwrap_or_default())
        })
    }
}

/// A built-in kind.
pub(super) fn resource(store: &Store, group: &str, plural: &str) -> Arc<Resource> {
    store.registry().get(group, "v1", plural).expect("invariant: stand-ins use built-in kinds")
}
