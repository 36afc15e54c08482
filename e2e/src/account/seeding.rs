//! Seeds an account that has no control requests, through its public API, with `emulator.seed`.

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use super::control::Seeded;
use crate::prepare;

/// Runs the seed script against `endpoint`; where the emulator has no EKS, the answer has no cluster.
pub(super) async fn seed(endpoint: &str, cluster: &str, region: &str, kubernetes: &str) -> Result<Seeded> {
    let python = tokio::task::spawn_blocking(prepare::python).await.context("prepare Python")??;
    let output = Command::new(python)
        .args(["-m", "emulator.seed", "--endpoint", endpoint, "--cluster", cluster])
        .args(["--region", region, "--kubernetes", kubernetes])
        .env("PYTHONPATH", prepare::launcher_folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .kill_on_drop(true)
        .output()
        .await
        .context("run the seed script")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it said nothing");
        bail!("seeding the account at `{endpoint}` for cluster `{cluster}` failed: {last}");
    }
    serde_json::from_slice(&output.stdout).context("read what the seed script made")
}
