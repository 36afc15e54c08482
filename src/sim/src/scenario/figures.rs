//! Figures of played scenarios: what a report holds of them, and how two reports differ.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use karpenter_model::Price;
use serde::{Deserialize, Serialize};

use super::judge::{percentile, spent};
use super::record::{Recording, Wait};
use super::value::Span;

const FORMAT: &str = "1.0";

/// Figures of the scenarios that were played, as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FiguresReport {
    /// Version of this format.
    format_version: String,
    /// A run of a scenario each.
    cases: Vec<CaseFigures>,
}

/// One run of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CaseFigures {
    /// The file.
    path: String,
    /// Name of the scenario.
    name: String,
    /// Mark that distinguishes this run from others of the file: its seed, or the parts it was played on.
    how: String,
    figures: Figures,
}

/// Figures of a run: less of each is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    /// Dollars in all.
    pub(crate) cost: Price,
    /// The most nodes at one time.
    pub(crate) nodes_max: usize,
    /// Seconds that 99 of 100 pods waited at most; 0 without pods.
    pub(crate) pending_p99_seconds: u64,
    /// Nodes that were removed, whatever the reason.
    pub(crate) nodes_removed: usize,
}

impl Figures {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut waits: Vec<Duration> = recording.waits.values().map(Wait::lasted).collect();
        waits.sort_unstable();
        Self {
            cost: spent(recording, recording.took),
            nodes_max: recording.pictures.iter().map(|picture| picture.nodes.len()).max().unwrap_or(0),
            pending_p99_seconds: percentile(&waits, 99).unwrap_or_default().as_secs(),
            nodes_removed: recording.removals.len(),
        }
    }

    /// Each figure: its name, its text, and a number that is larger when it is worse.
    fn each(self) -> [(&'static str, String, i128); 4] {
        let count =
            |name, number: usize| (name, number.to_string(), i128::try_from(number).unwrap_or(i128::MAX));
        let wait = Span(Duration::from_secs(self.pending_p99_seconds));
        [
            ("cost", self.cost.to_string(), self.cost.nanos().into()),
            count("most nodes", self.nodes_max),
            ("pending p99", wait.to_string(), self.pending_p99_seconds.into()),
            count("nodes removed", self.nodes_removed),
        ]
    }
}

impl FiguresReport {
    /// Returns the figures of runs: path, name and mark of each, and its recording.
    pub(super) fn of<'a>(played: impl IntoIterator<Item = ([&'a str; 3], &'a Recording)>) -> Self {
        let case = |([path, name, how], recording): ([&str; 3], &Recording)| CaseFigures {
            path: path.to_owned(),
            name: name.to_owned(),
            how: how.to_owned(),
            figures: Figures::of(recording),
        };
        Self { format_version: FORMAT.to_owned(), cases: played.into_iter().map(case).collect() }
    }

    /// Reads a report that an earlier run has written.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let failed = || {
            format!(
                "cannot compare with `{}`; name a file that `karpenter test --report` has written",
                path.display()
            )
        };
        let text = fs::read_to_string(path).with_context(failed)?;
        let report: Self = serde_json::from_str(&text).with_context(failed)?;
        ensure!(
            report.format_version == FORMAT,
            "{}: it has the format {}, and this release reads {FORMAT}",
            failed(),
            report.format_version
        );
        Ok(report)
    }

    /// Returns the report as JSON.
    pub(super) fn written(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self).context("cannot write figures as JSON")? + "\n")
    }

    /// Returns a line for each run whose figures differ from those in `before` and for each that is in one of both only, and
    /// whether any figure is worse.
    pub(super) fn against(&self, before: &Self) -> (String, bool) {
        let (mut text, mut worse) = (String::new(), false);
        let same = |one: &CaseFigures, other: &CaseFigures| {
            (&one.path, &one.name, &one.how) == (&other.path, &other.name, &other.how)
        };
        for case in &self.cases {
            let Some(earlier) = before.cases.iter().find(|earlier| same(earlier, case)) else {
                text.push_str(&format!("new     {case}\n"));
                continue;
            };
            let pairs = earlier.figures.each().into_iter().zip(case.figures.each());
            let differing: Vec<_> = pairs.filter(|((.., was), (.., is))| was != is).collect();
            if differing.is_empty() {
                continue;
            }
            let is_worse = differing.iter().any(|((.., was), (.., is))| is > was);
            worse |= is_worse;
            let changes: Vec<String> = differing
                .iter()
                .map(|((name, was, _), (_, is, _))| format!("{name} {was} -> {is}"))
                .collect();
            let verdict = if is_worse { "worse " } else { "better" };
            text.push_str(&format!("{verdict}  {case}: {}\n", changes.join(", ")));
        }
        let gone = before.cases.iter().filter(|earlier| !self.cases.iter().any(|case| same(earlier, case)));
        gone.for_each(|earlier| text.push_str(&format!("gone    {earlier}\n")));
        if text.is_empty() {
            "no figure differs\n".clone_into(&mut text);
        }
        (text, worse)
    }
}

impl std::fmt::Display for CaseFigures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.name, self.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cases: &[(&str, i64, usize, u64, usize)]) -> FiguresReport {
        let case = |(name, cents, nodes_max, pending_p99_seconds, nodes_removed): &(
            &str,
            i64,
            usize,
            u64,
            usize,
        )| {
            let cost = Price::from_nanos(cents * 10_000_000);
            let figures = Figures {
                cost,
                nodes_max: *nodes_max,
                pending_p99_seconds: *pending_p99_seconds,
                nodes_removed: *nodes_removed,
            };
            CaseFigures { path: "a.yaml".into(), name: (*name).to_owned(), how: "seed 1".into(), figures }
        };
        FiguresReport { format_version: FORMAT.into(), cases: cases.iter().map(case).collect() }
    }

    #[test]
    fn differences_are_named_and_any_that_is_more_is_worse() {
        let before = report(&[("web", 100, 3, 90, 2)]);
        for (after, expected, worse) in [
            (report(&[("web", 100, 3, 90, 2)]), "no figure differs\n", false),
            (
                report(&[("web", 90, 3, 90, 2)]),
                "better  a.yaml: web (seed 1): cost $1.0000 -> $0.9000\n",
                false,
            ),
            (
                report(&[("web", 90, 4, 60, 2)]),
                "worse   a.yaml: web (seed 1): cost $1.0000 -> $0.9000, most nodes 3 -> 4, pending p99 1m30s -> 1m\n",
                true,
            ),
            (report(&[("web", 100, 3, 90, 3)]), "worse   a.yaml: web (seed 1): nodes removed 2 -> 3\n", true),
            (
                report(&[("api", 100, 3, 90, 2)]),
                "new     a.yaml: api (seed 1)\ngone    a.yaml: web (seed 1)\n",
                false,
            ),
        ] {
            assert_eq!(after.against(&before), (expected.to_owned(), worse));
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = report(&[("web", 100, 3, 90, 2)]);
        fs::write(file.path(), written.written().unwrap()).unwrap();
        assert_eq!(FiguresReport::read(file.path()).unwrap(), written);
        fs::write(file.path(), "<testsuites/>").unwrap();
        let refused = FiguresReport::read(file.path()).unwrap_err().to_string();
        assert!(refused.contains("that `karpenter test --report` has written"), "{refused}");
    }
}
