//! The page of metrics.

use karpenter_telemetry::metrics::{Descriptor, Kind, Stability, reference};

use super::table;

/// The page below its title.
pub(super) fn body() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut last = "";
    for (area, rows) in reference() {
        if area != last {
            text.push_str(&format!("\n## {area}\n\n"));
        }
        let rendered = table(&["metric", "type", "labels", "stability", "meaning"], rows.iter().map(row));
        // Areas in several parts share one table.
        let skipped = if area == last { 2 } else { 0 };
        text.extend(rendered.split_inclusive('\n').skip(skipped));
        last = area;
    }
    text
}

fn row(metric: &Descriptor) -> Vec<String> {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
    };
    let stability = match metric.stability {
        Stability::Stable => "stable",
        Stability::Beta => "beta",
        Stability::Alpha => "alpha",
        Stability::Undocumented => "",
        Stability::Deprecated => "deprecated",
    };
    let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    vec![format!("`{}`", metric.name), kind.to_owned(), labels, stability.to_owned(), metric.help.to_owned()]
}

const INTRODUCTION: &str = "\
Served at `/metrics` on `--metrics-port`. Names, types, labels and buckets are those of the reference v1.15, whose marks
of stability are repeated here; what the reference does not have says so. Durations are in seconds. Summaries have the
quantiles 0, 0.5, 0.9, 0.99 and 1 over the last ten minutes.

Series per pod, Node and NodePool and those about status conditions can be switched off with
`--disable-cluster-state-observability`. Series of an object go with it; counts and histograms of a NodePool ten minutes
after it and its machines.

The metrics of each Node carry, besides their own labels, every well-known label as Kubernetes and the provider know
them (`nodepool`, `zone`, `region`, `instance_type`, `arch`, `os`, `capacity_type`, `windows_build`, `instance_family`,
...). Those about the conditions of NodeClaims and Nodes carry `karpenter_sh_nodepool` and
`karpenter_k8s_aws_ec2nodeclass`, those of Nodes also `karpenter_sh_initialized`.

Beside them, on Linux, are the families about the process that Prometheus clients have: `process_cpu_seconds_total`,
`process_open_fds`, `process_max_fds`, `process_virtual_memory_bytes`, `process_resident_memory_bytes`,
`process_start_time_seconds` and `process_threads`. There is no Go runtime, so there is no `go_*`.
";
