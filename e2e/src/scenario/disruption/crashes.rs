//! Kills the controller again and again while something else happens.

use std::time::Duration;

use anyhow::Result;

use crate::world::World;

/// A controller lives between these two, seconds: long enough to get something done, short enough to be hit in the
/// middle of a replacement.
const LIVES: std::ops::Range<u64> = 8..30;
/// After this many it is left alone, so that what takes long can finish.
const CRASHES: u32 = 8;

/// Runs `proof` to its end while the controller dies and comes back.
pub(super) async fn during(world: &World, seed: u64, proof: impl Future<Output = Result<()>>) -> Result<()> {
    tracing::info!(seed, "moments of the crashes come from this seed");
    let crashes = async {
        let mut random = fastrand::Rng::with_seed(seed);
        for crash in 1..=CRASHES {
            let lived = Duration::from_secs(random.u64(LIVES));
            tokio::time::sleep(lived).await;
            world.check_controller()?;
            world.kill_controller().await?;
            tracing::info!(crash, ?lived, "killed the controller");
            world.start_controller().await?;
        }
        std::future::pending().await
    };
    tokio::select! {
        outcome = proof => outcome,
        outcome = crashes => outcome,
    }
}
