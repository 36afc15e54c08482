//! The history of changes that watchers read: a bounded window per resource.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;

use crate::apiserver::{refusal::Refusal, resource::TableName};

/// One write.
#[derive(Debug, Clone)]
pub struct Change {
    /// Revision of the write.
    pub revision: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The object after the write; for deletions, its last state with the revision of the deletion.
    pub object: Arc<Value>,
    /// The object before the write. A watcher with a selector needs it: an object that stops matching is
    /// deleted as far as that watcher can see.
    pub previous: Option<Arc<Value>>,
    /// The object as it is stored, as text: written once for all who watch it.
    pub(crate) text: Arc<OnceLock<Bytes>>,
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object is new.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone.
    Deleted,
}

/// Changes of all resources.
#[derive(Debug, Clone)]
pub(super) struct Log {
    window: usize,
    tables: BTreeMap<TableName, Window>,
    compacted: u64,
}

#[derive(Debug, Clone, Default)]
struct Window {
    changes: VecDeque<Change>,
    /// Revision of the newest change that is no longer kept.
    forgotten: u64,
    /// Revision of the newest change.
    newest: u64,
}

impl Log {
    pub(super) fn new(window: usize) -> Self {
        Self { window, tables: BTreeMap::new(), compacted: 0 }
    }

    pub(super) fn push(&mut self, table: &TableName, change: Change) {
        if !self.tables.contains_key(table) {
            self.tables.insert(table.clone(), Window::default());
        }
        let window = self.tables.get_mut(table).expect("invariant: just inserted");
        window.newest = change.revision;
        window.changes.push_back(change);
        if window.changes.len() > self.window {
            window.forgotten = window.changes.pop_front().map_or(window.forgotten, |c| c.revision);
        }
    }

    pub(super) fn since(&self, table: &TableName, revision: u64) -> Result<Vec<Change>, Refusal> {
        if revision < self.compacted {
            return Err(expired(revision, self.compacted));
        }
        self.unseen(table, revision)
    }

    /// The same for those who have followed the table so far: a compaction takes nothing from them but changes of it
    /// that they have not read.
    pub(super) fn unseen(&self, table: &TableName, revision: u64) -> Result<Vec<Change>, Refusal> {
        let Some(window) = self.tables.get(table) else { return Ok(Vec::new()) };
        if revision < window.forgotten {
            return Err(expired(revision, window.forgotten));
        }
        let first = window.changes.partition_point(|c| c.revision <= revision);
        Ok(window.changes.range(first..).cloned().collect())
    }

    /// Revision of the newest change of a table, 0 when it was never written.
    pub(super) fn newest(&self, table: &TableName) -> u64 {
        self.tables.get(table).map_or(0, |window| window.newest)
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.compacted = revision;
        for window in self.tables.values_mut() {
            window.forgotten = window.newest;
            window.changes.clear();
        }
    }
}

fn expired(revision: u64, forgotten: u64) -> Refusal {
    Refusal::expired(format!("too old resource version: {revision} ({forgotten})"))
}
