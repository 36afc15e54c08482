//! One key at a time, back-off per key, bounded concurrency, graceful end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use karpenter_telemetry::metrics::Metrics;
use parking_lot::Mutex;
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

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_alone() {
    let (queue, work) = Queue::new();
    let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
    let passes = {
        let log = log.clone();
        move |key: &'static str| {
            log.note(key, started);
            async move { if key == "bad" { Err(Refused) } else { Ok(Done::applied()) } }
        }
    };
    let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
    queue.add("bad");
    tokio::time::sleep(Duration::from_secs(20)).await;
    queue.add("good");
    tokio::time::sleep(Duration::from_secs(100)).await;
    shutdown.cancel();
    worker.await.unwrap();
    assert_eq!(log.of("bad"), [0, 1, 3, 7, 15, 31, 63]);
    assert_eq!(log.of("good"), [20]);
}

/// A failure that is written down comes back as news of the object.
#[tokio::test(start_paused = true)]
async fn a_failing_pass_that_brings_its_own_news_does_not_run_again_at_once() {
    let (queue, work) = Queue::new();
    let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
    let passes = {
        let (log, queue) = (log.clone(), queue.clone());
        move |key: &'static str| {
            log.note(key, started);
            queue.add(key);
            async move { Ok::<_, Refused>(Done::applied().backoff()) }
        }
    };
    let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
    queue.add("bad");
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    shutdown.cancel();
    worker.await.unwrap();
    assert_eq!(log.of("bad"), [0, 1, 2, 3, 4], "the shortest back-off lies between");
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_pass_gets_another_and_never_runs_twice_at_once() {
    let (queue, work) = Queue::new();
    let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
    let running = Arc::new(AtomicUsize::new(0));
    let passes = {
        let (log, running) = (log.clone(), Arc::clone(&running));
        move |key: &'static str| {
            let running = Arc::clone(&running);
            log.note(key, started);
            async move {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two passes over one key");
                tokio::time::sleep(Duration::from_secs(10)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Refused>(Done::applied())
            }
        }
    };
    let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
    queue.add("a");
    tokio::time::sleep(Duration::from_secs(5)).await;
    queue.add("a");
    queue.add("a");
    tokio::time::sleep(Duration::from_mins(1)).await;
    shutdown.cancel();
    worker.await.unwrap();
    assert_eq!(log.of("a"), [0, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_key_delays_others_only_when_all_workers_are_taken() {
    let (queue, work) = Queue::new();
    let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
    let passes = {
        let log = log.clone();
        move |key: &'static str| {
            log.note(key, started);
            async move {
                if key.starts_with("slow") {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                }
                Ok::<_, Refused>(Done::applied())
            }
        }
    };
    let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
    queue.add("slow-1");
    queue.add("quick");
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add("slow-2");
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add("late");
    tokio::time::sleep(Duration::from_mins(1)).await;
    shutdown.cancel();
    worker.await.unwrap();
    assert_eq!((log.of("quick"), log.of("late")), (vec![0], vec![30]));
}

#[tokio::test(start_paused = true)]
async fn running_passes_finish_at_shutdown_and_a_panic_is_one_key_s_failure() {
    let (queue, work) = Queue::new();
    let (log, started, shutdown) = (Log::default(), Instant::now(), CancellationToken::new());
    let finished = Arc::new(AtomicUsize::new(0));
    let passes = {
        let (log, finished) = (log.clone(), Arc::clone(&finished));
        move |key: &'static str| {
            let finished = Arc::clone(&finished);
            log.note(key, started);
            async move {
                assert_ne!(key, "panic");
                tokio::time::sleep(Duration::from_secs(5)).await;
                finished.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Refused>(Done::applied())
            }
        }
    };
    let worker = tokio::spawn(work.run(SPEC, Arc::new(Metrics::new()), shutdown.clone(), passes));
    queue.add("panic");
    queue.add("slow");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(log.of("panic"), [0, 1], "tried again after its back-off");
    shutdown.cancel();
    worker.await.unwrap();
    assert_eq!(finished.load(Ordering::SeqCst), 1);
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[test]
fn back_off_doubles_up_to_the_maximum() {
    let seconds: Vec<u64> = (0..8).map(|failures| backoff(&SPEC, failures).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(backoff(&SPEC, u32::MAX), Duration::from_mins(1));
}
