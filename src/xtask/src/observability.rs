//! Dashboards and alerts against the table of metrics: a query for a series that does not exist shows nothing, and
//! an alert on it never fires.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use karpenter_telemetry::metrics::{Descriptor, Kind, reference};
use serde_json::Value;

/// Prefixes of the families the controller exports.
const PREFIXES: &[&str] =
    &["karpenter_", "aws_sdk_go_", "workqueue_", "leader_election_", "operator_", "controller_runtime_"];

/// Series of each metric, with its labels.
fn series() -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut all = BTreeMap::new();
    for row in reference().into_iter().flat_map(|(_, rows)| rows) {
        let Descriptor { name, labels, kind, .. } = row;
        let labels: BTreeSet<&str> = labels.iter().copied().collect();
        let mut add = |suffix: &str, more: &[&'static str]| {
            all.insert(format!("{name}{suffix}"), labels.iter().chain(more).copied().collect());
        };
        match kind {
            Kind::Histogram => {
                add("_bucket", &["le"]);
                add("_sum", &[]);
                add("_count", &[]);
            }
            Kind::Summary => {
                add("", &["quantile"]);
                add("_sum", &[]);
                add("_count", &[]);
            }
            _ => add("", &[]),
        }
    }
    all
}

/// Names in `query` that look like metrics of ours, each with the label names written in braces behind it.
fn used(query: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = query;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    while let Some(start) = rest.find(is_part) {
        let word = &rest[start..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            let matchers = after.strip_prefix('{').and_then(|text| text.split_once('}'));
            let labels = matchers.map_or("", |(inside, _)| inside).split(',');
            let names = labels.filter_map(|matcher| matcher.split(['=', '!']).next());
            found.push((
                name.to_owned(),
                names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
            ));
        }
        rest = after;
    }
    found
}

/// Labels that `query` groups or joins by.
fn grouped(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    for keyword in ["by (", "on ("] {
        for part in query.split(keyword).skip(1) {
            let inside = part.split(')').next().unwrap_or_default();
            found.extend(inside.split(',').map(|label| label.trim().to_owned()));
        }
    }
    found
}

/// Every query of the chart's dashboards and alerts, with where it is.
fn queries() -> Vec<(String, String)> {
    let chart = crate::repository_root().join("charts/karpenter");
    let mut found = Vec::new();
    let mut files: Vec<_> =
        fs::read_dir(chart.join("dashboards")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let place = format!("{}: {}", path.file_name().unwrap().display(), panel["title"]);
                found.push((place, target["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    let alerts = fs::read_to_string(chart.join("alerts/karpenter.yaml")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    for rule in alerts["groups"][0]["rules"].as_array().unwrap() {
        found.push((format!("alert {}", rule["alert"]), rule["expr"].as_str().unwrap().to_owned()));
    }
    found
}

#[test]
fn every_query_asks_for_series_and_labels_that_exist() {
    let series = series();
    let queries = queries();
    assert!(queries.len() > 30);
    for (place, query) in queries {
        let used = used(&query);
        assert!(!used.is_empty(), "{place}: `{query}` asks for no metric of ours");
        for (name, labels) in used {
            let known = series.get(&name).unwrap_or_else(|| panic!("{place}: there is no series `{name}`"));
            for label in labels.iter().chain(&grouped(&query)) {
                assert!(known.contains(label.as_str()), "{place}: `{name}` has no label `{label}`");
            }
        }
    }
}

#[test]
fn names_and_labels_are_found_in_a_query() {
    let query = "sum by (le, a) (rate(karpenter_x_bucket{b=~\"$b\", c!=\"1\"}[5m])) / on (a) workqueue_depth";
    assert_eq!(
        used(query),
        [
            ("karpenter_x_bucket".to_owned(), vec!["b".to_owned(), "c".to_owned()]),
            ("workqueue_depth".to_owned(), vec![])
        ]
    );
    assert_eq!(grouped(query), ["le", "a", "a"]);
}
