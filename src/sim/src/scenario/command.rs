//! `karpenter test`: plays scenario files and returns as exit code whether all expectations were met.

use std::fs::File;
use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use parking_lot::Mutex;

use super::format;
use super::player::play;
use super::read::{Scenario, files, read};
use super::report::{Case, Outcome, junit, line, timeline, total};

/// Arguments of `karpenter test`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 all went as expected, 1 a scenario failed or a file is not a scenario.\n\n\
                        In CI: karpenter test --junit report.xml scenarios/\n\
                        In an editor: karpenter test --schema > scenario.schema.json, and at the top of a scenario\n  \
                        # yaml-language-server: $schema=scenario.schema.json"
)]
pub struct Arguments {
    /// Scenario files, or folders with .yaml files in them
    #[arg(required_unless_present = "schema", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Number of seeds to run each scenario with: its own and the next ones
    #[arg(long, default_value = "1", value_name = "N")]
    seeds: NonZero<u32>,
    /// First seed, instead of that of the scenario
    #[arg(long)]
    seed: Option<u64>,
    /// Also write the results to this file, as `JUnit` XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
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

/// Writes text to standard output.
pub type Print = dyn Fn(&str) -> Result<()> + Sync;

/// Plays what the arguments name and prints how it went. When printing fails, everything is played and reported all
/// the same.
pub fn run(arguments: &Arguments, print: &Print) -> Result<ExitCode> {
    if arguments.schema {
        print(&(schema()? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let paths = files(&arguments.paths)?;
    let scenarios = paths.iter().map(|path| Ok(read(path)?)).collect::<Result<Vec<Scenario>>>()?;
    // Opened before anything is played: what took minutes is not to be lost to a misspelt folder.
    let report = arguments.junit.as_deref().map(Report::open).transpose()?;
    let mut work = Vec::new();
    for scenario in &scenarios {
        let first = arguments.seed.unwrap_or(scenario.file.seed);
        for number in 0..u64::from(arguments.seeds.get()) {
            work.push((scenario, first.wrapping_add(number)));
        }
    }
    let (cases, printed) = played(&work, arguments, print);
    let printed = printed.and_then(|()| print(&total(&cases)));
    if let Some(report) = report {
        report.write(&cases)?;
    }
    printed?;
    let failed = cases.iter().any(|case| !case.failures().is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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

    fn write(mut self, cases: &[Case]) -> Result<()> {
        let report = junit("karpenter-test", cases)?;
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
fn played(work: &[(&Scenario, u64)], arguments: &Arguments, print: &Print) -> (Vec<Case>, Result<()>) {
    let jobs = arguments.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let (next, ended) = (AtomicUsize::new(0), Mutex::new((Vec::new(), Ok(()))));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(work.len()) {
            scope.spawn(|| {
                while let Some((number, (scenario, seed))) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|number| Some((number, work.get(number)?)))
                {
                    let case = case(scenario, *seed, arguments.trace);
                    let more = if arguments.timeline { timeline(&case) } else { String::new() };
                    let mut ended = ended.lock();
                    let (cases, printed) = &mut *ended;
                    if printed.is_ok() {
                        *printed = print(&(line(&case) + &more));
                    }
                    cases.push((number, case));
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
