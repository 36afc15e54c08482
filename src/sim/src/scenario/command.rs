//! `karpenter test`: plays scenario files and returns as exit code whether all expectations were met.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use parking_lot::Mutex;

use super::figures::FiguresReport;
use super::format;
use super::player::play;
use super::read::{Scenario, files, read};
use super::report::{Case, Outcome, junit, line, timeline, total};

/// Arguments of `karpenter test`.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[command(
    after_help = "Exit codes: 0 all went as expected, 1 nothing could be played or reported, 2 a scenario failed or a file is \
                        not a scenario, 3 with --against: a figure is worse.\n\n\
                        In CI: karpenter test --junit report.xml scenarios/\n\
                        Before and after a change: karpenter test --report before.json scenarios/, then\n  \
                        karpenter test --against before.json scenarios/\n\
                        While writing one: karpenter test --filter spot --fail-fast --timeline scenarios/\n\
                        In an editor: karpenter test --schema > scenario.schema.json, and at the top of a scenario\n  \
                        # yaml-language-server: $schema=scenario.schema.json"
)]
pub struct Arguments {
    /// Scenario files, or folders with .yaml files in them
    #[arg(required_unless_present = "schema", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Play only scenarios with this text in their path or name
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print path and name of the scenarios, and play none
    #[arg(long)]
    list: bool,
    /// Begin no other scenario after one has failed
    #[arg(long)]
    fail_fast: bool,
    /// Number of seeds to run each scenario with: its own and the next ones
    #[arg(long, default_value = "1", value_name = "N")]
    seeds: NonZero<u32>,
    /// First seed, instead of that of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// Also write the results to this file, as `JUnit` XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write cost, nodes, waits and removals of each run to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print how the figures differ from those that an earlier run wrote with --report, and exit with 3 if one of them is worse
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Number of scenarios to run at once [default: the number of cores]
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Print what ran at which time, and what it cost
    #[arg(long)]
    timeline: bool,
    /// Print every request to the API server and AWS, and every watch event
    #[arg(long)]
    trace: bool,
    /// Print the JSON schema of scenario files, for editors, and exit
    #[arg(long)]
    schema: bool,
}

/// Output of the command.
pub trait Output: Sync {
    /// Writes text to standard output.
    fn print(&self, text: &str) -> Result<()>;

    /// Names the work under way, for people who wait; nothing by default.
    fn status(&self, _text: &str) {}
}

impl<F: Fn(&str) -> Result<()> + Sync> Output for F {
    fn print(&self, text: &str) -> Result<()> {
        self(text)
    }
}

/// Plays what the arguments name and prints how it went. When printing fails, everything is played and reported all
/// the same.
pub fn run(arguments: &Arguments, output: &impl Output) -> Result<ExitCode> {
    if arguments.schema {
        output.print(&(schema()? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let paths = files(&arguments.paths)?;
    let (scenarios, broken) = read_all(&paths, arguments.filter.as_deref());
    ensure!(
        scenarios.len() + broken.len() > 0,
        "no path or name of {} scenarios contains `{}`; --list prints them",
        paths.len(),
        arguments.filter.as_deref().unwrap_or_default()
    );
    if arguments.list {
        for scenario in &scenarios {
            output.print(&format!("{}: {}\n", scenario.path, scenario.file.name))?;
        }
        broken.iter().try_for_each(|case| output.print(&line(case)))?;
        return Ok(code(&broken));
    }
    // Opened before anything is played: what took minutes is not to be lost to a misspelt folder.
    let report = arguments.junit.as_deref().map(Report::open).transpose()?;
    let before = arguments.against.as_deref().map(FiguresReport::read).transpose()?;
    let figures = arguments.report.as_deref().map(Report::open).transpose()?;
    let mut work = Vec::new();
    for scenario in &scenarios {
        let first = arguments.seed.unwrap_or(scenario.file.seed);
        for number in 0..u64::from(arguments.seeds.get()) {
            work.push((scenario, first.wrapping_add(number)));
        }
    }
    let mut printed = broken.iter().try_for_each(|case| output.print(&line(case)));
    let mut cases = broken;
    if cases.is_empty() || !arguments.fail_fast {
        let (played, how) = played(&work, arguments, output);
        cases.extend(played);
        printed = printed.and(how);
    }
    let printed = printed.and_then(|()| output.print(&total(&cases)));
    if let Some(report) = report {
        report.write(&junit("karpenter-test", &cases)?)?;
    }
    let own = FiguresReport::of(cases.iter().filter_map(|case| Some((case.run(), case.recording()?))));
    if let Some(figures) = figures {
        figures.write(&own.written()?)?;
    }
    printed?;
    let Some(before) = before else { return Ok(code(&cases)) };
    let (differences, worse) = own.against(&before);
    output.print(&differences)?;
    Ok(if worse && !any_failed(&cases) { ExitCode::from(3) } else { code(&cases) })
}

/// The exit code: 2 when one of the cases failed. 1 is for a command that could not do its work.
fn code(cases: &[Case]) -> ExitCode {
    if any_failed(cases) { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

fn any_failed(cases: &[Case]) -> bool {
    cases.iter().any(|case| !case.failures().is_empty())
}

/// The scenarios whose path or name contains `filter`, and a failed case for each file that is none: the others are played
/// all the same, and the report names it.
fn read_all(paths: &[PathBuf], filter: Option<&str>) -> (Vec<Scenario>, Vec<Case>) {
    let (mut scenarios, mut broken) = (Vec::new(), Vec::new());
    let is_meant = |text: &str| filter.is_none_or(|filter| text.contains(filter));
    for path in paths {
        let shown = path.display().to_string();
        match read(path) {
            Ok(scenario) => {
                if is_meant(&shown) || is_meant(&scenario.file.name) {
                    scenarios.push(scenario);
                }
            }
            Err(error) => {
                if is_meant(&shown) {
                    broken.push(Case {
                        path: shown,
                        name: "is a scenario".to_owned(),
                        how: "not read".to_owned(),
                        took: Duration::ZERO,
                        outcome: Outcome::Broken(error.to_string()),
                    });
                }
            }
        }
    }
    (scenarios, broken)
}

/// The file of the report, empty until everything was played.
struct Report<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Report<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let file = File::create(path).with_context(|| Self::failed(path))?;
        Ok(Self { path, file })
    }

    fn write(mut self, report: &str) -> Result<()> {
        self.file.write_all(report.as_bytes()).with_context(|| Self::failed(self.path))
    }

    fn failed(path: &Path) -> String {
        format!("cannot write the report to `{}`; name a file in a folder that exists", path.display())
    }
}

/// The schema of scenario files.
fn schema() -> Result<String> {
    serde_json::to_string_pretty(&schemars::schema_for!(format::File)).context("cannot write the schema")
}

/// Plays everything, several at once, and prints each as it ends. Cases in the order of `work`, and how printing went.
fn played(work: &[(&Scenario, u64)], arguments: &Arguments, output: &impl Output) -> (Vec<Case>, Result<()>) {
    let jobs = arguments.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (next, ended) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Ok(()))));
    let stopped = AtomicBool::new(false);
    let under_way = Mutex::new(BTreeSet::new());
    let status = |ended: usize| {
        let names: Vec<&str> =
            under_way.lock().iter().map(|number: &usize| work[*number].0.path.as_str()).collect();
        output.status(&format!("[{ended}/{}] {}", work.len(), names.join(", ")));
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(work.len()) {
            scope.spawn(|| {
                while let Some((number, (scenario, seed))) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .filter(|_| !stopped.load(Ordering::Relaxed))
                    .and_then(|number| Some((number, work.get(number)?)))
                {
                    under_way.lock().insert(number);
                    status(ended.lock().0.len());
                    let case = case(scenario, *seed, arguments.trace);
                    under_way.lock().remove(&number);
                    let more = if arguments.timeline { timeline(&case) } else { String::new() };
                    let mut ended = ended.lock();
                    let (cases, printed) = &mut *ended;
                    if printed.is_ok() {
                        *printed = output.print(&(line(&case) + &more));
                    }
                    if arguments.fail_fast && !case.failures().is_empty() {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    cases.push((number, case));
                    status(cases.len());
                }
            });
        }
    });
    let (mut cases, printed) = ended.into_inner();
    cases.sort_by_key(|(number, _)| *number);
    (cases.into_iter().map(|(_, case)| case).collect(), printed)
}

fn case(scenario: &Scenario, seed: u64, trace: bool) -> Case {
    let began = Instant::now();
    let outcome = match play(scenario, seed, trace) {
        Ok(played) => Outcome::Played(played),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    };
    let (path, name) = (scenario.path.clone(), scenario.file.name.clone());
    Case { path, name, how: format!("seed {seed}"), took: began.elapsed(), outcome }
}

#[cfg(test)]
mod tests;
