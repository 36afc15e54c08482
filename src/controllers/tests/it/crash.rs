//! The process may die at any write, before it is sent or after it is done: the next one goes on from what is true.

use serde_json::json;

use crate::world::{Crash, World};

/// One machine up and down again, with a crash at the chosen write; false when there was no such write.
async fn survives(crash: Crash) -> bool {
    let world = World::new().await;
    world.pool("default", &json!({}));
    world.pod("web", "1");
    let first = world.start_with(crash);
    let mut crashed = false;
    tokio::select! {
        () = first.calls.crashed() => crashed = true,
        () = world.all_running() => {}
    }
    if !crashed {
        world.delete_pod("web").await;
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
        world.delete_pod("web").await;
    }
    world.all_gone().await;
    second.stop().await;
    true
}

async fn survives_at_every_write(crash: fn(usize) -> Crash) {
    let mut write = 0;
    while survives(crash(write)).await {
        write += 1;
    }
    assert!(write > 15, "only {write} writes were crashed at");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_leaks_nothing() {
    survives_at_every_write(Crash::BeforeWrite).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_leaks_nothing() {
    survives_at_every_write(Crash::AfterWrite).await;
}
