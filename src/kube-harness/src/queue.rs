//! The work queue every reconciler runs on: keys in, passes out.
//!
//! A key is never in two passes at once; one that is added while its pass runs gets another pass afterwards. A
//! failing key waits for its own exponential back-off and delays no other; passes run concurrently up to a
//! bound. All time is `tokio::time`, so tests run it with the paused clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use karpenter_telemetry::metrics::Metrics;
use karpenter_telemetry::observe::{self, Ended, Outcome};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time for which the process waits for running passes at shutdown.
pub const DRAIN: Duration = Duration::from_secs(10);

/// Result of a pass that did not fail: its outcome, and when to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    outcome: Outcome,
    again: Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    OnEvent,
    After(Duration),
    /// Pass comes after the back-off, or when there are news; those of a pass that has written may be its own, and
    /// bring the next one no sooner than after the shortest back-off.
    Backoff {
        wrote: bool,
    },
}

impl Done {
    /// Something was written; the next pass comes with the next event.
    pub fn applied() -> Self {
        Self { outcome: Outcome::Applied, again: Again::OnEvent }
    }

    /// Does nothing until something changes.
    pub fn idle() -> Self {
        Self { outcome: Outcome::Skipped, again: Again::OnEvent }
    }

    /// Look again after `delay` at the latest.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { outcome: self.outcome, again: Again::After(delay) }
    }

    fn ended(&self) -> Ended {
        match self.again {
            Again::OnEvent => self.outcome.into(),
            Again::After(_) | Again::Backoff { .. } => self.outcome.again(),
        }
    }

    /// Look again after the key's back-off, although nothing failed that a person should read about.
    #[must_use]
    pub fn backoff(self) -> Self {
        let wrote = self.outcome == Outcome::Applied;
        Self { outcome: Outcome::Waiting, again: Again::Backoff { wrote } }
    }
}

/// The fixed properties of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Controller name as in metrics and logs.
    pub name: &'static str,
    /// Passes that may run at once.
    pub concurrency: usize,
    /// Wait after the first failure; doubles with each further one.
    pub backoff_min: Duration,
    /// Longest wait after failures.
    pub backoff_max: Duration,
}

impl Spec {
    /// A queue whose failing keys wait from a second to a minute.
    pub const fn new(name: &'static str, concurrency: usize) -> Self {
        Self { name, concurrency, backoff_min: Duration::from_secs(1), backoff_max: Duration::from_mins(1) }
    }

    /// Returns the spec with other waits.
    #[must_use]
    pub const fn backing_off(self, backoff_min: Duration, backoff_max: Duration) -> Self {
        Self { backoff_min, backoff_max, ..self }
    }
}

/// The adding end of a queue. Cheap to clone; adding never blocks and never fails.
pub struct Queue<K> {
    keys: mpsc::UnboundedSender<(K, Duration)>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { keys: self.keys.clone() }
    }
}

impl<K> Queue<K> {
    /// A queue and its working end. Keys of an unfinished queue are bounded by the objects that exist, because
    /// equal keys are merged as soon as they are read.
    pub fn new() -> (Self, Work<K>) {
        let (keys, added) = mpsc::unbounded_channel();
        (Self { keys }, Work { added })
    }

    /// Asks for a pass over `key` now.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Asks for a pass over `key` after `delay` at the latest.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        // Fails only when the worker has ended, and then no pass would follow anyway.
        let _ended = self.keys.send((key, delay));
    }
}

/// The working end of a queue.
pub struct Work<K> {
    added: mpsc::UnboundedReceiver<(K, Duration)>,
}

impl<K> Work<K>
where
    K: Clone + Ord + Debug + Display + Send + 'static,
{
    /// Runs passes until `shutdown`, then lets those that run finish within the drain time.
    pub async fn run<E, F>(
        mut self,
        spec: Spec,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
        pass: impl Fn(K) -> F,
    ) where
        E: std::error::Error + Send + 'static,
        F: Future<Output = Result<Done, E>> + Send + 'static,
    {
        #[expect(clippy::cast_precision_loss, reason = "a gauge of a small number")]
        metrics.runtime.max_concurrent_reconciles.set([spec.name], spec.concurrency as f64);
        let mut state: State<K> = State::new(spec);
        let mut running: JoinSet<Result<Done, E>> = JoinSet::new();
        let mut keys: HashMap<Id, K> = HashMap::new();
        loop {
            while running.len() < spec.concurrency
                && let Some((key, waited)) = state.next(Instant::now())
            {
                metrics.runtime.queue_duration_seconds.observe([spec.name, spec.name], waited);
                let (metrics, subject, work) = (Arc::clone(&metrics), key.to_string(), pass(key.clone()));
                let task = running.spawn(async move {
                    observe::pass(&metrics, spec.name, &subject, Done::ended, work).await
                });
                keys.insert(task.id(), key);
            }
            metrics.runtime.queue_depth.set_count([spec.name, spec.name, "0"], state.ready.len());
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                added = self.added.recv() => match added {
                    Some((key, delay)) => {
                        metrics.runtime.queue_adds_total.inc([spec.name, spec.name]);
                        state.add(key, Instant::now() + delay);
                    }
                    // No sender is left that could add keys.
                    None => break,
                },
                Some(ended) = running.join_next_with_id() => settle(&mut state, &mut keys, &metrics, ended),
                () = until(state.next_due()) => {}
            }
        }
        let drained = observe::within(DRAIN, async { while running.join_next().await.is_some() {} });
        if drained.await.is_none() {
            tracing::warn!(controller = spec.name, passes = running.len(), "abandoned passes at shutdown");
        }
    }
}

fn settle<K, E>(
    state: &mut State<K>,
    keys: &mut HashMap<Id, K>,
    metrics: &Metrics,
    ended: Result<(Id, Result<Done, E>), JoinError>,
) where
    K: Clone + Ord + Debug,
{
    let (id, again) = match ended {
        Ok((id, Ok(done))) => (id, done.again),
        Ok((id, Err(_reported))) => (id, Again::Backoff { wrote: false }),
        Err(error) => {
            tracing::error!(controller = state.spec.name, %error, "pass panicked");
            metrics.runtime.reconcile_panics_total.inc([state.spec.name]);
            (error.id(), Again::Backoff { wrote: false })
        }
    };
    if matches!(again, Again::Backoff { .. }) {
        metrics.runtime.queue_retries_total.inc([state.spec.name, state.spec.name]);
    }
    let key = keys.remove(&id).expect("invariant: every running pass has its key noted");
    state.ended(&key, again, Instant::now());
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Keys that are waiting, running and failing. Has no clock: times are passed in.
#[derive(Debug)]
struct State<K> {
    spec: Spec,
    /// Keys that are due, with the time each became due.
    ready: VecDeque<(K, Instant)>,
    /// Time at which each waiting key is due, both ways; a key in `ready` is not here.
    due: BTreeSet<(Instant, K)>,
    due_of: BTreeMap<K, Instant>,
    queued: BTreeSet<K>,
    /// Keys in a pass, and whether they were added meanwhile (and for when).
    running: BTreeMap<K, Option<Instant>>,
    failures: BTreeMap<K, u32>,
}

impl<K: Clone + Ord> State<K> {
    fn new(spec: Spec) -> Self {
        Self {
            spec,
            ready: VecDeque::new(),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            queued: BTreeSet::new(),
            running: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Makes `key` due at `when` at the latest.
    fn add(&mut self, key: K, when: Instant) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = Some(again.map_or(when, |at| at.min(when)));
            return;
        }
        if self.queued.contains(&key) {
            return;
        }
        if let Some(present) = self.due_of.get(&key).copied() {
            if present <= when {
                return;
            }
            self.due.remove(&(present, key.clone()));
        }
        self.due_of.insert(key.clone(), when);
        self.due.insert((when, key));
    }

    /// The next key whose pass may start, and how long it has been due.
    fn next(&mut self, now: Instant) -> Option<(K, Duration)> {
        while self.due.first().is_some_and(|(when, _)| *when <= now)
            && let Some((when, key)) = self.due.pop_first()
        {
            self.due_of.remove(&key);
            self.queued.insert(key.clone());
            self.ready.push_back((key, when));
        }
        let (key, due) = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.running.insert(key.clone(), None);
        Some((key, now.saturating_duration_since(due)))
    }

    fn next_due(&self) -> Option<Instant> {
        // With keys ready but no free worker only the end of a pass helps.
        self.due.first().map(|(when, _)| *when).filter(|_| self.running.len() < self.spec.concurrency)
    }

    fn ended(&mut self, key: &K, again: Again, now: Instant) {
        let mut added = self.running.remove(key).flatten();
        let wanted = match again {
            Again::OnEvent => {
                self.failures.remove(key);
                None
            }
            Again::After(delay) => {
                self.failures.remove(key);
                Some(now + delay)
            }
            Again::Backoff { wrote } => {
                let failures = self.failures.entry(key.clone()).or_insert(0);
                let delay = backoff(&self.spec, *failures);
                *failures = failures.saturating_add(1);
                if wrote {
                    added = added.map(|added| added.max(now + self.spec.backoff_min));
                }
                Some(now + delay)
            }
        };
        // News beat a back-off otherwise: the cause of the failure may be what changed.
        for when in [wanted, added].into_iter().flatten() {
            self.add(key.clone(), when);
        }
    }
}

/// The wait after `failures` earlier failures in a row.
fn backoff(spec: &Spec, failures: u32) -> Duration {
    spec.backoff_min.saturating_mul(2_u32.saturating_pow(failures)).min(spec.backoff_max)
}

#[cfg(test)]
mod tests;
