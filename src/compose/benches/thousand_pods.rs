//! Waiting time of a thousand pods for machines that take five seconds to boot, on a clock:
//! `cargo bench -p karpenter-compose --features demo --bench thousand_pods` prints the figure of docs/performance.md, with
//! `-- 20000` that of this number of pods.
//!
//! Everything is in one process and counted: API server, scheduler, kubelets and account in memory, and the controller.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

#[path = "../tests/it/crowd.rs"]
mod crowd;

use std::time::Duration;

use anyhow::{Result, ensure};

/// Bar that the demonstration promises for a thousand pods.
const BAR: Duration = Duration::from_secs(30);
/// Bar for up to twenty thousand: all claims are made by then. Their pods wait for a scheduler, here the one in
/// memory.
const CLAIMED: Duration = Duration::from_mins(1);

fn main() -> Result<()> {
    // Cargo adds `--bench`.
    let pods = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(1_000);
    let runtime = tokio::runtime::Runtime::new()?;
    let crowd = runtime.block_on(crowd::run(pods))?;
    println!(
        "{pods} pods ran {:.1} s after their creation, on {} machines that boot in {} s; the last claim was made after {} s",
        crowd.took.as_secs_f64(),
        crowd.instances,
        crowd::BOOT.as_secs(),
        crowd.claimed.as_secs()
    );
    if pods > 1_000 {
        ensure!(crowd.claimed <= CLAIMED, "the bar of claims is {} s", CLAIMED.as_secs());
    } else {
        ensure!(crowd.took <= BAR, "the bar is {} s", BAR.as_secs());
    }
    Ok(())
}
