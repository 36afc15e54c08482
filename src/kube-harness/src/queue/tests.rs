//! One key at a time, back-off per key, bounded concurrency, graceful end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use karpenter_telemetry::metrics::Metrics;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Done, Queue, Spec, backoff};

const SPEC: Spec = Spec {
    name: "test",
    concurrency: 2,
    backoff_min: Duration::from_secs(1),
    backoff_max: Duration::from_mins(1),
};

#[derive(Debug, thiserror::Error)]
#[error("pass refused")]
struct Refused;

/// Start times in seconds of the passes over each key.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<BTreeMap<&'static str, Vec<u64>>>>);

impl Log {
    fn note(&self, key: &'static str, started: Instant) {
        self.0.lock().entry(key).or_default().push(started.elapsed().as_secs());
    }

    fn of(&self, key: &str) -> Vec<u64> {
        self.0.lock().get(key).cloned().unwrap_or_default()
    }
}

/// A queue with a worker that passes over its keys.
struct Worked {
    queue: Queue<&'static str>,
    log: Log,
    started: Instant,
    shutdown: CancellationToken,
    worker: JoinHandle<()>,
}

impl Worked {
    fn by<F: Future<Output = Result<Done, Refused>> + Send + 'static>(
        pass: impl Fn(&'static str, &Queue<&'static str>) -> F + Send + Sync + 'static,
    ) -> Self {
        let (queue, work) = Queue::new();
        let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
        let (noted, own) = (log.clone(), queue.clone());
        let passes = move |key| {
            noted.note(key, started);
            pass(key, &own)
        };
        let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
        Self { queue, log, started, shutdown, worker }
    }

    /// Ends the worker, and returns the passes.
    async fn end(self) -> Log {
        self.shutdown.cancel();
        self.worker.await.unwrap();
        self.log
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_alone() {
    let worked =
        Worked::by(|key, _| async move { if key == "bad" { Err(Refused) } else { Ok(Done::applied()) } });
    worked.queue.add("bad");
    tokio::time::sleep(Duration::from_secs(20)).await;
    worked.queue.add("good");
    tokio::time::sleep(Duration::from_secs(100)).await;
    let log = worked.end().await;
    assert_eq!(log.of("bad"), [0, 1, 3, 7, 15, 31, 63]);
    assert_eq!(log.of("good"), [20]);
}

/// A failure that is written down comes back as news of the object.
#[tokio::test(start_paused = true)]
async fn a_failing_pass_that_brings_its_own_news_does_not_run_again_at_once() {
    let worked = Worked::by(|key, queue| {
        queue.add(key);
        async { Ok(Done::applied().backoff()) }
    });
    worked.queue.add("bad");
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    assert_eq!(worked.end().await.of("bad"), [0, 1, 2, 3, 4], "the shortest back-off lies between");
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_pass_gets_another_and_never_runs_twice_at_once() {
    let running = Arc::new(AtomicUsize::new(0));
    let worked = Worked::by(move |_, _| {
        let running = Arc::clone(&running);
        async move {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two passes over one key");
            tokio::time::sleep(Duration::from_secs(10)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Done::applied())
        }
    });
    worked.queue.add("a");
    tokio::time::sleep(Duration::from_secs(5)).await;
    worked.queue.add("a");
    worked.queue.add("a");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(worked.end().await.of("a"), [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_delays_others_only_when_all_workers_are_taken() {
    let worked = Worked::by(|key, _| async move {
        if key.starts_with("slow") {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        Ok(Done::applied())
    });
    worked.queue.add("slow-1");
    worked.queue.add("quick");
    tokio::time::sleep(Duration::from_secs(1)).await;
    worked.queue.add("slow-2");
    tokio::time::sleep(Duration::from_secs(1)).await;
    worked.queue.add("late");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let log = worked.end().await;
    assert_eq!((log.of("quick"), log.of("late")), (vec![0], vec![30]));
}

#[tokio::test(start_paused = true)]
async fn running_passes_finish_at_shutdown_and_a_panic_is_one_key_s_failure() {
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    let worked = Worked::by(move |key, _| {
        let counted = Arc::clone(&counted);
        async move {
            assert_ne!(key, "panic");
            tokio::time::sleep(Duration::from_secs(5)).await;
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Done::applied())
        }
    });
    worked.queue.add("panic");
    worked.queue.add("slow");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(worked.log.of("panic"), [0, 1], "tried again after its back-off");
    let started = worked.started;
    worked.end().await;
    assert_eq!(finished.load(Ordering::SeqCst), 1);
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[test]
fn back_off_doubles_up_to_the_maximum() {
    let seconds: Vec<u64> = (0..8).map(|failures| backoff(&SPEC, failures).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(backoff(&SPEC, u32::MAX), Duration::from_mins(1));
}
