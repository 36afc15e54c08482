//! What has to wait for what a provider learns about a machine after its launch.

use std::time::Duration;

use karpenter_cloud::{Error, HookState, Kind, RegistrationHook};
use kube::ResourceExt;
use serde_json::json;

use crate::world::{World, condition, is_running};

const MINUTE: Duration = Duration::from_mins(1);

fn hook(name: &'static str, state: HookState) -> RegistrationHook {
    RegistrationHook { name, state, labels: [("cloud/partition".into(), "3".into())].into() }
}

fn failed() -> HookState {
    HookState::Failed(Error::new(Kind::Transient, "read partition of", "web", "no answer"))
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_pods_only_when_every_hook_is_ready() {
    let world = World::new().await;
    world.pool("default", &json!({}));
    world.pod("web", "1");
    let pending = HookState::Pending(Some(Duration::from_secs(5)));
    world.account.answer_hooks(vec![
        hook("partition", pending),
        hook("rack", failed()),
        hook("zone", HookState::Ready),
    ]);
    let process = world.start();
    world
        .until("the hooks are waited for", 5 * MINUTE, || async {
            let claims = world.claims();
            let conditions =
                claims.iter().flat_map(|claim| &claim.status).flat_map(|status| &status.conditions);
            conditions
                .clone()
                .any(|one| one.reason == "RegistrationHookPending" && one.message == "partition, rack")
        })
        .await;
    tokio::time::sleep(2 * MINUTE).await;
    assert!(!world.pods().iter().any(is_running), "the taint is still there");
    world.account.answer_hooks(vec![hook("partition", HookState::Ready)]);
    world.all_running().await;
    let (claim, node) = (world.claims().remove(0), world.nodes().remove(0));
    assert_eq!(condition(&claim, "Registered"), "True");
    assert_eq!(claim.labels().get("cloud/partition").map(String::as_str), Some("3"));
    assert_eq!(node.labels().get("cloud/partition").map(String::as_str), Some("3"));
    process.stop().await;
}
