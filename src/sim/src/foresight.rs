//! Comparison of `karpenter plan` with what the controller then does: a plan of a world's export, and the world left to the
//! controller.
//!
//! The cluster comes about by the controller's own work. Then it changes: while no controller runs, which a plan of the
//! changed cluster foresees, or under a running one, which a plan with `--what-if` foresees. What the controller begins
//! with afterwards is compared claim by claim, node by node and pod by pod; docs/plan.md says what counts as equal, and what
//! is left out.

mod change;
mod draw;
mod expected;
mod observed;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use karpenter_plan::{About, Forecast, Objects, WhatIf};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::history::History;
use crate::process::{self, planning};
use crate::run::alone;
use crate::scenario::{Manifest, apply};
use crate::trace::Trace;
use crate::world::World;

pub use change::{Change, Changed, change};

/// Longest time until the cluster has come about.
const PATIENCE: Duration = Duration::from_mins(15);
/// Time without a change of what is missing until the world counts as settled: `consolidateAfter` of every pool has passed by
/// then.
const REST: Duration = Duration::from_secs(90);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_secs(10);
/// Time until a change is complete: pods are created and the scheduler has tried them.
const CHANGE: Duration = Duration::from_secs(10);

/// Comparison of a plan with the controller in one world.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    /// Differences between the controller's work and the plan; empty when there are none.
    pub differences: Vec<String>,
    /// The plan, as people read it.
    pub text: String,
    /// Claims that were foreseen.
    pub launches: usize,
    /// Nodes whose removal was foreseen, where that was compared.
    pub removals: usize,
    /// Pods that were foreseen to stay pending.
    pub pending: usize,
}

/// Plans for the world of a seed, and holds what the controller does against it.
pub fn foresee(seed: u64) -> Result<Foreseen> {
    alone(seed, move || async move { foreseen(seed).await })
}

async fn foreseen(seed: u64) -> Result<Foreseen> {
    let drawn = draw::world(seed);
    let history = Arc::new(History::quiet(seed, Duration::ZERO));
    let world = Arc::new(World::on(&history, drawn.world_options()?, Trace::new(false)).await?);
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    let first = stop.child_token();
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, first.clone()));
    settle(&world).await;
    let manifests: Vec<Manifest> =
        drawn.changes.iter().map(|change| Manifest { line: 0, what: change.clone() }).collect();
    let forecast = if drawn.under_way {
        let what_if = WhatIf { manifests: drawn.changes.clone(), ..WhatIf::default() };
        planned(&world, what_if).await?
    } else {
        first.cancel();
        if let Some(life) = world.lives().get(&0) {
            life.die();
        }
        apply(&world, &manifests).await?;
        sleep(CHANGE).await;
        planned(&world, WhatIf::default()).await?
    };
    let mut observer = observed::Observer::new(&world);
    if drawn.under_way {
        apply(&world, &manifests).await?;
    } else {
        tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.child_token()));
    }
    let observed = observer.watch(observed::until_begun(&forecast)).await;
    stop.cancel();
    let mut differences = expected::differences(&forecast, &observed);
    // A limit that is set below what there is, is exceeded.
    let violations = world.truth.violations();
    let broken = violations.iter().filter(|violation| violation.rule != "limit");
    differences.extend(broken.map(|violation| format!("rule {violation:?}")));
    Ok(Foreseen {
        differences,
        text: format!("{drawn}{}", forecast.text()),
        launches: forecast.launches.len(),
        removals: if expected::pods_come(&forecast) {
            0
        } else {
            forecast.removals.iter().map(|removal| removal.nodes.len()).sum()
        },
        pending: forecast.pending.len(),
    })
}

/// Waits until nothing has been missing for a while, or for as long as there is patience: pods that no pool takes wait for
/// ever.
async fn settle(world: &World) {
    let began = Instant::now();
    let (mut missing, mut since) = (world.truth.unfinished(), began);
    while began.elapsed() < PATIENCE && since.elapsed() < REST {
        sleep(LOOK).await;
        let now = world.truth.unfinished();
        // Objects that wait for ever are missing in every look.
        if now != missing {
            (missing, since) = (now, Instant::now());
        }
    }
}

/// The plan of an export of the world; that of the world itself has to be the same.
async fn planned(world: &World, what_if: WhatIf) -> Result<Forecast> {
    let seen = planning::read(world, planning::objects(world), what_if.clone())?;
    let offerings = planning::offerings(world, &seen).await?;
    let plain = planning::read(world, planning::objects(world), WhatIf::default())?;
    let stream = plain.export(&offerings, About::default(), false);
    let exported = planning::read(world, Objects::read("export", &stream)?, what_if)?;
    let of_export = exported.exported().ok_or_else(|| anyhow!("an export is not taken for one"))?;
    let (of_world, of_export) = (planning::told(&seen, &offerings), planning::told(&exported, of_export));
    if of_world != of_export {
        return Err(anyhow!("the export plans otherwise:\n{}\n{}", of_world.text(), of_export.text()));
    }
    Ok(of_export)
}
