//! The tables are well-formed, and what is exported looks as the reference's dashboards expect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

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

/// The lines of one family.
fn lines(metrics: &Metrics, family: &str) -> Vec<String> {
    let text = metrics.render();
    text.lines().filter(|line| line.contains(family)).map(ToOwned::to_owned).collect()
}

#[test]
fn what_is_known_is_written_when_it_is_asked_for_for_as_long_as_its_source_is_held() {
    const NAME: &str = "karpenter_nodes_current_lifetime_seconds";
    let metrics = Metrics::new();
    let ages = &metrics.node_families(&["zone".to_owned()]).current_lifetime_seconds;
    let known = Arc::new(Mutex::new(vec![("n\"1", 1.5)]));
    let read = Arc::clone(&known);
    let collecting = ages.collect(move |lines| {
        let known = read.lock().clone();
        for (node, age) in known {
            lines.gauge(&["a\\b", node, "", "true"], age);
        }
    });
    let head = [format!("# HELP {NAME} Age of the Node"), format!("# TYPE {NAME} gauge")];
    let line = |node: &str, age: &str| {
        format!("{NAME}{{managed=\"true\",node_name=\"{node}\",phase=\"\",zone=\"a\\\\b\"}} {age}")
    };
    let [help, kind] = head;
    assert_eq!(lines(&metrics, NAME), [help, kind, line("n\\\"1", "1.5")]);
    *known.lock() = vec![("n2", 2.0), ("n3", 3.0)];
    assert_eq!(lines(&metrics, NAME)[2..], [line("n2", "2"), line("n3", "3")]);
    let later = ages.collect(|lines| lines.gauge(&["a\\b", "n4", "", "true"], 4.0));
    drop(collecting);
    assert_eq!(lines(&metrics, NAME)[2..], [line("n4", "4")], "the last source counts");
    drop(later);
    assert_eq!(lines(&metrics, NAME), [""; 0]);
}

#[test]
fn families_are_in_name_order_whoever_keeps_their_series() {
    let metrics = Metrics::new();
    let _pods = metrics.pods.state.collect(|series| series(["x"; 13], 1.0));
    metrics.nodes.drained_total.inc(["default"]);
    let text = metrics.render();
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(names.is_sorted(), "{names:#?}");
    assert!(names.iter().any(|name| name.starts_with("karpenter_pods_state ")));
}

#[test]
fn a_long_text_is_passed_on_in_pieces_and_no_further_than_it_is_wanted() {
    let metrics = Metrics::new();
    let _pods = metrics.pods.state.collect(|series| {
        for number in 0..10_000 {
            series([number.to_string().as_str(); 13], 1.0);
        }
    });
    let mut pieces = Vec::new();
    metrics.write(|piece| {
        pieces.push(piece);
        true
    });
    assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < 100_000), "{}", pieces.len());
    assert_eq!(pieces.concat(), metrics.render());
    let mut taken = 0;
    metrics.write(|_| {
        taken += 1;
        taken < 3
    });
    assert_eq!(taken, 3);
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
    let key = |zone: &str| ["m5.large", "spot", zone].map(Arc::from);
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
