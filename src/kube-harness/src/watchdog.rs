//! Ties liveness to progress: says when a piece of work is stuck, before the liveness probe has the process restarted.
//!
//! [`karpenter_telemetry::progress`] decides which work is stuck; the probe asks there by itself, so it answers even if this
//! task does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_telemetry::metrics::{Gauge, Metrics};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(10);

/// Looks until `shutdown`: publishes how long work is under way, and says once of each piece that it is stuck.
pub async fn run(metrics: Arc<Metrics>, shutdown: CancellationToken) {
    let mut watchdog = Watchdog::default();
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => watchdog.look(&metrics),
        }
    }
}

/// State that was logged and published last.
#[derive(Default)]
struct Watchdog {
    told: BTreeSet<u64>,
    working: BTreeSet<&'static str>,
    stuck: BTreeSet<&'static str>,
}

impl Watchdog {
    fn look(&mut self, metrics: &Metrics) {
        let stuck = metrics.progress.stuck();
        for work in stuck.iter().filter(|work| !self.told.contains(&work.id)) {
            tracing::error!(
                controller = work.controller,
                name = %work.subject,
                waiting = ?work.waiting,
                "work is stuck, the liveness probe fails until it ends"
            );
        }
        let mut counts: BTreeMap<&'static str, f64> = BTreeMap::new();
        for work in &stuck {
            *counts.entry(work.controller).or_default() += 1.0;
        }
        self.told = stuck.iter().map(|work| work.id).collect();
        let (oldest, unfinished) =
            (&metrics.runtime.longest_running_processor_seconds, &metrics.runtime.unfinished_work_seconds);
        publish(&mut self.working, &metrics.progress.ages(), |name, ages| {
            oldest.set([name, name], ages.longest.as_secs_f64());
            unfinished.set([name, name], ages.total.as_secs_f64());
        });
        let stuck: &Gauge<1> = &metrics.runtime.stuck_work;
        publish(&mut self.stuck, &counts, |name, count| stuck.set([name], count));
    }
}

/// Sets what there is, and to zero what was there the last time.
fn publish<T: Copy + Default>(
    published: &mut BTreeSet<&'static str>,
    present: &BTreeMap<&'static str, T>,
    set: impl Fn(&'static str, T),
) {
    published.extend(present.keys());
    for name in published.iter() {
        set(name, present.get(name).copied().unwrap_or_default());
    }
}
