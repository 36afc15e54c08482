//! Scrape of the running controller, compared with the table of metrics: every family is declared, and has the type and the
//! labels it is declared with.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use karpenter_telemetry::metrics::{Descriptor, Kind, reference};
use kube::Client;

use crate::wait;
use crate::world::World;

/// Families of every controller that has launched, replaced and removed nodes.
const SHOWN: &[&str] = &[
    "controller_runtime_reconcile_total",
    "karpenter_build_info",
    "karpenter_cloudprovider_duration_seconds",
    "karpenter_cluster_state_node_count",
    "karpenter_interruption_received_messages_total",
    "karpenter_nodeclaims_created_total",
    "karpenter_nodeclaims_disrupted_total",
    "karpenter_nodeclaims_terminated_total",
    "karpenter_nodepools_allowed_disruptions",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_created_total",
    "karpenter_nodes_terminated_total",
    "karpenter_pods_drained_total",
    "karpenter_pods_startup_duration_seconds",
    "karpenter_pods_state",
    "karpenter_scheduler_scheduling_duration_seconds",
    "karpenter_voluntary_disruption_decisions_total",
    "karpenter_voluntary_disruption_eligible_nodes",
    "operator_nodeclaim_status_condition_count",
];

/// Scrapes until everything is there: some families are counted again only from time to time.
pub(super) async fn as_declared(world: &World) -> Result<()> {
    wait::settles("every family of metrics as declared", || scrape(world)).await
}

async fn scrape(world: &World) -> Result<()> {
    let families = families(&text(world).await?)?;
    let declared: BTreeMap<&str, &Descriptor> =
        reference().into_iter().flat_map(|(_, rows)| rows).map(|row| (row.name, row)).collect();
    // Those about the process are the metrics library's own.
    let ours = families.iter().filter(|(name, _)| !name.starts_with("process_"));
    for (name, (kind, labels)) in ours {
        let row = declared.get(name.as_str()).with_context(|| format!("`{name}` is not declared"))?;
        ensure!(
            kind == spelt(row.kind),
            "`{name}` is exported as {kind} and declared as {}",
            spelt(row.kind)
        );
        let own: BTreeSet<&str> = row.labels.iter().copied().collect();
        let labels: BTreeSet<&str> = labels.iter().map(String::as_str).collect();
        let fits = if has_further_labels(name) { labels.is_superset(&own) } else { labels == own };
        ensure!(fits, "`{name}` is exported with the labels {labels:?} and declared with {own:?}");
    }
    let missing: Vec<_> = SHOWN.iter().filter(|name| !families.contains_key(**name)).collect();
    ensure!(missing.is_empty(), "never published: {missing:?}");
    Ok(())
}

async fn text(world: &World) -> Result<String> {
    let endpoint = world.metrics_endpoint()?.parse().context("read the address of the metrics")?;
    // The client of the Kubernetes API is an HTTP client like any other.
    let client = Client::try_from(kube::Config::new(endpoint)).context("set up a client")?;
    let request = http::Request::get("/metrics").body(Vec::new()).context("build a request")?;
    client.request_text(request).await.context("scrape the controller")
}

/// Type and label names of each family with samples.
fn families(text: &str) -> Result<BTreeMap<String, (String, BTreeSet<String>)>> {
    let mut families: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            current = Some((name.to_owned(), kind.to_owned()));
        } else if !line.starts_with('#') {
            let (name, kind) = current.clone().context("a sample comes before its type")?;
            let (_, labels) = families.entry(name).or_insert_with(|| (kind, BTreeSet::new()));
            labels.extend(
                label_names(line).filter(|name| *name != "le" && *name != "quantile").map(str::to_owned),
            );
        }
    }
    Ok(families)
}

/// Every `name` of `name="value"`; values have no quotes in them here.
fn label_names(sample: &str) -> impl Iterator<Item = &str> {
    let inside = sample.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = inside.map_or("", |(inside, _)| inside).split('"').step_by(2);
    pairs.filter_map(|before| before.trim_start_matches(',').strip_suffix('='))
}

const fn spelt(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        Kind::Summary => "summary",
    }
}

/// Families that have labels of the provider, or of the object, besides their own.
fn has_further_labels(name: &str) -> bool {
    let per_node =
        name.starts_with("karpenter_nodes_") && !name.contains("duration") && !name.ends_with("_total");
    per_node || name.starts_with("operator_nodeclaim_") || name.starts_with("operator_node_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_is_read_family_by_family() {
        let text = "# HELP a Text.\n# TYPE a counter\na{x=\"1\",y=\"p, q\"} 2\na{x=\"2\",y=\"\"} 1\n\
                    # TYPE b histogram\nb_bucket{le=\"0.5\"} 1\nb_sum 1\nb_count 1\n# TYPE c gauge\n";
        let read = families(text).unwrap();
        let names: BTreeSet<String> = ["x", "y"].map(str::to_owned).into();
        assert_eq!(read["a"], ("counter".to_owned(), names));
        assert_eq!(read["b"], ("histogram".to_owned(), BTreeSet::new()));
        assert_eq!(read.len(), 2, "a family without samples says nothing");
    }
}
