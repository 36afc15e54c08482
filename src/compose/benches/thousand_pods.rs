//! How long a thousand pods wait for machines that take five seconds to boot, on a clock:
//! `cargo bench -p karpenter-compose --features demo --bench thousand_pods` prints the figure of docs/performance.md.
//!
//! Everything is in one process and counted: API server, scheduler, kubelets and account in memory, and the controller.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

#[path = "../tests/it/crowd.rs"]
mod crowd;

use std::time::Duration;

use anyhow::{Result, ensure};

/// What the demonstration promises.
const BAR: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let crowd = runtime.block_on(crowd::run(1_000))?;
    println!(
        "1,000 pods ran {:.1} s after their creation, on {} machines that boot in {} s",
        crowd.took.as_secs_f64(),
        crowd.instances,
        crowd::BOOT.as_secs()
    );
    ensure!(crowd.took <= BAR, "the bar is {} s", BAR.as_secs());
    Ok(())
}
