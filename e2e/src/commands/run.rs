//! `karpenter-e2e run SUITE...`: suites in worlds of their own, with what was there kept when one fails.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::stream::{self, StreamExt};
use karpenter_e2e::report::{self, Case};
use karpenter_e2e::scenario::{self, Chosen, Only, Suite};

use super::world::{Choices, tell};

#[derive(Args)]
pub(crate) struct Arguments {
    /// What to prove; several are proven one after the other, or side by side with `--parallel`.
    #[arg(required = true, value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Print the behaviours of each suite, one a line, and start nothing.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    choices: Choices,
    /// Where logs and dumps go, a folder for each suite.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/run")]
    folder: PathBuf,
    /// Decides what happens by chance; part of every failure of a run that did not get one.
    #[arg(long)]
    seed: Option<u64>,
    /// Prove only the behaviours whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How many suites run side by side; two keep two cores busy.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    parallel: u8,
    /// How long a suite may take, in minutes.
    #[arg(long, value_name = "MINUTES", default_value_t = 40)]
    deadline: u64,
    /// Write what was proven as XML of `JUnit`.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// When a suite fails, print how to reach its world and hold it until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let behaviours: Vec<&str> = arguments.suites.iter().flat_map(|suite| suite.behaviours()).collect();
    if arguments.list {
        let mut out = std::io::stdout().lock();
        return behaviours
            .iter()
            .try_for_each(|name| writeln!(out, "{name}"))
            .context("write to standard output");
    }
    let only = Only(arguments.only.clone());
    // A mistyped name costs no start of a cluster.
    only.check(&behaviours)?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let chosen = Chosen { seed, only, deadline: Duration::from_secs(60 * arguments.deadline) };
    let runs = arguments.suites.iter().map(|suite| one(*suite, &arguments, &chosen));
    let cases: Vec<Result<Vec<Case>>> =
        stream::iter(runs).buffered(arguments.parallel.into()).collect().await;
    let cases = cases.into_iter().collect::<Result<Vec<_>>>()?.concat();
    if let Some(path) = &arguments.junit {
        std::fs::write(path, report::junit(&cases)?)
            .with_context(|| format!("write the report to `{}`", path.display()))?;
    }
    write!(std::io::stdout(), "{}", report::table(&cases)).context("write to standard output")?;
    let failed = cases.iter().any(|case| case.failure.is_some());
    ensure!(!failed, "not everything was proven; seed {seed}");
    Ok(())
}

async fn one(suite: Suite, arguments: &Arguments, chosen: &Chosen) -> Result<Vec<Case>> {
    let folder = arguments.folder.join(suite.name());
    let outcome = scenario::run(suite, arguments.choices.options(&folder)?, chosen).await?;
    if let Some(failure) = outcome.failure() {
        tracing::error!(suite = suite.name(), "{failure}");
        if arguments.keep {
            tell(&outcome.world)?;
            super::interrupted().await?;
        }
    }
    scenario::end(outcome.world).await?;
    Ok(outcome.cases)
}
