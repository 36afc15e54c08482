//! The suites: what `karpenter-e2e run` and the tests take by name, and how one is run and judged.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::behaviour::clear_away;
use super::{Only, bootstrap, classes, devices, disruption, faults, launch, restart, scheduling};
use crate::report::Case;
use crate::rights::Rights;
use crate::world::{Options, World};

/// Several proofs in one world, or one story.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Suite {
    /// The account made ready, damaged, repaired, and as it was again.
    Bootstrap,
    /// Pods become instances, nodes and running pods, and go away again.
    Launch,
    /// The controller dies five times in the middle of a scale-up.
    Restart,
    /// What pods may ask of nodes, a dozen behaviours at once.
    Scheduling,
    /// What a class asks of EC2, looked at on the instances.
    Classes,
    /// Devices that pods claim, allocated by the scheduler.
    Devices,
    /// Every way a node leaves, a dozen behaviours at once.
    Disruption,
    /// The behaviours of `Disruption` while the controller is killed again and again.
    DisruptionWithCrashes,
    /// What goes wrong around the controller, one trouble after the other.
    Faults,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Self; 9] = [
        Self::Bootstrap,
        Self::Launch,
        Self::Restart,
        Self::Scheduling,
        Self::Classes,
        Self::Devices,
        Self::Disruption,
        Self::DisruptionWithCrashes,
        Self::Faults,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Launch => "launch",
            Self::Restart => "restart",
            Self::Scheduling => "scheduling",
            Self::Classes => "classes",
            Self::Devices => "devices",
            Self::Disruption => "disruption",
            Self::DisruptionWithCrashes => "disruption-with-crashes",
            Self::Faults => "faults",
        }
    }

    /// The behaviours it proves side by side; none if it is one story.
    pub fn behaviours(self) -> Vec<&'static str> {
        match self {
            Self::Bootstrap | Self::Launch | Self::Restart => Vec::new(),
            Self::Scheduling => scheduling::behaviours(),
            Self::Classes => classes::behaviours(),
            Self::Devices => devices::behaviours(),
            Self::Disruption | Self::DisruptionWithCrashes => disruption::behaviours(),
            Self::Faults => faults::behaviours(),
        }
    }

    async fn play(self, world: &mut World, chosen: &Chosen) -> Result<()> {
        let Chosen { seed, only, .. } = chosen;
        match self {
            Self::Bootstrap => bootstrap::run(world).await,
            Self::Launch => launch::run(world).await,
            Self::Restart => restart::run(world, *seed).await,
            Self::Scheduling => scheduling::run(world, only).await,
            Self::Classes => classes::run(world, only).await,
            Self::Devices => devices::run(world, only).await,
            Self::Disruption => disruption::run(world, only).await,
            Self::DisruptionWithCrashes => disruption::run_with_crashes(world, *seed, only).await,
            Self::Faults => faults::run(world, only).await,
        }
    }
}

/// Differences between two runs of the same suite.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Decides what happens by chance; part of every failure.
    pub seed: u64,
    /// Behaviours to prove.
    pub only: Only,
    /// The suite has failed when it has not ended by then.
    pub deadline: Duration,
}

impl Default for Chosen {
    fn default() -> Self {
        Self { seed: fastrand::u64(..), only: Only::default(), deadline: Duration::from_mins(40) }
    }
}

/// Result of a run of a suite.
pub struct Outcome {
    /// Each behaviour, or the story as a whole; what holds for every run is a case of its own when it does not.
    pub cases: Vec<Case>,
    /// Rights that the controller has, and has used.
    pub rights: Rights,
    /// The world as it was at the end, for a look around; [`end`] ends it.
    pub world: World,
}

impl Outcome {
    /// Everything that went wrong, or nothing.
    pub fn failure(&self) -> Option<String> {
        let failed = self.cases.iter().filter_map(|case| {
            let failure = case.failure.as_ref()?;
            Some(format!("{}: {failure}", case.name))
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("\n"))
    }
}

/// Ends a world. A cluster that was there before loses everything that a controller has to take its finalizers from
/// while that controller still runs.
pub async fn end(world: World) -> Result<()> {
    let holds_finalizers = world.is_borrowed() && world.controller_starts() > 0;
    let cleared = if holds_finalizers { clear_away(&world).await } else { Ok(()) };
    world.stop().await?;
    cleared
}

/// Runs a suite in a world of its own; fails only if there is no such world. What was there is dumped if the suite
/// fails. The caller ends the world, so that it can be inspected before.
pub async fn run(suite: Suite, options: Options, chosen: &Chosen) -> Result<Outcome> {
    let mut world = World::start(options).await?;
    let start = Instant::now();
    tracing::info!(suite = suite.name(), seed = chosen.seed, "started");
    let played = tokio::time::timeout(chosen.deadline, suite.play(&mut world, chosen)).await;
    let played = played.unwrap_or_else(|_| Err(anyhow!("did not end within {:?}", chosen.deadline)));
    let (played, rights) = match played {
        Ok(()) => match world.verdict().await {
            Ok(rights) => (Ok(()), rights),
            Err(error) => (Err(error), Rights::default()),
        },
        failed => (failed, Rights::default()),
    };
    let mut cases = world.cases();
    let known = cases.iter().any(|case| case.failure.is_some());
    let failure = played.err().map(|error| format!("{error:#} (seed {})", chosen.seed));
    // A failure of a behaviour is in its case; everything else is a failure of the suite.
    if suite.behaviours().is_empty() || failure.as_ref().is_some_and(|_| !known) {
        cases.push(Case {
            suite: suite.name(),
            name: "the whole".to_owned(),
            took: start.elapsed(),
            failure,
        });
    }
    if cases.iter().any(|case| case.failure.is_some()) {
        world.dump().await;
    }
    Ok(Outcome { cases, rights, world })
}
