//! Watches: a stream that reads the log whenever its table was written to.
//!
//! A watcher pulls, the store never pushes: there is no channel that could overflow, and a slow client only falls
//! behind until the log has forgotten what it needs (410).

use std::{borrow::Cow, collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    answer::{self, Body},
    route::{Query, Target},
    view::View,
};
use crate::apiserver::{
    ApiServer, object,
    refusal::Refusal,
    resource::Resource,
    selector::Selectors,
    signal::Waiter,
    store::{Change, ChangeKind, ListQuery, Store},
};

/// Longest watch when the client does not say, as in kube-apiserver.
const TIMEOUT: Duration = Duration::from_mins(30);

struct Watch {
    server: ApiServer,
    resource: Arc<Resource>,
    namespace: String,
    selectors: Selectors,
    view: View,
    bookmarks: bool,
    cursor: u64,
    /// True if the history was read at least once.
    follows: bool,
    ready: VecDeque<Bytes>,
    ended: bool,
    deadline: Instant,
    changes: Waiter<u64>,
    breaks: Waiter<String>,
}

/// Begins a watch.
pub(super) fn start(
    server: &ApiServer,
    target: &Target,
    query: &Query,
    view: View,
) -> Result<Response<Body>, Refusal> {
    let mut selectors = query.get("fieldSelector").to_owned();
    if !target.name.is_empty() {
        selectors = format!("metadata.name={}", target.name);
    }
    let timeout = query.get("timeoutSeconds").parse().map_or(TIMEOUT, Duration::from_secs);
    let mut watch = Watch {
        server: server.clone(),
        resource: target.resource.clone(),
        namespace: target.namespace.clone(),
        selectors: Selectors::parse(query.get("labelSelector"), &selectors)?,
        view,
        bookmarks: query.is_true("allowWatchBookmarks"),
        cursor: 0,
        follows: false,
        ready: VecDeque::new(),
        ended: false,
        deadline: Instant::now() + timeout,
        changes: server.subscribe(&target.resource.table()),
        breaks: server.faults().watch_breaks(),
    };
    watch.open(query)?;
    let frames = stream::unfold(watch, |mut watch| async move {
        let bytes = watch.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), watch))
    });
    Ok(answer::stream(StreamBody::new(frames).boxed_unsync()))
}

impl Watch {
    /// Opens the watch. It begins with what exists if no revision is given, or with `sendInitialEvents`.
    fn open(&mut self, query: &Query) -> Result<(), Refusal> {
        let initial = query.get("sendInitialEvents");
        let from = query.get("resourceVersion");
        let lists = initial == "true" || (initial.is_empty() && matches!(from, "" | "0"));
        if !lists {
            let malformed = |_| {
                let why = "resourceVersion is not a number";
                Refusal::bad_request(format!("Invalid value: \"{from}\": {why}"))
            };
            self.cursor = match from {
                "" | "0" => self.server.read(Store::revision),
                revision => revision.parse().map_err(malformed)?,
            };
            return Ok(());
        }
        let query = ListQuery {
            namespace: self.namespace.clone(),
            selectors: self.selectors.clone(),
            ..ListQuery::default()
        };
        let server = self.server.clone();
        server.read(|store| {
            let page = store.list(&self.resource, &query)?;
            for object in &page.items {
                self.ready.push_back(event("ADDED", &self.view.one(&self.resource, object, store)));
            }
            self.cursor = page.revision;
            Ok::<_, Refusal>(())
        })?;
        if initial == "true" {
            self.ready.push_back(self.bookmark(&json!({"k8s.io/initial-events-end": "true"})));
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.ended {
                return None;
            }
            self.changes.mark_seen();
            self.read_log();
            if self.ready.is_empty() && !self.ended {
                self.sleep().await;
            }
        }
    }

    async fn sleep(&mut self) {
        tokio::select! {
            biased;
            _changed = self.changes.changed() => {}
            () = broken(&mut self.breaks, &self.resource.plural) => self.ended = true,
            () = tokio::time::sleep_until(self.deadline) => {
                self.ended = true;
                if self.bookmarks {
                    // Other tables have moved on meanwhile, and with them what can be resumed from.
                    self.read_log();
                    self.ready.push_back(self.bookmark(&Value::Null));
                }
            }
        }
    }

    fn read_log(&mut self) {
        let server = self.server.clone();
        // The start of a watch may be older than the history; after that it has seen all there was.
        let since = if self.follows { Store::unseen } else { Store::changes_since };
        self.follows = true;
        server.read(|store| match since(store, &self.resource.table(), self.cursor) {
            Ok(changes) => {
                let events: Vec<Bytes> =
                    changes.iter().filter_map(|change| self.seen(change, store)).collect();
                self.ready.extend(events);
                self.cursor = store.revision().max(self.cursor);
            }
            Err(refusal) => {
                self.ready.push_back(event("ERROR", &refusal.to_status()));
                self.ended = true;
            }
        });
    }

    /// A change as this watcher sees it: what starts to match is added, what stops is deleted.
    fn seen(&self, change: &Change, store: &Store) -> Option<Bytes> {
        let inside = self.namespace.is_empty() || object::namespace(&change.object) == self.namespace;
        let matches = |object: &Value| inside && self.selectors.matches(object);
        let before = change.previous.as_ref().is_some_and(|o| matches(o));
        let after = change.kind != ChangeKind::Deleted && matches(&change.object);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some(match self.view.one(&self.resource, &change.object, store) {
            // As it is stored, and so for all who watch it.
            Cow::Borrowed(stored) => line(kind, change.text.get_or_init(|| answer::bytes_of(stored).into())),
            Cow::Owned(shown) => event(kind, &shown),
        })
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations.clone();
        }
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        event("BOOKMARK", &object)
    }
}

async fn broken(breaks: &mut Waiter<String>, plural: &str) {
    loop {
        let resource = breaks.changed().await;
        if resource.is_empty() || resource == plural {
            return;
        }
    }
}

fn event(kind: &str, object: &Value) -> Bytes {
    line(kind, &answer::bytes_of(object))
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend(b"{\"type\":\"");
    line.extend(kind.as_bytes());
    line.extend(b"\",\"object\":");
    line.extend(object);
    line.extend(b"}\n");
    line.into()
}
