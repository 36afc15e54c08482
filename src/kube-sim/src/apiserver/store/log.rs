//! The history of changes that watchers read: a bounded window per resource.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::apiserver::{refusal::Refusal, resource::TableName};

/// Length of the history that is kept. A watcher that lags further behind gets 410.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// Changes per resource.
    pub changes: usize,
    /// Age of a change when the next one of its resource is written; `MAX` for any.
    pub age: Duration,
}

/// One write.
#[derive(Debug, Clone)]
pub struct Change {
    /// Revision of the write.
    pub revision: u64,
    /// Time of the write.
    pub at: Timestamp,
    /// Kind of the write.
    pub kind: ChangeKind,
    /// The object after the write; for deletions, its last state with the revision of the deletion.
    pub object: Arc<Value>,
    /// The object before the write. A watcher with a selector needs it: an object that stops matching is
    /// deleted as far as that watcher can see.
    pub previous: Option<Arc<Value>>,
    /// The object as it is stored, as text: written once for all who watch it.
    pub(crate) text: Arc<OnceLock<Bytes>>,
}

/// Effect of a write.
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
    kept: Kept,
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
    pub(super) fn new(kept: Kept) -> Self {
        Self { kept, tables: BTreeMap::new(), compacted: 0 }
    }

    pub(super) fn push(&mut self, table: &TableName, change: Change) {
        if !self.tables.contains_key(table) {
            self.tables.insert(table.clone(), Window::default());
        }
        let window = self.tables.get_mut(table).expect("invariant: just inserted");
        window.newest = change.revision;
        let age = SignedDuration::try_from(self.kept.age).unwrap_or(SignedDuration::MAX);
        let oldest = change.at.checked_sub(age).unwrap_or(Timestamp::MIN);
        window.changes.push_back(change);
        let outdated = |window: &Window| {
            let first = window.changes.front();
            window.changes.len() > self.kept.changes || first.is_some_and(|first| first.at < oldest)
        };
        while outdated(window) {
            window.forgotten = window.changes.pop_front().map_or(window.forgotten, |change| change.revision);
        }
    }

    pub(super) fn since(&self, table: &TableName, revision: u64) -> Result<Vec<Change>, Refusal> {
        if revision < self.compacted {
            return Err(expired(revision, self.compacted));
        }
        self.unseen(table, revision)
    }

    /// Returns changes as `since`, for readers that have followed the table so far: a compaction takes nothing from them but
    /// changes of it that they have not read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_forgotten_when_there_are_too_many_or_it_is_too_old() {
        let table = TableName::new("", "pods");
        let mut log = Log::new(Kept { changes: 3, age: Duration::from_mins(1) });
        let mut push = |revision: u64, second: i64| {
            let at = Timestamp::from_second(second).expect("a time");
            let (object, text) = (Arc::default(), Arc::default());
            log.push(&table, Change { revision, at, kind: ChangeKind::Added, object, previous: None, text });
            let since = |revision| log.since(&table, revision).map(|changes| changes.len()).ok();
            [0, 1, 2, 3].map(since)
        };
        assert_eq!(push(1, 0), [Some(1), Some(0), Some(0), Some(0)]);
        assert_eq!(push(2, 10), [Some(2), Some(1), Some(0), Some(0)]);
        assert_eq!(push(3, 65), [None, Some(2), Some(1), Some(0)]);
        assert_eq!(push(4, 66), [None, Some(3), Some(2), Some(1)]);
        assert_eq!(push(5, 67), [None, None, Some(3), Some(2)]);
    }
}
