//! `karpenter-e2e run SCENARIO`: one scenario in a world of its own, with what was there kept when it fails.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use karpenter_e2e::scenario::{self, Only};
use karpenter_e2e::world::World;

use super::world::{AccountChoice, ClusterChoice, options};

#[derive(Args)]
pub(crate) struct Arguments {
    /// What to prove.
    scenario: Scenario,
    /// Print the behaviours of the suite, one a line, and start nothing.
    #[arg(long)]
    list: bool,
    /// Which cluster to prove it on.
    #[arg(long, default_value = "local")]
    cluster: ClusterChoice,
    /// Which account to prove it in.
    #[arg(long, default_value = "moto")]
    aws: AccountChoice,
    /// Where logs and dumps go.
    #[arg(long, value_name = "FOLDER", default_value = ".cache/run")]
    folder: PathBuf,
    /// Decides what happens by chance; printed by a run that did not get one.
    #[arg(long)]
    seed: Option<u64>,
    /// Prove only the behaviours of a suite whose name contains this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scenario {
    /// The account made ready, damaged, repaired, and as it was again.
    Bootstrap,
    /// Pods become instances, nodes and running pods, and go away again.
    Launch,
    /// The controller dies five times in the middle of a scale-up.
    Restart,
    /// What pods may ask of nodes, a dozen behaviours at once.
    Scheduling,
    /// Every way a node leaves, a dozen behaviours at once.
    Disruption,
    /// The same while the controller is killed again and again.
    DisruptionWithCrashes,
}

impl Scenario {
    /// The behaviours it proves side by side; none if it is one story.
    fn behaviours(self) -> Vec<&'static str> {
        match self {
            Self::Bootstrap | Self::Launch | Self::Restart => Vec::new(),
            Self::Scheduling => scenario::scheduling::behaviours(),
            Self::Disruption | Self::DisruptionWithCrashes => scenario::disruption::behaviours(),
        }
    }
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let behaviours = arguments.scenario.behaviours();
    if arguments.list {
        let mut out = std::io::stdout().lock();
        return behaviours
            .iter()
            .try_for_each(|name| writeln!(out, "{name}"))
            .context("write to standard output");
    }
    let only = Only(arguments.only);
    // A mistyped name costs no start of a cluster.
    only.check(&behaviours)?;
    let mut world = World::start(options(arguments.cluster, arguments.aws, &arguments.folder)?).await?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let outcome = match arguments.scenario {
        Scenario::Bootstrap => scenario::bootstrap::run(&world).await,
        Scenario::Launch => scenario::launch::run(&world).await,
        Scenario::Restart => scenario::restart::run(&mut world, seed).await,
        Scenario::Scheduling => scenario::scheduling::run(&mut world, &only).await,
        Scenario::Disruption => scenario::disruption::run(&mut world, &only).await,
        Scenario::DisruptionWithCrashes => {
            scenario::disruption::run_with_crashes(&mut world, seed, &only).await
        }
    };
    let outcome = match outcome {
        Ok(()) => world.verdict().await.map(drop),
        failed => failed,
    };
    if outcome.is_err() {
        world.dump().await;
    }
    world.stop().await?;
    outcome
}
