//! Reports about scenarios: for people, and as `JUnit`'s XML for programs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::figures::Figures;
use super::judge::Failure;
use super::record::{Picture, Recording};
use super::value::Span;

/// Result of a scenario that was played to its end.
#[derive(Clone, Debug)]
pub struct Played {
    /// Everything that happened.
    pub recording: Recording,
    /// Expectations that were not met, and rules that were broken.
    pub failures: Vec<Failure>,
    /// Obstacles that keep pods waiting at the end, as the cluster reports them; empty where none waits or where it is not
    /// looked for.
    pub obstacles: Vec<String>,
    /// Hash of everything that was asked and answered, equal for equal runs; `None` where no two runs are equal.
    pub hash: Option<String>,
}

/// The result of one scenario.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was played, whether it went as expected or not.
    Played(Played),
    /// It should have been played, and why it could not be.
    Broken(String),
    /// It says things that cannot be played here: each of them, with its line.
    NotPlayed(Vec<String>),
}

/// One scenario, played once.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file.
    pub path: String,
    /// Name of the scenario.
    pub name: String,
    /// Mark that distinguishes this run from others of the file: its seed, or the parts it was played on.
    pub how: String,
    /// Time of the wall.
    pub took: Duration,
    /// Result of the run.
    pub outcome: Outcome,
}

impl Case {
    /// Failed expectations, in words; empty for a case that was not played.
    pub fn failures(&self) -> Vec<String> {
        match &self.outcome {
            Outcome::Played(played) => played.failures.iter().map(ToString::to_string).collect(),
            Outcome::Broken(error) => vec![format!("cannot be played: {error}")],
            Outcome::NotPlayed(_) => Vec::new(),
        }
    }

    /// Path and name of the scenario, and the mark of the run.
    pub(super) fn run(&self) -> [&str; 3] {
        [&self.path, &self.name, &self.how]
    }

    /// Returns everything that happened, if it was played.
    pub(super) fn recording(&self) -> Option<&Recording> {
        if let Outcome::Played(played) = &self.outcome { Some(&played.recording) } else { None }
    }

    /// Returns the reasons why it was not played; empty when it was.
    pub fn reasons(&self) -> &[String] {
        if let Outcome::NotPlayed(reasons) = &self.outcome { reasons } else { &[] }
    }
}

/// A line for each case, with what it cost; and one for each failure, or for each reason not to play it.
pub fn line(case: &Case) -> String {
    let (failures, reasons) = (case.failures(), case.reasons());
    let verdict = match (failures.is_empty(), reasons.is_empty()) {
        (false, _) => "FAILED ",
        (true, true) => "ok     ",
        (true, false) => "NOT PLAYED ",
    };
    let mut text = format!("{verdict}{}: {} ({})", case.path, case.name, case.how);
    if let Outcome::Played(played) = &case.outcome {
        text.push_str(&format!("; {}", figures(&played.recording, case.took)));
    }
    text.push('\n');
    for said in failures.iter().chain(reasons) {
        text.push_str(&format!("       {said}\n"));
    }
    if let Outcome::Played(played) = &case.outcome
        && !failures.is_empty()
    {
        played.obstacles.iter().for_each(|said| text.push_str(&format!("       pods wait: {said}\n")));
    }
    text
}

fn figures(recording: &Recording, took: Duration) -> String {
    let Figures { cost, nodes_max, pending_p99_seconds, nodes_removed } = Figures::of(recording);
    let pods = recording.waits.len();
    let p99 = match pods {
        0 => "-".to_owned(),
        _ => Span(Duration::from_secs(pending_p99_seconds)).to_string(),
    };
    format!(
        "{} in {:.1} s; {cost} in all, at most {nodes_max} nodes, {pods} pods, pending p99 {p99}, {nodes_removed} nodes removed",
        Span(recording.took),
        took.as_secs_f64(),
    )
}

/// The count. Those that were not played are neither passed nor failed.
pub fn total(cases: &[Case]) -> String {
    let failed = cases.iter().filter(|case| !case.failures().is_empty()).count();
    let left_out = cases.iter().filter(|case| !case.reasons().is_empty()).count();
    let mut text = format!("{} passed, {failed} failed", cases.len() - failed - left_out);
    if left_out > 0 {
        text.push_str(&format!(", {left_out} not played"));
    }
    text.push('\n');
    text
}

/// Returns what happened at which time, to find the numbers to expect; empty for a case that was not played.
pub fn timeline(case: &Case) -> String {
    let Outcome::Played(played) = &case.outcome else { return String::new() };
    let recording = &played.recording;
    let mut text = String::new();
    let mut last: Option<&Picture> = None;
    for picture in &recording.pictures {
        let same = |last: &Picture| {
            last.per_hour == picture.per_hour && last.nodes == picture.nodes && pods(last) == pods(picture)
        };
        if last.is_some_and(same) {
            continue;
        }
        last = Some(picture);
        let (running, pending) = pods(picture);
        let nodes: Vec<String> = picture
            .nodes
            .iter()
            .map(|node| format!("{} {} {} {}", node.pool, node.instance_type, node.zone, node.capacity_type))
            .collect();
        let _infallible = writeln!(
            text,
            "       {:>9}  {} an hour, {running} pods run, {pending} wait, {} nodes: {}",
            Span(picture.at).to_string(),
            picture.per_hour,
            nodes.len(),
            nodes.join("; ")
        );
    }
    for removal in &recording.removals {
        let _infallible = writeln!(
            text,
            "       {:>9}  removed: {} of {}",
            Span(removal.at).to_string(),
            removal.reason,
            removal.pool
        );
    }
    if let Some(hash) = &played.hash {
        let _infallible = writeln!(text, "       hash {hash}: the same in every run of this seed");
    }
    text
}

fn pods(picture: &Picture) -> (u64, u64) {
    let sum =
        |running| picture.pods.iter().filter(|(pod, _)| pod.running == running).map(|(_, count)| count).sum();
    (sum(true), sum(false))
}

/// Writes the cases as XML, a suite for each file, under the name of the command that played them.
pub fn junit(command: &str, cases: &[Case]) -> Result<String> {
    let mut report = quick_junit::Report::new(command);
    let mut paths: Vec<&str> = cases.iter().map(|case| case.path.as_str()).collect();
    paths.dedup();
    for path in paths {
        let mut suite = TestSuite::new(path);
        for case in cases.iter().filter(|case| case.path == path) {
            let failures = case.failures();
            let status = match (failures.first(), case.reasons().first()) {
                (Some(first), _) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(first.as_str()).set_description(failures.join("\n"));
                    status
                }
                (None, Some(first)) => {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(first.as_str()).set_description(case.reasons().join("\n"));
                    status
                }
                (None, None) => TestCaseStatus::success(),
            };
            let mut entry = TestCase::new(format!("{} ({})", case.name, case.how), status);
            entry.set_classname(path).set_time(case.took);
            if let Outcome::Played(played) = &case.outcome {
                entry.set_system_out(figures(&played.recording, case.took));
            }
            suite.add_test_case(entry);
        }
        report.add_test_suite(suite);
    }
    report.to_string().context("cannot write the report as XML")
}
