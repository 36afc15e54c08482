//! The provider's counters as metrics (spec aws-provider 16).

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::calls::observer::{LaunchFailed, Observer};
use karpenter_aws_api::watch::{Call, Watch};
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

impl Watch for MetricsObserver {
    fn attempted(&self, call: Call<'_>, took: Duration) {
        let (metrics, code) = (&self.0.aws_sdk, code(call));
        let labels = [call.action, code.as_str(), call.service];
        metrics.request_attempt_total.inc(labels);
        metrics.request_attempt_duration_seconds.observe(labels, took);
    }

    fn called(&self, call: Call<'_>, retries: u32, took: Duration) {
        let (metrics, code) = (&self.0.aws_sdk, code(call));
        let labels = [call.action, code.as_str(), call.service];
        metrics.request_total.inc(labels);
        metrics.request_retry_count.observe_value(labels, retries.into());
        metrics.request_duration_seconds.observe(labels, took);
    }
}

/// The HTTP status as a label; 0 when no answer came.
fn code(call: Call<'_>) -> String {
    call.status.unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_attempts_are_counted_under_the_names_of_the_reference() {
        let metrics = Arc::new(Metrics::new());
        let observer = MetricsObserver(Arc::clone(&metrics));
        let call = |status| Call { service: "EC2", action: "CreateFleet", status };
        observer.attempted(call(Some(503)), Duration::from_secs(1));
        observer.attempted(call(None), Duration::from_secs(2));
        observer.attempted(call(Some(200)), Duration::from_secs(1));
        observer.called(call(Some(200)), 2, Duration::from_secs(4));
        let text = metrics.render();
        for line in [
            r#"aws_sdk_go_request_total{action="CreateFleet",code="200",service="EC2"} 1"#,
            r#"aws_sdk_go_request_retry_count_sum{action="CreateFleet",code="200",service="EC2"} 2"#,
            r#"aws_sdk_go_request_duration_seconds_sum{action="CreateFleet",code="200",service="EC2"} 4"#,
            r#"aws_sdk_go_request_attempt_total{action="CreateFleet",code="503",service="EC2"} 1"#,
            r#"aws_sdk_go_request_attempt_total{action="CreateFleet",code="0",service="EC2"} 1"#,
            r#"aws_sdk_go_request_attempt_duration_seconds_sum{action="CreateFleet",code="200",service="EC2"} 1"#,
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
