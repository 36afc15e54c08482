//! One run of one history: on one thread, on a clock that moves when nothing is left to do, and equal to the last byte when it
//! is done again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::check::Violation;
use crate::history::History;
use crate::play;
use crate::process;
use crate::trace::Trace;
use crate::world::World;

/// Longest time after the trouble until everything has to be as it should: a machine that never joins is given up after a
/// quarter of an hour.
const PATIENCE: Duration = Duration::from_mins(40);
/// Time between two looks whether everything is as it should be.
const LOOK: Duration = Duration::from_secs(10);
/// Time for which it has to stay so.
const REST: Duration = Duration::from_mins(2);

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of everything that happened.
    pub hash: String,
    /// Lines of the trace.
    pub lines: u64,
    /// Virtual time that passed.
    pub took: Duration,
    /// Rules that were broken, in the order they were found.
    pub violations: Vec<Violation>,
    /// The end of the trace.
    pub tail: Vec<String>,
    /// Instances ever launched.
    pub launched: usize,
}

/// Plays a history. With `print`, the trace is written to standard output line by line.
pub fn run(history: &History, print: bool) -> Result<Outcome> {
    let history = Arc::new(history.clone());
    alone(history.seed, move || async move { play_through(&history, Trace::new(print)).await })
}

/// Does something on a thread and a paused clock of its own: what libraries keep for a thread must not depend on what ran
/// before.
pub(crate) fn alone<T: Send + 'static, F: Future<Output = Result<T>>>(
    seed: u64,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T> {
    let running = std::thread::spawn(move || {
        // Back-off of libraries is drawn from here, as are the identities of candidates.
        fastrand::seed(seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .context("cannot start the async runtime")?;
        runtime.block_on(work())
    });
    running.join().map_err(|_| anyhow::anyhow!("the simulation itself has panicked"))?
}

async fn play_through(history: &Arc<History>, trace: Trace) -> Result<Outcome> {
    let began = tokio::time::Instant::now();
    let world = Arc::new(World::new(history, trace.clone()).await?);
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    for replica in 0..history.replicas {
        tasks.spawn(process::keep_running(Arc::clone(&world), replica, stop.clone()));
    }
    tokio::select! {
        biased;
        // Anything that happens after a rule was broken may follow from that.
        () = world.truth.broken() => {}
        () = async {
            play::play(&world).await;
            play::end_all_faults(&world).await;
            settle(&world).await;
        } => {}
    }
    stop.cancel();
    world.truth.look();
    Ok(Outcome {
        hash: trace.hash(),
        lines: trace.lines(),
        took: began.elapsed(),
        violations: world.truth.violations(),
        tail: trace.last(),
        launched: world.account.instances().len(),
    })
}

/// Waits until everything is as it should be and stays so.
async fn settle(world: &World) {
    let began = tokio::time::Instant::now();
    let mut well_since = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = tokio::time::Instant::now();
        let missing = world.truth.unfinished();
        if missing.is_empty() {
            if now - *well_since.get_or_insert(now) >= REST {
                return;
            }
        } else {
            well_since = None;
            if now - began > PATIENCE {
                for what in missing.into_iter().take(8) {
                    world.truth.found("liveness", what);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A swarm plays thousands of histories in one process. All that leads to the world leads to the trace.
    #[test]
    fn a_run_leaves_nothing_behind() {
        let history = Arc::new(History::quiet(0, Duration::from_mins(1)));
        let played = alone(history.seed, move || async move {
            let trace = Trace::new(false);
            play_through(&history, trace.clone()).await?;
            Ok(trace)
        });
        let trace = played.unwrap();
        assert!(trace.lines() > 100, "a controller has run");
        assert_eq!(trace.holders(), 1);
    }
}
