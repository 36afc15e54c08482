//! Well-known demonstration: a thousand pods wait, and run half a minute later.

use std::time::Duration;

use crate::crowd;

/// Virtual time, so this is what the program waits for, without what it computes: windows, calls and boots. What it takes
/// on a clock is measured by the bench of the same name.
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_run_half_a_minute_after_their_creation() {
    let crowd = crowd::run(1_000).await.unwrap();
    assert!(crowd.took <= Duration::from_secs(30), "{crowd:?}");
    // No claim is made for pods that have a place already, however late they get there.
    assert!(crowd.claimed <= Duration::from_secs(15), "{crowd:?}");
    assert!(crowd.took >= crowd::BOOT && crowd.instances > 0, "{crowd:?}");
}
