//! `karpenter-e2e up`: a world that stands until Ctrl-C: cluster, account, machines and the installed controller.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::scenario;
use karpenter_e2e::world::World;

use super::world::{Choices, tell};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    choices: Choices,
    /// Where logs go.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/up")]
    folder: PathBuf,
    /// Leave the controller out, and the account as a new EKS cluster finds it.
    #[arg(long)]
    bare: bool,
    /// Feature gates of the controller, as `FEATURE_GATES` wants them.
    #[arg(long, default_value = "")]
    feature_gates: String,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let mut world = World::start(arguments.choices.options(&arguments.folder)?).await?;
    world.with_feature_gates(&arguments.feature_gates);
    let outcome = tokio::select! {
        outcome = stand(&world, arguments.bare) => outcome,
        outcome = super::interrupted() => outcome,
    };
    scenario::end(world).await?;
    outcome
}

async fn stand(world: &World, bare: bool) -> Result<()> {
    if !bare {
        world.install().await?;
    }
    tell(world)?;
    // A program that reads this knows by the last line that it has everything.
    writeln!(std::io::stdout(), "# ready; logs in {}; Ctrl-C ends it", world.folder().display())
        .context("write to standard output")?;
    std::future::pending().await
}
