//! What happens in a cluster, one readable line at a time: pods that wait, machines that are launched for them
//! and why, when they were ready, what was removed.
//!
//! The story follows from what the API server shows, so it is the same for the demo in memory, for a local
//! control plane and for a real cluster. Lines are facts about changes; nothing is printed twice.

mod claims;
mod pods;

use anyhow::Result;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_kube_harness::watch::Readable;
use karpenter_view::PriceBook;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Duration, Instant};

use crate::output;
use claims::Claims;
use pods::Pods;

/// Changes that follow each other faster than this are printed together.
const QUIET: Duration = Duration::from_millis(400);

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The column that lets the eye skip: `pods`, `launch`, `ready`, ...
    pub(crate) topic: &'static str,
    /// The rest.
    pub(crate) text: String,
}

impl Line {
    /// A line about `topic`.
    pub(crate) fn new(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, text: text.into() }
    }
}

/// Writes lines with the time since the start in front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printer {
    started: Instant,
}

impl Printer {
    /// A printer whose clock starts now.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Prints one line.
    pub(crate) fn print(&self, line: &Line) -> Result<()> {
        let seconds = self.started.elapsed().as_millis();
        let time = format!("{}.{}s", seconds / 1000, seconds % 1000 / 100);
        output::print(&format!("{time:>7}  {:<8} {}\n", line.topic, line.text))
    }
}

/// Tells the story until the watch ends or printing fails. Watches heal themselves; only output errors return.
pub(crate) async fn follow(client: Client, prices: PriceBook, printer: Printer) -> Result<()> {
    let mut claim_events = std::pin::pin!(events::<Readable<NodeClaim>>(client.clone()));
    let mut pod_events = std::pin::pin!(events::<Pod>(client));
    let mut claims = Claims::new(prices);
    let mut pods = Pods::default();
    loop {
        tokio::select! {
            Some(event) = claim_events.next() => {
                for line in claims.observe(&event, jiff::Timestamp::now()) {
                    printer.print(&line)?;
                }
            }
            Some(event) = pod_events.next() => pods.observe(&event),
            () = tokio::time::sleep(QUIET), if pods.has_news() => {
                if let Some(line) = pods.tell() {
                    printer.print(&line)?;
                }
            }
            else => return Ok(()),
        }
    }
}

/// A change to one object.
pub(crate) enum Change<K> {
    /// It is there, new or changed.
    Present(K),
    /// It is gone.
    Gone(String),
}

/// Changes of every object of a kind, across all namespaces, retried for ever.
fn events<K>(client: Client) -> impl Stream<Item = Change<K>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff().filter_map(|event| async {
        match event.ok()? {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                Some(Change::Present(object))
            }
            watcher::Event::Delete(object) => Some(Change::Gone(object.name_any())),
            watcher::Event::Init | watcher::Event::InitDone => None,
        }
    })
}
