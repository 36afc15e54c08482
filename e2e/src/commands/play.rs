//! `karpenter-e2e play PATH...`: scenario files on real parts, each in a world of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::play::play;
use karpenter_sim::scenario::read::{Scenario, files, read};
use karpenter_sim::scenario::report::{Case, junit, line, timeline, total};

use super::world::Choices;

/// Exit code when nothing failed, and not everything could be played.
const NOT_ALL: u8 = 3;

#[derive(Args)]
#[command(
    after_help = "Exit code 0: all went as expected; 1: a scenario failed, or a file is not a scenario; 3: none failed, \
                        and not all could be played."
)]
pub(crate) struct Arguments {
    /// Scenarios: files, or folders with .yaml files in them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    choices: Choices,
    /// What takes longer is not played: 90s, 15m, 1h.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    longest: Duration,
    /// Where logs and dumps go, a folder for each scenario.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/play")]
    folder: PathBuf,
    /// Write what was found as XML of `JUnit` too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print when what ran and cost how much.
    #[arg(long)]
    timeline: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode> {
    // A file that is none costs no start of a cluster.
    let scenarios = files(&arguments.paths)?.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout();
    let mut cases = Vec::new();
    for scenario in &scenarios {
        let case = one(scenario, &arguments).await;
        let more = if arguments.timeline { timeline(&case) } else { String::new() };
        write!(out, "{}{more}", line(&case)).context("write to standard output")?;
        cases.push(case);
    }
    write!(out, "{}", total(&cases)).context("write to standard output")?;
    if let Some(path) = &arguments.junit {
        std::fs::write(path, junit("karpenter-e2e-play", &cases)?).with_context(|| {
            format!("write the report to `{}`; name a file in a folder that exists", path.display())
        })?;
    }
    Ok(if cases.iter().any(|case| !case.failures().is_empty()) {
        ExitCode::FAILURE
    } else if cases.iter().any(|case| !case.reasons().is_empty()) {
        NOT_ALL.into()
    } else {
        ExitCode::SUCCESS
    })
}

async fn one(scenario: &Scenario, arguments: &Arguments) -> Case {
    let Arguments { choices, longest, folder, .. } = arguments;
    let parts = || choices.options(&folder.join(folder_name(&scenario.path)));
    play(scenario, parts, *longest, &choices.to_string()).await
}

/// The name of a file without its ending, as a cluster may be called.
fn folder_name(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
    stem.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    parsed.ok_or_else(|| format!("`{text}` is no duration; write it as 90s, 15m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_called_after_the_file_as_a_cluster_may_be() {
        assert_eq!(folder_name("scenarios/Spot_interruptions.yaml"), "spot-interruptions");
    }

    #[test]
    fn the_longest_time_is_a_duration() {
        assert_eq!(duration("15m"), Ok(Duration::from_mins(15)));
        assert!(duration("long").is_err_and(|said| said.contains("write it as 90s")));
    }
}
