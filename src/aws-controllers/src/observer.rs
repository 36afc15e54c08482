//! The provider's counters as metrics (spec aws-provider 16).

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::observer::{LaunchFailed, Observer};
use karpenter_telemetry::metrics::Metrics;

/// Writes what the provider observes into the metrics of the process.
#[derive(Debug)]
pub struct MetricsObserver(pub Arc<Metrics>);

impl Observer for MetricsObserver {
    fn launch_failed(&self, failure: &LaunchFailed<'_>) {
        let offering = &failure.offering;
        let labels =
            [offering.zone.as_str(), failure.zone_id, offering.capacity_type.as_str(), failure.reason];
        self.0.cloud.instance_launch_failures_total.inc(labels);
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        self.0.cloud.instance_termination_failures_total.inc([zone, zone_id]);
    }

    fn user_data(&self, class: &str, bytes: usize) {
        self.0.aws.ec2nodeclasses_userdata_bytes.set_count([class], bytes);
    }

    fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        self.0.cloud.batch_time_seconds.observe([batcher], waited);
        self.0.cloud.batch_size.observe_count([batcher], size);
    }
}
