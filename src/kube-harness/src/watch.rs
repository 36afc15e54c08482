//! Watches: every object once at the start, then every change, and nothing lost when a watch breaks.
//!
//! A watch that had to list again is turned into a difference: what the new list lacks has been deleted. Objects
//! are reduced to what the view keeps before anything else happens, so memory is bounded by the view. Lists are
//! streamed by servers that do that, and asked for in pages of the others. Where one object may be of a release that
//! says more than this one, [`follow_readable`] brings it without what it says.

mod readable;
mod streaming;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karpenter_telemetry::observe::Chain;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use readable::{Logged, Readable, Undecoded, follow_readable};

/// Objects per page of a list: bounds what the API server and we hold at once.
const PAGE: u32 = 500;

/// Namespace, empty for cluster-scoped objects, and name.
pub type Key = (String, String);

/// Event of a watch for its listener.
#[derive(Clone, Debug)]
pub enum Seen<K> {
    /// A complete list is about to be asked for.
    Listing,
    /// The object is there since before the watch began (or began again).
    Listed(K),
    /// The object appeared or changed.
    Applied(K),
    /// The object is gone.
    Deleted(K),
    /// The list is complete: objects with other keys are gone.
    Complete(BTreeSet<Key>),
}

/// Last trouble with the watch of each kind. Cheap to clone, shared.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<BTreeMap<String, Trouble>>>);

/// Trouble with a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The error and its causes.
    pub text: String,
    /// `list` or `watch`: what was asked of the API server.
    pub verb: &'static str,
    /// The HTTP status the API server answered with; none when it did not answer.
    pub code: Option<u16>,
}

impl Troubles {
    /// Returns why the watch of `kind` does not work, if it does not.
    pub fn of(&self, kind: &str) -> Option<String> {
        self.last(kind).map(|trouble| trouble.text)
    }

    /// Returns the last trouble with the watch of `kind`, with what was asked and answered.
    pub fn last(&self, kind: &str) -> Option<Trouble> {
        self.0.lock().get(kind).cloned()
    }

    fn note(&self, kind: &str, error: &watcher::Error) {
        let verb = match error {
            watcher::Error::InitialListFailed(_) => "list",
            _ => "watch",
        };
        let trouble = Trouble { text: Chain(error).to_string(), verb, code: code(error) };
        self.0.lock().insert(kind.to_owned(), trouble);
    }

    fn end(&self, kind: &str) {
        self.0.lock().remove(kind);
    }
}

/// Time for which a watch waits that is not allowed: roles change rarely.
const FORBIDDEN: Duration = Duration::from_mins(5);

/// Follows every object behind `api` until `shutdown`. Broken watches start again by themselves, with back-off; what
/// is wrong with them is kept in `troubles`.
pub async fn follow<K>(
    kind: &str,
    api: Api<K>,
    troubles: &Troubles,
    shutdown: CancellationToken,
    mut listener: impl FnMut(Seen<K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let broken = |error: &watcher::Error| {
        tracing::warn!(kind, %error, "watch broke, starting it again");
        troubles.note(kind, error);
        Duration::ZERO
    };
    let listener = |seen: Seen<K>| {
        // Objects from the server prove that the watch works; a watch that goes on where it broke lists nothing.
        if !matches!(seen, Seen::Listing) {
            troubles.end(kind);
        }
        listener(seen);
    };
    pursue(api, None, shutdown, broken, listener).await;
}

/// Follows objects that the roles may not grant: that is logged once, with `without`, what it means, and tried again every five
/// minutes. So are, without a word, objects that the API server does not have.
pub async fn follow_if_allowed<K>(
    kind: &str,
    without: &str,
    api: Api<K>,
    shutdown: CancellationToken,
    listener: impl FnMut(Seen<K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    pursue(api, None, shutdown, tolerant(kind, without), listener).await;
}

/// Follows the one object of this name, if the roles grant it.
pub async fn follow_one_if_allowed<K>(
    kind: &str,
    without: &str,
    api: Api<K>,
    name: &str,
    shutdown: CancellationToken,
    listener: impl FnMut(Seen<K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let only = format!("metadata.name={name}");
    pursue(api, Some(&only), shutdown, tolerant(kind, without), listener).await;
}

/// Returns the handler for a broken watch that may not be allowed: it logs, and returns the wait.
fn tolerant(kind: &str, without: &str) -> impl FnMut(&watcher::Error) -> Duration {
    let mut told = false;
    move |error: &watcher::Error| {
        // The API server does not have the kind, or not in this version.
        if code(error) == Some(404) {
            return FORBIDDEN;
        }
        if !is_forbidden(error) {
            tracing::warn!(kind, %error, "watch broke, starting it again");
            return Duration::ZERO;
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(
                kind,
                "not allowed to watch, {without}; grant `get`, `list` and `watch` to change that"
            );
        }
        FORBIDDEN
    }
}

/// `broken` says how long to wait after an error, in addition to the back-off.
async fn pursue<K>(
    api: Api<K>,
    fields: Option<&str>,
    shutdown: CancellationToken,
    mut broken: impl FnMut(&watcher::Error) -> Duration,
    mut listener: impl FnMut(Seen<K>),
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        streaming::NotServed = streaming::pursue(&api, fields, &mut broken, &mut listener) => {}
    }
    let mut pages = watcher::Config::default().page_size(PAGE);
    pages.field_selector = fields.map(str::to_owned);
    let mut events = std::pin::pin!(watcher(api, pages).default_backoff());
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            None => return,
            Some(Err(error)) => {
                let pause = broken(&error);
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = sleep(pause) => {}
                }
            }
            Some(Ok(Event::Init)) => {
                listed.clear();
                listener(Seen::Listing);
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.insert(key(&object));
                listener(Seen::Listed(object));
            }
            Some(Ok(Event::InitDone)) => listener(Seen::Complete(std::mem::take(&mut listed))),
            Some(Ok(Event::Apply(object))) => listener(Seen::Applied(object)),
            Some(Ok(Event::Delete(object))) => listener(Seen::Deleted(object)),
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    code(error) == Some(403)
}

/// The HTTP status the API server answered with, if it answered.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// The key of `object`.
pub fn key<K: ResourceExt>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
