//! `karpenter-e2e scale`: workloads of a fixed size, their figures, and a gate against those of another run.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use karpenter_e2e::machines::Pace;
use karpenter_e2e::scenario::end;
use karpenter_e2e::scenario::scale::{self, Figures, Workload};
use karpenter_e2e::world::{Options, World};

use super::world::Choices;

#[derive(Args)]
pub(crate) struct Arguments {
    /// What to load the world with, one after the other; everything if none is named.
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    #[command(flatten)]
    choices: Choices,
    /// Where logs and dumps go.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/run/scale")]
    folder: PathBuf,
    /// Size of the workloads, of their full size.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    percent: u32,
    /// Write the figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail when a figure is worse than in this file, which `--json` has written on the same machine.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// By how many percent a figure may be worse.
    #[arg(long, value_name = "PERCENT", default_value_t = 25.0, requires = "compare")]
    tolerance: f64,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    // A baseline that cannot be read costs no run.
    let baseline = match &arguments.compare {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("read the baseline `{}`", path.display()))?;
            let read = Figures::from_json(&text).with_context(|| format!("baseline `{}`", path.display()))?;
            read.regressions(&Figures::new(arguments.percent), 0.0)?;
            Some(read)
        }
        None => None,
    };
    let workloads = if arguments.workloads.is_empty() { Workload::ALL.to_vec() } else { arguments.workloads };
    let options = Options { pace: Pace::BRISK, ..arguments.choices.options(&arguments.folder)? };
    let mut world = World::start(options).await?;
    let outcome = scale::run(&mut world, &workloads, arguments.percent).await;
    if outcome.is_err() {
        world.dump().await;
    }
    end(world).await?;
    let figures = outcome?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, figures.to_json()?)
            .with_context(|| format!("write the figures to `{}`", path.display()))?;
    }
    write!(std::io::stdout(), "{}", figures.table()).context("write to standard output")?;
    if let Some(baseline) = baseline {
        let worse = figures.regressions(&baseline, arguments.tolerance)?;
        ensure!(worse.is_empty(), "worse than the baseline:\n  {}", worse.join("\n  "));
    }
    Ok(())
}
