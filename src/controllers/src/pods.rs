//! How long pods wait, measured from what the watch says about them (spec scheduling 27.6 and 30).
//!
//! Pods that ran already when the process started are never measured: how long they waited is not known.

pub(super) mod evict;
pub(super) mod nominate;
pub(crate) mod state;
mod timing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{PodKey, Report};
use karpenter_telemetry::metrics::{Metrics, Series};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::view::PodSeen;
use timing::{Moment, Timings, Waited};

/// How often the ages of waiting pods are published.
const PERIOD: Duration = Duration::from_secs(30);

/// The pods that have not started yet.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Timings>>);

impl Waiting {
    /// Records what the watch said about a pod.
    pub(crate) fn note(&self, metrics: &Metrics, seen: &PodSeen, now: Timestamp) {
        let waited = match seen {
            PodSeen::Deleted(pod) => self.lock().gone(&pod.key),
            PodSeen::Listed(pod) | PodSeen::Created(pod) | PodSeen::Updated { new: pod, .. } => {
                self.lock().seen(pod, now)
            }
        };
        observe(metrics, waited);
    }

    /// Records what a plan decided about pods.
    pub(crate) fn decided(&self, metrics: &Metrics, report: &Report, now: Timestamp) {
        for (key, outcome) in &report.pods {
            let waited = self.lock().decided(key, outcome.is_placed(), now);
            observe(metrics, waited.into_iter().collect());
        }
    }

    /// Publishes the ages of waiting pods until `shutdown`.
    pub(crate) async fn run(self, context: Context, shutdown: CancellationToken) {
        let published = Published::new(&context.metrics);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if context.settings.cluster_state_observability {
                published.publish(&self.lock(), context.now());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Timings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn observe(metrics: &Metrics, waited: Vec<Waited>) {
    let pods = &metrics.pods;
    for Waited(moment, elapsed) in waited {
        match moment {
            Moment::Decided => pods.scheduling_decision_duration_seconds.observe([], elapsed),
            Moment::Bound => pods.bound_duration_seconds.observe([], elapsed),
            Moment::Started => pods.startup_duration_seconds.observe([], elapsed),
            Moment::ProvisionedBound => pods.provisioning_bound_duration_seconds.observe([], elapsed),
            Moment::ProvisionedStarted => pods.provisioning_startup_duration_seconds.observe([], elapsed),
        }
    }
}

/// The gauges of every waiting pod.
struct Published(Vec<(timing::Age, Series<2>)>);

impl Published {
    fn new(metrics: &Metrics) -> Self {
        let pods = &metrics.pods;
        let gauges = [
            (timing::Age::Unbound, &pods.unbound_time_seconds),
            (timing::Age::Unstarted, &pods.unstarted_time_seconds),
            (timing::Age::ProvisioningUnbound, &pods.provisioning_unbound_time_seconds),
            (timing::Age::ProvisioningUnstarted, &pods.provisioning_unstarted_time_seconds),
            (timing::Age::Undecided, &pods.provisioning_scheduling_undecided_time_seconds),
        ];
        Self(gauges.map(|(age, gauge)| (age, Series::new(gauge))).into())
    }

    fn publish(&self, timings: &Timings, now: Timestamp) {
        for (age, series) in &self.0 {
            for (key, elapsed) in timings.ages(*age, now) {
                let labels = [key.name.to_string(), key.namespace.to_string()];
                series.replace(&key.to_string(), elapsed.map(|elapsed| (labels, elapsed.as_secs_f64())));
            }
            series.retain(|object| {
                object
                    .split_once('/')
                    .is_some_and(|(namespace, name)| timings.has(&PodKey::new(namespace, name)))
            });
        }
    }
}
