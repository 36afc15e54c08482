//! Kills the controller again and again while something else happens.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use crate::world::World;

/// A controller lives between these two, seconds: long enough to get something done, short enough to be hit in the
/// middle of a replacement.
const LIVES: std::ops::Range<u64> = 5..20;
/// Crashes after which it is left alone, so that what takes long can finish.
const CRASHES: u32 = 8;

/// As few may have happened when a whole suite ends; fewer would prove little. On a fast machine it ends after a hundred
/// seconds, and three of the longest lives take sixty.
const AT_LEAST: u32 = 3;

/// Runs `proof` to its end while the controller dies and comes back; one that is `whole` must have met crashes.
pub(super) async fn during(
    world: &World,
    seed: u64,
    whole: bool,
    proof: impl Future<Output = Result<()>>,
) -> Result<()> {
    tracing::info!(seed, "moments of the crashes come from this seed");
    let happened = Cell::new(0);
    let crashes = async {
        let mut random = fastrand::Rng::with_seed(seed);
        // A life begins with the request for it: in a cluster the controller acts long before its pod counts as ready.
        let mut born = Instant::now();
        for crash in 1..=CRASHES {
            let lived = Duration::from_secs(random.u64(LIVES));
            tokio::time::sleep_until(born + lived).await;
            world.check_controller().await?;
            world.kill_controller().await?;
            tracing::info!(crash, ?lived, "killed the controller");
            happened.set(crash);
            born = Instant::now();
            world.start_controller().await?;
        }
        std::future::pending::<Result<()>>().await
    };
    tokio::select! {
        outcome = proof => outcome?,
        outcome = crashes => outcome?,
    }
    let happened = happened.get();
    ensure!(
        !whole || happened >= AT_LEAST,
        "the controller died {happened} times only; {AT_LEAST} were wanted"
    );
    Ok(())
}
