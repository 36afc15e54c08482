//! Contents of NodePools, and the reports when none of them can help.

use karpenter_api::NodePool;
use karpenter_model::Settings;
use karpenter_model::settings::MinValuesPolicy;
use karpenter_testkit::objects::one_of;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{MINUTE, World};

const HASH: &str = "karpenter.sh/nodepool-hash";

#[tokio::test(start_paused = true)]
async fn a_pool_of_a_foreign_node_class_is_not_touched() {
    let world = World::new().await;
    world.pool("ours", &json!({}));
    let foreign = json!({"group": "example.com", "kind": "OtherClass", "name": "default"});
    world.pool("foreign", &json!({"template": {"spec": {"nodeClassRef": foreign}}}));
    let process = world.start();
    let pool =
        |name: &str| world.list::<NodePool>().into_iter().find(|pool| pool.name_any() == name).unwrap();
    let hash = |name: &str| pool(name).annotations().get(HASH).cloned();
    world.until("the pool of ours has its hash", MINUTE, || hash("ours").is_some()).await;
    tokio::time::sleep(20 * MINUTE).await;
    assert!(pool("foreign").status.is_none());
    assert_eq!(hash("foreign"), None);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_and_their_pool_hear_that_its_requirements_leave_no_type() {
    let world = World::new().await;
    let nowhere = json!([one_of("topology.kubernetes.io/zone", &["zone-z"])]);
    world.pool("default", &json!({"template": {"spec": {"requirements": nowhere}}}));
    world.pod("a", "1");
    world.pod("b", "2");
    let process = world.start();
    world
        .until("both pods have an event", MINUTE, || process.events.messages("FailedScheduling").len() == 2)
        .await;
    for told in process.events.messages("FailedScheduling") {
        assert!(told.contains("requirements of the pool") && told.contains("NodePool=default"), "{told}");
    }
    let pool = process.events.messages("NoCompatibleInstanceTypes");
    assert!(pool[0].starts_with("NodePool requirements filtered out all compatible"), "{pool:?}");
    assert!(world.claims().is_empty());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_hear_nothing_while_no_pool_is_ready() {
    let world = World::new().await;
    world.pod("a", "1");
    let process = world.start();
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(process.events.messages("FailedScheduling"), [""; 0]);
    process.stop().await;
}

/// The sum of the samples of `name` that mention the provisioner.
fn of_provisioner(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter(|line| line.starts_with(name) && line.contains("\"provisioner\""));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(start_paused = true)]
async fn each_pass_is_measured_once() {
    let world = World::with_pool(&json!({})).await;
    world.pod_with("nowhere", "1", &json!({"nodeSelector": {"kubernetes.io/arch": "sparc"}}));
    let process = world.start();
    tokio::time::sleep(2 * MINUTE).await;
    let text = process.metrics.render();
    let passes = of_provisioner(&text, "controller_runtime_reconcile_total{");
    let measured = of_provisioner(&text, "karpenter_scheduler_scheduling_duration_seconds_count{");
    // Nothing changes, so few of the passes make a plan.
    assert!(measured >= 1.0 && measured <= passes, "{measured} of {passes}");
    process.stop().await;
}

/// A pool that wants three types of which two do not exist.
#[tokio::test(start_paused = true)]
async fn values_that_are_too_few_hold_pods_back_or_are_let_go_as_the_policy_says() {
    for policy in [MinValuesPolicy::Strict, MinValuesPolicy::BestEffort] {
        let world = World::new().await;
        let types = json!([{
            "key": "node.kubernetes.io/instance-type", "operator": "In",
            "values": ["small", "no-such-type", "nor-this-one"], "minValues": 3,
        }]);
        world.pool("default", &json!({"template": {"spec": {"requirements": types}}}));
        world.pod("web", "1");
        let process = world.start_deciding(Settings { min_values_policy: policy, ..Settings::default() });
        if policy == MinValuesPolicy::Strict {
            let told = || process.events.messages("NoCompatibleInstanceTypes");
            world.until("the pool has an event", MINUTE, || !told().is_empty()).await;
            tokio::time::sleep(5 * MINUTE).await;
            assert!(world.claims().is_empty() && world.account.machines().is_empty());
            let pods = process.events.messages("FailedScheduling");
            assert!(pods[0].contains("minValues"), "{pods:?}");
        } else {
            world.all_running().await;
            let claim = world.claims().remove(0);
            let annotations = claim.metadata.annotations.unwrap();
            assert_eq!(annotations["karpenter.sh/nodeclaim-min-values-relaxed"], "true");
            let types =
                claim.spec.requirements.iter().find(|one| one.key == "node.kubernetes.io/instance-type");
            assert_eq!(types.unwrap().min_values, Some(1));
        }
        process.stop().await;
    }
}
