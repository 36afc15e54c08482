//! The wrapper every pass and step runs in.
//!
//! One place turns the outcome of a pass into its log line and its metrics, so no reconciler has its own habits.
//! A pass that is dropped half-way, at shutdown or by a time limit, is reported as abandoned.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use crate::metrics::Metrics;

/// Outcome of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something was written.
    Applied,
    /// Nothing to do until something else happens.
    Waiting,
    /// Not this controller's object, or nothing to do at all.
    Skipped,
    /// The pass returned an error.
    Failed,
    /// The pass was dropped before it ended.
    Abandoned,
}

impl Outcome {
    /// The word used in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Waiting => "waiting",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }

    /// End, with this outcome, of a pass that repeats by itself.
    pub fn again(self) -> Ended {
        Ended { outcome: self, again: true }
    }
}

/// End of a pass that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    outcome: Outcome,
    /// The next one runs even if nothing happens.
    again: bool,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, again: false }
    }
}

impl Ended {
    /// The value of the `result` label dashboards of the reference use.
    fn result(self) -> &'static str {
        match self.outcome {
            Outcome::Failed => "error",
            Outcome::Abandoned => "requeue",
            Outcome::Waiting => "requeue_after",
            Outcome::Applied | Outcome::Skipped if self.again => "requeue_after",
            Outcome::Applied | Outcome::Skipped => "success",
        }
    }
}

/// Runs one pass of `controller` over `subject` and reports how it ended.
///
/// `outcome` reads the outcome off a successful result. Errors are logged with their causes and returned.
pub async fn pass<T, E: Error + 'static, O: Into<Ended>>(
    metrics: &Metrics,
    controller: &'static str,
    subject: &str,
    outcome: impl FnOnce(&T) -> O,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let span = tracing::info_span!("pass", controller, name = subject);
    let mut report = Report::start(metrics, controller);
    let work = metrics.progress.during(controller, subject.to_owned(), work);
    async {
        let result = work.await;
        match &result {
            Ok(value) => {
                report.ended = outcome(value).into();
                tracing::trace!(outcome = report.ended.outcome.as_str(), "pass ended");
            }
            Err(error) => {
                report.ended = Outcome::Failed.into();
                tracing::error!(error = %Chain(error), "Reconciler error");
            }
        }
        drop(report);
        result
    }
    .instrument(span)
    .await
}

/// Runs one named step of a pass; its errors are the pass's to report.
pub async fn step<T>(name: &'static str, work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let result = work.instrument(tracing::debug_span!("step", step = name)).await;
    tracing::trace!(step = name, elapsed = ?started.elapsed(), "step ended");
    result
}

/// Reports when dropped, so that an abandoned pass is reported too.
struct Report<'a> {
    metrics: &'a Metrics,
    controller: &'static str,
    started: Instant,
    ended: Ended,
}

impl<'a> Report<'a> {
    fn start(metrics: &'a Metrics, controller: &'static str) -> Self {
        metrics.runtime.active_workers.inc([controller]);
        Self { metrics, controller, started: Instant::now(), ended: Outcome::Abandoned.into() }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        let (runtime, controller) = (&self.metrics.runtime, self.controller);
        runtime.active_workers.dec([controller]);
        runtime.reconcile_total.inc([controller, self.ended.result()]);
        let elapsed = self.started.elapsed();
        runtime.reconcile_time_seconds.observe([controller], elapsed);
        runtime.work_duration_seconds.observe([controller, controller], elapsed);
        if self.ended.outcome == Outcome::Failed {
            runtime.reconcile_errors_total.inc([controller]);
        }
    }
}

/// An error followed by its causes, each after a colon. Our errors do not repeat their source in `Display`; those of
/// libraries often do, and a cause that has been shown is left out.
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut next = self.0.source();
        while let Some(error) = next {
            let cause = error.to_string();
            if !text.contains(&cause) {
                text.push_str(": ");
                text.push_str(&cause);
            }
            next = error.source();
        }
        f.write_str(&text)
    }
}

/// Waits for `work` at most `limit`; `None` when it took longer and was dropped.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Chain, Ended, Outcome, pass, within};
    use crate::metrics::Metrics;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot patch NodeClaim `a`")]
    struct Outer(#[source] std::fmt::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("client error: {0}")]
    struct Repeats(#[source] Outer);

    fn count(metrics: &Metrics, result: &str) -> u64 {
        metrics.runtime.reconcile_total.value(["test", result])
    }

    #[tokio::test(start_paused = true)]
    async fn each_outcome_is_counted_as_dashboards_expect() {
        let metrics = Metrics::new();
        for (ended, result) in [
            (Outcome::Applied.into(), "success"),
            (Outcome::Skipped.into(), "success"),
            (Outcome::Applied.again(), "requeue_after"),
            (Outcome::Skipped.again(), "requeue_after"),
            (Outcome::Waiting.into(), "requeue_after"),
        ] {
            let before = count(&metrics, result);
            let came: Ended =
                pass(&metrics, "test", "a", |ended| *ended, async { Ok::<_, Outer>(ended) }).await.unwrap();
            assert_eq!(came, ended);
            assert_eq!(count(&metrics, result), before + 1);
        }
        let failed =
            pass(&metrics, "test", "a", |()| Outcome::Applied, async { Err(Outer(std::fmt::Error)) }).await;
        assert!(failed.is_err());
        assert_eq!(count(&metrics, "error"), 1);
        assert_eq!(metrics.runtime.reconcile_errors_total.value(["test"]), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_pass_is_reported_and_leaves_no_active_worker() {
        let metrics = Metrics::new();
        let endless =
            pass(&metrics, "test", "a", |()| Outcome::Applied, std::future::pending::<Result<(), Outer>>());
        assert!(within(Duration::from_secs(1), endless).await.is_none());
        assert_eq!(count(&metrics, "requeue"), 1);
        assert!(metrics.runtime.active_workers.value(["test"]).abs() < f64::EPSILON);
    }

    #[test]
    fn causes_are_printed_once_each() {
        let text = Chain(&Outer(std::fmt::Error)).to_string();
        assert_eq!(text, format!("cannot patch NodeClaim `a`: {}", std::fmt::Error));
        let repeated = Chain(&Repeats(Outer(std::fmt::Error))).to_string();
        assert_eq!(repeated, format!("client error: {text}"));
    }
}
