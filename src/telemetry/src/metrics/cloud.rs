//! Metrics about cloud calls: those of every provider, and those only AWS has (spec aws-provider 16).

use super::area::area;
use super::buckets;

area! {
    /// Calls of the provider port.
    pub struct Cloud {
        duration_seconds: Histogram = "karpenter_cloudprovider_duration_seconds" ["controller", "method", "provider"]
            Beta, "Duration of provider calls", buckets::DEFAULT;
        errors_total: Counter = "karpenter_cloudprovider_errors_total" ["controller", "method", "provider", "error"]
            Beta, "Provider calls that failed";
        instance_type_offering_available: GaugeTable = "karpenter_cloudprovider_instance_type_offering_available" ["instance_type", "capacity_type", "zone"]
            Beta, "1 when the offering may be launched";
        instance_type_offering_price_estimate: GaugeTable = "karpenter_cloudprovider_instance_type_offering_price_estimate" ["instance_type", "capacity_type", "zone"]
            Beta, "Price of the offering, in dollars per hour";
        instance_types_priced: Gauge = "karpenter_cloudprovider_instance_types_priced" ["capacity_type", "source"]
            Alpha, "Instance types by where their price comes from: file, aws, built-in or estimate; not in the reference, alert on estimates";
        price_age_seconds: Gauge = "karpenter_cloudprovider_price_age_seconds" ["capacity_type", "source"]
            Alpha, "Age of the prices, by source; not in the reference";
        instance_type_cpu_cores: GaugeTable = "karpenter_cloudprovider_instance_type_cpu_cores" ["instance_type"]
            Beta, "CPU cores of the instance type";
        instance_type_memory_bytes: GaugeTable = "karpenter_cloudprovider_instance_type_memory_bytes" ["instance_type"]
            Beta, "Memory of the instance type";
        instance_launch_failures_total: Counter = "karpenter_cloudprovider_instance_launch_failures_total" ["zone", "zone_id", "capacity_type", "reason"]
            Beta, "Offerings that could not be launched";
        instance_termination_failures_total: Counter = "karpenter_cloudprovider_instance_termination_failures_total" ["zone", "zone_id"]
            Beta, "Instances that could not be terminated";
        batch_time_seconds: Histogram = "karpenter_cloudprovider_batcher_batch_time_seconds" ["batcher"]
            Beta, "How long calls waited to be merged", buckets::DURATION;
        batch_size: Histogram = "karpenter_cloudprovider_batcher_batch_size" ["batcher"]
            Beta, "How many calls were merged into one", buckets::BATCH_SIZE;
    }
}

area! {
    /// Requests to AWS, named as the reference's SDK names them. A request has as many attempts as it took.
    pub struct AwsSdk {
        request_total: Counter = "aws_sdk_go_request_total" ["action", "code", "service"]
            Stable, "Requests to AWS by operation and HTTP status; the status is 0 when there was no answer";
        request_retry_count: Histogram = "aws_sdk_go_request_retry_count" ["action", "code", "service"]
            Stable, "How often a request was repeated", buckets::RETRIES;
        request_duration_seconds: Histogram = "aws_sdk_go_request_duration_seconds" ["action", "code", "service"]
            Stable, "Duration of requests with all their attempts", buckets::AWS_REQUEST;
        request_attempt_total: Counter = "aws_sdk_go_request_attempt_total" ["action", "code", "service"]
            Stable, "Attempts by operation and HTTP status; the status is 0 when there was no answer";
        request_attempt_duration_seconds: Histogram = "aws_sdk_go_request_attempt_duration_seconds" ["action", "code", "service"]
            Stable, "Duration of attempts", buckets::AWS_REQUEST;
    }
}

area! {
    /// What only AWS has: the interruption queue, instance status and user data.
    pub struct Aws {
        interruption_received_messages_total: Counter = "karpenter_interruption_received_messages_total" ["message_type"]
            Stable, "Messages received from the interruption queue";
        interruption_deleted_messages_total: Counter = "karpenter_interruption_deleted_messages_total" []
            Stable, "Messages deleted from the interruption queue";
        interruption_message_queue_duration_seconds: Histogram = "karpenter_interruption_message_queue_duration_seconds" []
            Stable, "From the event until its message was handled", buckets::DURATION;
        interruption_queue_healthy: Gauge = "karpenter_interruption_queue_healthy" []
            Alpha, "1 while the interruption queue can be read, 0 when not; not in the reference";
        interruption_instance_status_unhealthy_total: Counter = "karpenter_interruption_instance_status_unhealthy_total" ["category"]
            Stable, "Instances found impaired, once per instance and category until it recovers";
        ec2nodeclasses_userdata_bytes: Gauge = "karpenter_ec2nodeclasses_userdata_bytes" ["nodeclass"]
            Alpha, "Size of the decoded user data";
    }
}
