//! Figures by workload: as JSON with plain numbers, as a table, and held against those of another run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The figures of one workload by name. A name ends with its unit, if it has one.
pub type Row = BTreeMap<String, f64>;

/// Figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Size of the workloads, of their full size.
    percent: u32,
    /// Cores of the machine.
    cores: usize,
    workloads: BTreeMap<String, Row>,
}

/// Figures that are better when they are greater; of all others less is better.
const MORE_IS_BETTER: &[&str] = &["pods_per_second", "nodes_per_minute"];
/// Prefixes of figures that describe a run rather than its quality.
const DESCRIBES: &[&str] = &["share_", "pods_moved", "machine_"];
/// Two measurements that differ by less than this differ by chance, whatever their ratio.
const LEAST: f64 = 1.0;

impl Figures {
    /// None yet, of workloads of this size.
    pub fn new(percent: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { percent, cores, workloads: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, workload: &str, mut row: Row) {
        // Three digits behind the point are more than any of them is worth.
        for value in row.values_mut() {
            *value = (*value * 1000.0).round() / 1000.0;
        }
        self.workloads.insert(workload.to_owned(), row);
    }

    /// Returns the figures as JSON: `{"percent", "cores", "workloads": {NAME: {FIGURE: number}}}`.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).context("write the figures as JSON")
    }

    /// Reads the output of [`Figures::to_json`].
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("read figures of the scale suite from JSON")
    }

    /// A line for each figure.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (workload, row) in &self.workloads {
            for (name, value) in row {
                let _infallible = writeln!(text, "{workload:<14} {name:<32} {value:>12.3}");
            }
        }
        text
    }

    /// Returns the figures that are worse than in `baseline` by more than `tolerance` percent, a line for each. Workloads that
    /// only one of the two has are passed over, and a figure that is missing now is worse.
    pub fn regressions(&self, baseline: &Self, tolerance: f64) -> Result<Vec<String>> {
        ensure!(
            self.percent == baseline.percent,
            "the workloads had {} % of their size and {} % in the baseline; runs of different size say nothing about each \
             other",
            self.percent,
            baseline.percent
        );
        let mut worse = Vec::new();
        for (workload, row) in &self.workloads {
            for (name, &before) in baseline.workloads.get(workload).into_iter().flatten() {
                if DESCRIBES.iter().any(|prefix| name.starts_with(prefix)) {
                    continue;
                }
                let Some(&now) = row.get(name) else {
                    worse.push(format!("{workload}: {name} was {before} and is missing"));
                    continue;
                };
                let factor = 1.0 + tolerance / 100.0;
                let (allowed, is_worse) = if MORE_IS_BETTER.contains(&name.as_str()) {
                    (before / factor, now < before / factor)
                } else {
                    let allowed = (before * factor).max(before + LEAST);
                    (allowed, now > allowed)
                };
                if is_worse {
                    worse.push(format!("{workload}: {name} is {now}, was {before}, allowed {allowed:.3}"));
                }
            }
        }
        Ok(worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(percent: u32, rows: &[(&str, &str, f64)]) -> Figures {
        let mut figures = Figures::new(percent);
        for (workload, name, value) in rows {
            figures.workloads.entry((*workload).to_owned()).or_default().insert((*name).to_owned(), *value);
        }
        figures
    }

    #[test]
    fn json_has_plain_numbers_and_can_be_read_back() {
        let written = figures(10, &[("many", "pods_per_second", 12.5), ("many", "nodes", 50.0)]);
        let text = written.to_json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["workloads"]["many"]["nodes"], 50.0);
        assert_eq!(Figures::from_json(&text).unwrap(), written);
        assert!(Figures::from_json("{}").is_err());
    }

    #[test]
    fn worse_is_slower_and_more_and_missing() {
        let before = figures(
            100,
            &[
                ("many", "pods_per_second", 100.0),
                ("many", "bound_p99_seconds", 40.0),
                ("many", "aws_calls_per_node", 1.0),
                ("many", "nodes", 50.0),
                ("many", "share_account", 0.2),
                ("drift", "seconds", 1.0),
            ],
        );
        let now = figures(
            100,
            &[
                ("many", "pods_per_second", 70.0),
                ("many", "bound_p99_seconds", 49.0),
                ("many", "aws_calls_per_node", 1.9),
                ("many", "share_account", 0.9),
                ("mixed", "seconds", 9.0),
            ],
        );
        assert_eq!(
            now.regressions(&before, 25.0).unwrap(),
            ["many: nodes was 50 and is missing", "many: pods_per_second is 70, was 100, allowed 80.000",],
            "calls within the least difference, shares describe, latency within the tolerance"
        );
        assert_eq!(now.regressions(&before, 20.0).unwrap().len(), 3, "latency too");
        assert!(before.regressions(&before, 0.0).unwrap().is_empty());
    }

    #[test]
    fn runs_of_different_size_are_not_compared() {
        let refused = figures(100, &[]).regressions(&figures(5, &[]), 10.0).unwrap_err().to_string();
        assert!(refused.contains("100 %") && refused.contains("5 %"), "{refused}");
    }
}
