//! Metrics outside the `karpenter_` prefix, named as the reference's framework names them.

use super::area::area;
use super::buckets;

area! {
    /// The process and the objects it answers for.
    pub struct Operator {
        build_info: Gauge = "karpenter_build_info" ["version", "goversion", "goarch", "commit"]
            Stable, "Always 1; the label goversion carries the toolchain, its name is kept for dashboards";
        leader: Gauge = "leader_election_master_status" ["name"]
            Stable, "1 on the replica that holds the lease";
        leader_slowpath_total: Counter = "leader_election_slowpath_total" ["name"]
            Stable, "Renewals for which the lease had to be read first, because it was not as it was left";
        conversion_webhook_panics_total: Counter = "controller_runtime_conversion_webhook_panics_total" []
            Stable, "Panics of conversion webhooks; always 0, there are none";
    }
}

area! {
    /// Reconcile passes.
    pub struct Runtime {
        reconcile_total: Counter = "controller_runtime_reconcile_total" ["controller", "result"]
            Stable, "Passes by result";
        reconcile_errors_total: Counter = "controller_runtime_reconcile_errors_total" ["controller"]
            Stable, "Passes that failed";
        terminal_reconcile_errors_total: Counter = "controller_runtime_terminal_reconcile_errors_total" ["controller"]
            Stable, "Passes that failed for good; always 0, every failure is tried again";
        reconcile_timeouts_total: Counter = "controller_runtime_reconcile_timeouts_total" ["controller"]
            Stable, "Passes that ran into a time limit of their own; always 0, single calls have limits and passes have none";
        reconcile_panics_total: Counter = "controller_runtime_reconcile_panics_total" ["controller"]
            Stable, "Passes that panicked";
        reconcile_time_seconds: Histogram = "controller_runtime_reconcile_time_seconds" ["controller"]
            Stable, "Duration of passes", buckets::RECONCILE;
        active_workers: Gauge = "controller_runtime_active_workers" ["controller"]
            Stable, "Passes running now";
        max_concurrent_reconciles: Gauge = "controller_runtime_max_concurrent_reconciles" ["controller"]
            Stable, "Passes that may run at once";
        queue_depth: Gauge = "workqueue_depth" ["name", "controller", "priority"]
            Stable, "Objects waiting for a pass; the priority is always 0, there is one";
        queue_adds_total: Counter = "workqueue_adds_total" ["name", "controller"]
            Stable, "Objects queued";
        queue_duration_seconds: Histogram = "workqueue_queue_duration_seconds" ["name", "controller"]
            Stable, "How long objects waited for a pass", buckets::QUEUE;
        work_duration_seconds: Histogram = "workqueue_work_duration_seconds" ["name", "controller"]
            Stable, "Duration of passes", buckets::QUEUE;
        queue_retries_total: Counter = "workqueue_retries_total" ["name", "controller"]
            Stable, "Objects queued again after a failure";
        unfinished_work_seconds: Gauge = "workqueue_unfinished_work_seconds" ["name", "controller"]
            Stable, "Age of all running passes together";
        longest_running_processor_seconds: Gauge = "workqueue_longest_running_processor_seconds" ["name", "controller"]
            Stable, "Age of the oldest running pass";
        stuck_work: Gauge = "karpenter_stuck_work" ["controller"]
            Alpha, "Pieces of work of which nothing has come for ten minutes; the liveness probe fails while there is one";
    }
}

area! {
    /// Calls of the Kubernetes API.
    pub struct Kube {
        request_total: Counter = "client_go_request_total" ["code", "method"]
            Stable, "Requests by HTTP status";
        request_duration_seconds: Histogram = "client_go_request_duration_seconds" ["verb", "group", "version", "kind", "subresource"]
            Stable, "Duration of requests", buckets::KUBE_REQUEST;
        rest_requests_total: Counter = "rest_client_requests_total" ["code", "method", "host"]
            Stable, "Requests by HTTP status and host of the API server";
    }
}
