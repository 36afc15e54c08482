//! How scenarios went: for people, and as `JUnit`'s XML for programs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::judge::{percentile, spent};
use super::player::Played;
use super::record::{Picture, Recording, Wait};
use super::value::Span;

/// One scenario with one seed.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The file.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// Time of the wall.
    pub(crate) took: Duration,
    /// What happened; why it could not be played, otherwise.
    pub(crate) played: Result<Played, String>,
}

impl Case {
    /// Everything that was not as expected, in words.
    pub(crate) fn failures(&self) -> Vec<String> {
        match &self.played {
            Ok(played) => played.failures.iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("cannot be played: {error}")],
        }
    }
}

/// A line for each case, with what it cost; and one for each failure.
pub(crate) fn line(case: &Case) -> String {
    let failures = case.failures();
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    let mut text = format!("{verdict:<7}{}: {} (seed {})", case.path, case.name, case.seed);
    if let Ok(played) = &case.played {
        text.push_str(&format!("; {}", figures(&played.recording, case.took)));
    }
    text.push('\n');
    for failure in failures {
        text.push_str(&format!("       {failure}\n"));
    }
    text
}

fn figures(recording: &Recording, took: Duration) -> String {
    let nodes = recording.pictures.iter().map(|picture| picture.nodes.len()).max().unwrap_or(0);
    let mut waits: Vec<Duration> = recording.waits.values().map(Wait::lasted).collect();
    waits.sort_unstable();
    let p99 = percentile(&waits, 99).map_or_else(|| "-".to_owned(), |wait| Span(wait).to_string());
    format!(
        "{} in {:.1} s; {} in all, at most {nodes} nodes, {} pods, pending p99 {p99}, {} nodes removed",
        Span(recording.took),
        took.as_secs_f64(),
        spent(recording, recording.took),
        waits.len(),
        recording.removals.len()
    )
}

/// The count.
pub(crate) fn total(cases: &[Case]) -> String {
    let failed = cases.iter().filter(|case| !case.failures().is_empty()).count();
    format!("{} passed, {failed} failed\n", cases.len() - failed)
}

/// What happened when, for those who look for the numbers to expect.
pub(crate) fn timeline(played: &Played) -> String {
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
    let _infallible = writeln!(text, "       hash {}: the same in every run of this seed", played.hash);
    text
}

fn pods(picture: &Picture) -> (u64, u64) {
    let sum =
        |running| picture.pods.iter().filter(|(pod, _)| pod.running == running).map(|(_, count)| count).sum();
    (sum(true), sum(false))
}

/// The same as XML, a suite for each file.
pub(crate) fn junit(cases: &[Case]) -> Result<String> {
    let mut report = quick_junit::Report::new("karpenter-test");
    let mut paths: Vec<&str> = cases.iter().map(|case| case.path.as_str()).collect();
    paths.dedup();
    for path in paths {
        let mut suite = TestSuite::new(path);
        for case in cases.iter().filter(|case| case.path == path) {
            let failures = case.failures();
            let status = failures.first().map_or_else(TestCaseStatus::success, |first| {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(first.as_str()).set_description(failures.join("\n"));
                status
            });
            let mut entry = TestCase::new(format!("{} (seed {})", case.name, case.seed), status);
            entry.set_classname(path).set_time(case.took);
            if let Ok(played) = &case.played {
                entry.set_system_out(figures(&played.recording, case.took));
            }
            suite.add_test_case(entry);
        }
        report.add_test_suite(suite);
    }
    report.to_string().context("cannot write the report as XML")
}
