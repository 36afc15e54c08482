//! The controller dies five times in the middle of a scale-up to fifty pods, and nothing is lost, doubled or
//! leaked. Machines are small, so that there are many launches to die in.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::facts::{all_running, claims, instance_of, instances, nothing_left, scale};
use crate::manifests;
use crate::wait;
use crate::world::World;

const CRASHES: i32 = 5;
const PODS_PER_STEP: i32 = 10;
/// A crash comes at a random moment of this span after each step, so that over runs every call is hit.
const CRASH_WITHIN_MS: u64 = 6_000;

/// Runs the scenario; `seed` decides when the crashes come and is printed, so that a failure can be repeated.
pub async fn run(world: &mut World, seed: u64) -> Result<()> {
    tracing::info!(seed, "moments of the crashes come from this seed");
    let mut random = fastrand::Rng::with_seed(seed);
    world.without_election();
    world.install().await?;
    world.install_pool(|pool| manifests::hurried(&manifests::small_machines(pool))).await?;
    manifests::apply(&world.client, manifests::INFLATE).await?;

    for crash in 1..=CRASHES {
        scale(world, crash * PODS_PER_STEP).await?;
        let after = Duration::from_millis(random.u64(0..CRASH_WITHIN_MS));
        tokio::time::sleep(after).await;
        world.check_controller().await?;
        world.kill_controller().await?;
        tracing::info!(crash, ?after, "killed the controller");
        world.start_controller().await?;
    }
    all_running(world, usize::try_from(CRASHES * PODS_PER_STEP)?).await?;
    // A claim no pod waits for any more may still be on its way to its instance.
    wait::settles("one instance per claim", || one_instance_per_claim(world)).await?;

    scale(world, 0).await?;
    nothing_left(world).await
}

async fn one_instance_per_claim(world: &World) -> Result<()> {
    let (claims, instances) = (claims(world).await?, instances(world).await?);
    let claimed: BTreeSet<_> = claims
        .iter()
        .map(|claim| {
            let id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref());
            id.map(instance_of).context("a claim has no instance")
        })
        .collect::<Result<_>>()?;
    let running: BTreeSet<_> = instances.iter().map(|instance| instance.id.as_str()).collect();
    ensure!(claimed == running, "claims name the instances {claimed:?}, running are {running:?}");
    ensure!(claimed.len() == claims.len(), "two claims share an instance");
    Ok(())
}
