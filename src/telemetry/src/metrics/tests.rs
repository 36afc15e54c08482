//! The tables are well-formed, and what is exported looks as the reference's dashboards expect.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Kind, Metrics, Series, reference};

mod spec;

#[test]
fn every_name_is_declared_once_and_follows_the_conventions() {
    let mut seen = BTreeSet::new();
    for row in reference().iter().flat_map(|(_, rows)| rows.iter()) {
        assert!(seen.insert(row.name), "`{}` is declared twice", row.name);
        assert_eq!(
            row.kind == Kind::Counter,
            row.name.ends_with("_total") && row.name != "karpenter_nodepools_cost_total",
            "{}",
            row.name
        );
        assert_eq!(row.kind == Kind::Histogram, !row.buckets.is_empty(), "{}", row.name);
        assert!(row.buckets.is_sorted(), "{}", row.name);
        assert!(!row.help.is_empty() && !row.help.ends_with('.'), "{}", row.name);
    }
}

#[test]
fn metrics_without_labels_are_exported_from_the_start() {
    let text = Metrics::new().render();
    for line in [
        "karpenter_cluster_state_synced 0",
        "karpenter_scheduler_ignored_pods_count 0",
        "karpenter_pods_startup_duration_seconds_count 0",
        "karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"multi\"} 0",
    ] {
        assert!(text.lines().any(|have| have == line), "missing `{line}` in:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn summaries_forget_observations_after_ten_minutes_but_keep_the_count() {
    let metrics = Metrics::new();
    let summary = &metrics.nodes.termination_duration_seconds;
    summary.observe(["default"], Duration::from_secs(30));
    assert!(
        metrics.render().contains(
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0.5\"} 30"
        )
    );
    tokio::time::advance(Duration::from_secs(601)).await;
    let text = metrics.render();
    assert!(
        text.contains(
            "karpenter_nodes_termination_duration_seconds{nodepool=\"default\",quantile=\"0.5\"} NaN"
        )
    );
    assert!(text.contains("karpenter_nodes_termination_duration_seconds_count{nodepool=\"default\"} 1"));
}

#[test]
fn series_of_an_object_are_replaced_as_a_whole() {
    let metrics = Metrics::new();
    let series = Series::new(&metrics.nodepools.limit);
    let row = |resource: &str| [resource.to_owned(), "default".to_owned()];
    series.replace("default", [(row("cpu"), 4.0), (row("memory"), 8.0)]);
    series.replace("default", [(row("cpu"), 5.0)]);
    let text = metrics.render();
    assert!(text.contains("karpenter_nodepools_limit{nodepool=\"default\",resource_type=\"cpu\"} 5"));
    assert!(!text.contains("resource_type=\"memory\""));
    series.forget("default");
    assert!(!metrics.render().contains("karpenter_nodepools_limit{"));
}

#[test]
fn the_build_says_what_it_is() {
    let text = Metrics::new().render();
    let line = text.lines().find(|line| line.starts_with("karpenter_build_info{")).expect("exported");
    assert!(line.ends_with(" 1"), "{line}");
    assert!(line.contains(concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"")), "{line}");
}

#[test]
fn series_of_an_object_are_those_set_last_and_go_with_it() {
    let metrics = Metrics::new();
    let ages = &metrics.node_families(&["zone".to_owned()]).current_lifetime_seconds;
    let row = |zone: &str, node: &str| [zone, node, "", "true"].map(ToOwned::to_owned).to_vec();
    let shown = || -> Vec<(String, f64)> {
        let text = metrics.render();
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("karpenter_nodes_current_lifetime_seconds{"));
        let of = |line: &str| {
            let (labels, value) = line.rsplit_once("} ").unwrap();
            let label =
                |name: &str| labels.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
            (format!("{} {}", label("node_name"), label("zone")), value.parse().unwrap())
        };
        lines.map(of).collect()
    };
    let is = |expected: &[(&str, f64)]| {
        let expected: Vec<_> =
            expected.iter().map(|(series, value)| ((*series).to_owned(), *value)).collect();
        assert_eq!(shown(), expected);
    };
    ages.set("n1", [(row("a", "n1"), 1.0), (row("b", "n1"), 2.0)]);
    ages.set("n2", [(row("a", "n2"), 3.0)]);
    is(&[("n1 a", 1.0), ("n1 b", 2.0), ("n2 a", 3.0)]);
    ages.update("n1", [4.0, 5.0]);
    ages.update("n3", [6.0]);
    is(&[("n1 a", 4.0), ("n1 b", 5.0), ("n2 a", 3.0)]);
    // One stays, one goes and one comes.
    ages.set("n1", [(row("b", "n1"), 7.0), (row("c", "n1"), 8.0)]);
    is(&[("n1 b", 7.0), ("n1 c", 8.0), ("n2 a", 3.0)]);
    ages.retain(|object| object == "n2");
    is(&[("n2 a", 3.0)]);
    ages.set("n2", []);
    is(&[]);
}

#[test]
fn series_of_a_pool_go_with_it_whatever_kind_they_are() {
    let metrics = Metrics::new();
    let claims = metrics.statuses(|kind| match kind {
        super::Watched::NodeClaim => vec!["karpenter_sh_nodepool".to_owned()],
        _ => Vec::new(),
    });
    let empty = metrics.render();
    for pool in ["web", "data"] {
        metrics.nodes.created_total.inc([pool, "zone-a"]);
        metrics.nodes.termination_duration_seconds.observe([pool], Duration::from_secs(30));
        metrics.nodes.lifetime_duration_seconds.observe([pool], Duration::from_secs(30));
        metrics.nodepools.usage.set(["cpu", pool], 1.0);
        let change = ("Launched", "Unknown", "True", "Launched");
        claims.of(super::Watched::NodeClaim).transition(&[pool], change, &[], Duration::ZERO);
    }
    metrics.forget_pool("web");
    let left = metrics.render();
    assert!(!left.contains("\"web\"") && left.contains("\"data\""), "{left}");
    metrics.forget_pool("data");
    assert_eq!(metrics.render(), empty, "nothing of them is left");
}

#[test]
fn a_table_is_exported_like_other_gauges_and_has_only_what_was_published_last() {
    let metrics = Metrics::new();
    let table = &metrics.cloud.instance_type_offering_available;
    let key = |zone: &str| ["m5.large", "spot", zone].map(std::sync::Arc::from);
    table.publish([(key("zone-a"), 1.0), (key("zone-b"), 0.0)].into());
    let name = "karpenter_cloudprovider_instance_type_offering_available";
    let series = |metrics: &Metrics| -> Vec<String> {
        let text = metrics.render();
        let lines = text.lines().filter(|line| line.contains(name));
        lines.map(|line| line.replace(name, "NAME")).collect()
    };
    let labels =
        |zone: &str| format!("NAME{{capacity_type=\"spot\",instance_type=\"m5.large\",zone=\"{zone}\"}}");
    let expected = [
        "# HELP NAME 1 when the offering may be launched".to_owned(),
        "# TYPE NAME gauge".to_owned(),
        format!("{} 1", labels("zone-a")),
        format!("{} 0", labels("zone-b")),
    ];
    assert_eq!(series(&metrics), expected);
    table.publish([(key("zone-b"), 1.0)].into());
    assert_eq!(series(&metrics)[2..], [format!("{} 1", labels("zone-b"))]);
    table.publish(super::Samples::new());
    assert_eq!(series(&metrics), [""; 0]);
}
