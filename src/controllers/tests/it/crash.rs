//! The process may die at any write, before it is sent or after it is done: the next one goes on from what is true.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::world::{Crash, World};

/// One machine up and down again, with a crash at the chosen write; false when there was no such write.
async fn survives(crash: Crash) -> bool {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let first = world.start_with(crash);
    let mut crashed = false;
    tokio::select! {
        () = first.calls.crashed() => crashed = true,
        () = world.all_running() => {}
    }
    if !crashed {
        world.delete::<Pod>("web").await;
        tokio::select! {
            () = first.calls.crashed() => crashed = true,
            () = world.all_gone() => {}
        }
    }
    first.kill();
    if !crashed {
        return false;
    }
    let second = world.start();
    if !world.pods().is_empty() {
        world.all_running().await;
        world.one_machine_per_claim().await;
        assert_eq!(world.account.machines().len(), 1, "{crash:?}: one pod needs one machine");
        world.delete::<Pod>("web").await;
    }
    world.all_gone().await;
    second.stop().await;
    true
}

/// Plays a story with a crash at each of its writes in turn, before it is sent and after it is done; the story returns
/// false when there was no such write.
pub(crate) async fn at_every_write(least: usize, survives: impl AsyncFn(Crash) -> bool) {
    for crash in [Crash::BeforeWrite as fn(usize) -> Crash, Crash::AfterWrite] {
        let mut write = 0;
        while survives(crash(write)).await {
            write += 1;
        }
        assert!(write > least, "only {write} writes were crashed at");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leaks_nothing() {
    at_every_write(15, survives).await;
}
