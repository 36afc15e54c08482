//! Events of a cluster, one readable line at a time: pods that wait, machines that are launched for them
//! and why, when they were ready, what was removed.
//!
//! The story follows from what the API server shows, so it is the same for the demo in memory, for a local
//! control plane and for a real cluster. Lines are facts about changes; nothing is printed twice.

mod claims;
mod pods;

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::NodeClaim;
use karpenter_kube_harness::watch::Readable;
use karpenter_telemetry::stdout::{self, Unwritten};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Duration, Instant};

use crate::PriceBook;
use claims::Claims;
use pods::Pods;

/// Changes that follow each other faster than this are printed together.
const QUIET: Duration = Duration::from_millis(400);

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The column that lets the eye skip: `pods`, `launch`, `ready`, ...
    pub topic: &'static str,
    /// The rest.
    pub text: String,
    /// Time at which it happened, where that is known; else it happens now.
    pub at: Option<Timestamp>,
}

impl Line {
    /// A line about `topic`.
    pub fn new(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, text: text.into(), at: None }
    }

    /// The line, about what happened at this time.
    pub(crate) fn at(self, at: Option<Timestamp>) -> Self {
        Self { at, ..self }
    }
}

/// Writes lines with a time in front.
#[derive(Clone, Copy, Debug)]
pub enum Printer {
    /// The time since the program began: of a demo, where all lines are about the present.
    SinceStart(Instant),
    /// The time of what the line is about, in UTC.
    OfDay,
}

impl Printer {
    /// A printer whose clock starts now.
    pub fn start() -> Self {
        Self::SinceStart(Instant::now())
    }

    /// Prints one line.
    ///
    /// # Errors
    /// When standard output does not take it.
    pub fn print(&self, line: &Line) -> Result<(), Unwritten> {
        stdout::print(&self.written(line, Timestamp::now()))
    }

    fn written(self, line: &Line, now: Timestamp) -> String {
        let time = match self {
            Self::SinceStart(started) => {
                let millis = started.elapsed().as_millis();
                format!("{}.{}s", millis / 1000, millis % 1000 / 100)
            }
            Self::OfDay => line.at.unwrap_or(now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        };
        format!("{time:>7}  {:<8} {}\n", line.topic, line.text)
    }
}

/// Tells the story until the watch ends or printing fails.
///
/// # Errors
/// When standard output does not take a line: watches heal themselves.
pub async fn follow(client: Client, prices: PriceBook, printer: Printer) -> Result<(), Unwritten> {
    let mut claim_events = std::pin::pin!(events::<Readable<NodeClaim>>(client.clone()));
    let mut pod_events = std::pin::pin!(events::<Pod>(client));
    let mut claims = Claims::new(prices);
    let mut pods = Pods::default();
    loop {
        tokio::select! {
            Some(event) = claim_events.next() => {
                for line in claims.observe(&event, Timestamp::now()) {
                    printer.print(&line)?;
                }
            }
            Some(event) = pod_events.next() => pods.observe(&event),
            () = tokio::time::sleep(QUIET), if pods.has_news() => {
                if let Some(line) = pods.take_line() {
                    printer.print(&line)?;
                }
            }
            else => return Ok(()),
        }
    }
}

/// A change to one object.
pub(crate) enum Change<K> {
    /// The object is there, new or changed.
    Present(K),
    /// The object is gone.
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
