//! A list as the beginning of a watch: the API server sends the objects in its cache, marks the end of them, and goes on
//! with changes. It costs the server a fraction of a list in pages, each of which reads from the storage behind it.
//!
//! Objects in the stream are at least as new as the request. (The watcher of kube asks for version `0` here, which is any
//! state the server still has, perhaps one of minutes ago: objects that we have created since would look deleted.) A server
//! that does not stream lists refuses at once, and is asked for pages.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, DefaultBackoff};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::{Key, Seen, key};

/// A watch is open for minutes. One that ends sooner than this and has brought nothing was not served, whatever status it
/// was answered with; a client that asked again at once would never stop asking.
const SHORTEST: Duration = Duration::from_secs(1);
/// Annotation of the bookmark after the last object of the list.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// The server does not stream lists.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotServed;

/// Follows every object of `api` that `fields` select, until dropped or the server turns out not to do this. `broken`
/// says how long to wait after an error, in addition to the back-off.
pub(super) async fn pursue<K>(
    api: &Api<K>,
    fields: Option<&str>,
    broken: &mut impl FnMut(&watcher::Error) -> Duration,
    listener: &mut impl FnMut(Seen<K>),
) -> NotServed
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut progress = Progress::default();
    let mut backoff = DefaultBackoff::default();
    loop {
        match progress.watch(api, fields, listener).await {
            Ok(()) => {}
            Err(Broken::NotServed) => return NotServed,
            Err(Broken::By(error)) => {
                if progress.moved {
                    backoff = DefaultBackoff::default();
                }
                sleep(broken(&error) + backoff.next().unwrap_or_default()).await;
            }
        }
    }
}

/// Reason why a watch ended before its time.
enum Broken {
    NotServed,
    By(watcher::Error),
}

/// Progress of a watch.
#[derive(Default)]
struct Progress {
    /// Objects that the list has brought so far.
    listed: BTreeSet<Key>,
    /// The version everything up to which was seen; none until the list is complete.
    version: Option<String>,
    /// The last watch has brought something.
    moved: bool,
}

impl Progress {
    /// One watch, from where the last one ended.
    async fn watch<K>(
        &mut self,
        api: &Api<K>,
        fields: Option<&str>,
        listener: &mut impl FnMut(Seen<K>),
    ) -> Result<(), Broken>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        self.moved = false;
        let mut params = WatchParams { field_selector: fields.map(str::to_owned), ..WatchParams::default() };
        if self.version.is_none() {
            params = params.initial_events();
            self.listed.clear();
            listener(Seen::Listing);
        }
        let from = self.version.clone().unwrap_or_default();
        let began = Instant::now();
        let started = api.watch(&params, &from).await;
        let mut events = std::pin::pin!(started.map_err(|error| self.not_started(error))?);
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| Broken::By(watcher::Error::WatchFailed(error)))?;
            self.moved = true;
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let seen = if self.went_on_to(&object) {
                        Seen::Applied(object)
                    } else {
                        self.listed.insert(key(&object));
                        Seen::Listed(object)
                    };
                    listener(seen);
                }
                WatchEvent::Deleted(object) => {
                    self.went_on_to(&object);
                    self.listed.remove(&key(&object));
                    listener(Seen::Deleted(object));
                }
                WatchEvent::Bookmark(bookmark) => {
                    if self.version.is_none() {
                        // A server that does not know the question begins to watch and never says that it is done.
                        if bookmark.metadata.annotations.get(END_OF_LIST).is_none_or(|end| end != "true") {
                            return Err(Broken::NotServed);
                        }
                        listener(Seen::Complete(std::mem::take(&mut self.listed)));
                    }
                    self.version = Some(bookmark.metadata.resource_version);
                }
                WatchEvent::Error(status) => {
                    if self.version.is_none() && means_not_served(status.code) {
                        return Err(Broken::NotServed);
                    }
                    if status.code == 410 {
                        self.version = None;
                    }
                    return Err(Broken::By(watcher::Error::WatchError(status)));
                }
            }
        }
        if self.version.is_none() {
            return Err(ended("the watch ended before the list was complete"));
        }
        if !self.moved && began.elapsed() < SHORTEST {
            return Err(ended("the watch ended within a second and brought nothing"));
        }
        Ok(())
    }

    /// Records the version of `object`, if the list is complete; returns whether it is.
    fn went_on_to(&mut self, object: &impl ResourceExt) -> bool {
        let Some(version) = &mut self.version else { return false };
        *version = object.resource_version().unwrap_or_default();
        true
    }

    fn not_started(&mut self, error: kube::Error) -> Broken {
        match &error {
            kube::Error::Api(status) if self.version.is_none() && means_not_served(status.code) => {
                return Broken::NotServed;
            }
            kube::Error::Api(status) if status.code == 410 => self.version = None,
            _ => {}
        }
        Broken::By(watcher::Error::WatchStartFailed(error))
    }
}

/// A watch that was answered and ended without an error, and is none all the same.
fn ended(how: &'static str) -> Broken {
    let error = io::Error::new(io::ErrorKind::UnexpectedEof, how);
    Broken::By(watcher::Error::WatchFailed(kube::Error::ReadEvents(error)))
}

/// Returns whether a refusal with this status, in place of a list, is about streaming. A client that may not watch may not list
/// either, a version that is too old brings another list, and a server that is too busy is that for every list.
fn means_not_served(code: u16) -> bool {
    !matches!(code, 401 | 403 | 404 | 410 | 429 | 503 | 504)
}

#[cfg(test)]
mod tests;
