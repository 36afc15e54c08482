//! Waiting times of pods, measured from the events of the watch (spec scheduling 27.6 and 30).
//!
//! Pods that ran already when the process started are never measured: their waiting time is not known.

pub(super) mod deletion_cost;
pub(super) mod evict;
pub(super) mod nominate;
pub(crate) mod state;
mod timing;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{PodKey, Report};
use karpenter_telemetry::metrics::{Collecting, Metrics};
use parking_lot::Mutex;

use crate::Context;
use crate::view::PodSeen;
use timing::{Age, Moment, Timings, Waited};

/// The pods that have not started yet.
#[derive(Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Timings>>);

impl Waiting {
    /// Records an event of the watch about a pod.
    pub(crate) fn note(&self, metrics: &Metrics, seen: &PodSeen, now: Timestamp) {
        let waited = match seen {
            PodSeen::Deleted(pod) => self.0.lock().gone(&pod.key),
            PodSeen::Listed(pod) | PodSeen::Created(pod) | PodSeen::Updated { new: pod, .. } => {
                self.0.lock().seen(pod, now)
            }
        };
        observe(metrics, waited);
    }

    /// Records what a plan decided about pods.
    pub(crate) fn decided(&self, metrics: &Metrics, report: &Report, now: Timestamp) {
        for (key, outcome) in &report.pods {
            let waited = self.0.lock().decided(key, outcome.is_placed(), now);
            observe(metrics, waited.into_iter().collect());
        }
    }

    /// Publishes the ages of waiting pods for as long as what is returned is held.
    pub(crate) fn collect(&self, context: &Context) -> [Collecting; 5] {
        let pods = &context.metrics.pods;
        let gauges = [
            (Age::Unbound, &pods.unbound_time_seconds),
            (Age::Unstarted, &pods.unstarted_time_seconds),
            (Age::ProvisioningUnbound, &pods.provisioning_unbound_time_seconds),
            (Age::ProvisioningUnstarted, &pods.provisioning_unstarted_time_seconds),
            (Age::Undecided, &pods.provisioning_scheduling_undecided_time_seconds),
        ];
        gauges.map(|(age, gauge)| {
            let (waiting, clock) = (self.clone(), Arc::clone(&context.clock));
            gauge.collect(move |series| {
                let ages: Vec<(PodKey, Duration)> = waiting.0.lock().ages(age, clock.now()).collect();
                for (key, elapsed) in ages {
                    series([key.name.as_str(), key.namespace.as_str()], elapsed.as_secs_f64());
                }
            })
        })
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
