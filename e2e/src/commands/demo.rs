//! `karpenter-e2e demo`: what `karpenter demo` shows, on a real control plane and an emulated or real endpoint.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::command_line;
use karpenter_e2e::scenario::{self, launch};
use karpenter_e2e::world::World;

use super::world::Choices;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    choices: Choices,
    /// Where logs go.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/demo")]
    folder: PathBuf,
}

/// Plays the launch scenario with `karpenter view --timeline` telling the story.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let world = World::start(arguments.choices.options(&arguments.folder)?).await?;
    writeln!(
        std::io::stdout(),
        "while this runs: kubectl --kubeconfig {} get nodes",
        world.kubeconfig().display()
    )
    .context("write to standard output")?;
    let outcome = tokio::select! {
        outcome = play(&world) => outcome,
        outcome = super::interrupted() => outcome,
    };
    scenario::end(world).await?;
    outcome
}

async fn play(world: &World) -> Result<()> {
    world.install().await?;
    let mut story = tokio::process::Command::new(command_line::binary()?)
        .args(["view", "--timeline", "--prices"])
        .envs(world.environment.variables())
        .env("KUBECONFIG", world.kubeconfig())
        .kill_on_drop(true)
        .spawn()
        .context("start `karpenter view`")?;
    let outcome = launch::play(world).await;
    story.kill().await.context("end `karpenter view`")?;
    outcome
}
