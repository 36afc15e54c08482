//! The kubelet block of a node class: what is refused with which reason, and what nodes get of it.

use karpenter_api::ConditionStatus::{False, True};
use serde_json::{Value, json};

use crate::workload;
use crate::world::World;

const KIND: &str = "ValidationSucceeded";

async fn world(evaluates: bool) -> World {
    World::settled(|settings| settings.gates.node_class_cel = evaluates).await
}

async fn message(world: &World) -> String {
    let conditions = world.status().await.conditions;
    conditions.into_iter().find(|one| one.kind == KIND).unwrap().message
}

#[tokio::test(start_paused = true)]
async fn blocks_are_refused_with_the_reason_of_the_reference() {
    let bottlerocket = json!([{"alias": "bottlerocket@latest"}]);
    let al2023 = json!([{"alias": "al2023@latest"}]);
    for (evaluates, images, block, reason, part) in [
        (false, &al2023, json!({"maxPod": 20}), "InvalidKubeletConfiguration", "unknown field \"maxPod\""),
        (
            false,
            &al2023,
            json!({"evictionSoft": {"memory.available": "5%"}}),
            "InvalidKubeletConfiguration",
            "evictionSoft.memory.available has no matching evictionSoftGracePeriod",
        ),
        (
            false,
            &bottlerocket,
            json!({"cpuManagerPolicy": "static"}),
            "UnsupportedKubeletConfiguration",
            "cpuManagerPolicy is not supported by Bottlerocket",
        ),
        (false, &al2023, json!({"maxPods": "vcpus * 8"}), "KubeletExpressionsDisabled", "`vcpus * 8`"),
        (true, &al2023, json!({"maxPods": "cpus * 8"}), "KubeletExpressionInvalid", "no variable `cpus`"),
        (
            true,
            &al2023,
            json!({"maxPods": "vcpus / 0"}),
            "KubeletExpressionEvaluationFailed",
            "more instance types; correct the expression",
        ),
    ] {
        let world = world(evaluates).await;
        world.class("default", &json!({"amiSelectorTerms": images, "kubelet": block}));
        world.until_condition("default", KIND, (False, reason)).await;
        world.until_condition("default", "Ready", (False, "UnhealthyDependents")).await;
        let message = message(&world).await;
        assert!(message.starts_with("spec.kubelet: ") || message.starts_with("no result of "), "{message}");
        assert!(message.contains(part), "{message}");
        assert_eq!(world.get("default").await.unwrap().spec.kubelet, serde_json::from_value(block).unwrap());
    }
}

/// The machine of a pod that runs: its type and its user data.
async fn launched(world: &World) -> (String, String) {
    workload::run(world, &["on-demand"]).await;
    let instance = world.account.instances().remove(0);
    let user_data = world.account.user_data(&instance.id).expect("has user data").expose().to_owned();
    (instance.instance_type.to_string(), user_data)
}

#[tokio::test(start_paused = true)]
async fn al2023_passes_on_what_the_kubelet_takes_and_the_results_of_expressions() {
    let world = world(true).await;
    let block: Value = json!({
        "maxPods": "min(20, vcpus * 100)",
        "kubeReserved": {"memory": "11 * max_pods + 255", "cpu": "100m"},
        "cpuManagerPolicy": "static",
        "memorySwap": {"swapBehavior": "LimitedSwap"},
    });
    world.class("default", &json!({"kubelet": block}));
    world.until_ready("default").await;
    assert_eq!(message(&world).await, "");
    let (_, user_data) = launched(&world).await;
    // 11 MiB for each of 20 pods and 255 MiB, rounded up.
    for part in [
        "cpuManagerPolicy: static",
        "swapBehavior: LimitedSwap",
        "maxPods: 20",
        "memory: 480Mi",
        "cpu: 100m",
        "registerWithTaints:",
    ] {
        assert!(user_data.contains(part), "{part} in\n{user_data}");
    }
    assert!(!user_data.contains("max_pods"), "{user_data}");
}

#[tokio::test(start_paused = true)]
async fn a_type_without_a_result_is_left_out_and_the_condition_names_it() {
    let world = world(true).await;
    // All types but those with two processors have a result.
    world.class("default", &json!({"kubelet": {"maxPods": "40 / (vcpus - 2)"}}));
    world.until_ready("default").await;
    assert_eq!(world.condition("default", KIND).await, Some((True, KIND.to_owned())));
    let message = message(&world).await;
    let part = "KubeletExpressionEvaluationFailed: no result of expressions in spec.kubelet for ";
    assert!(message.starts_with(part) && message.contains(": maxPods: Division by zero"), "{message}");
    let (instance_type, user_data) = launched(&world).await;
    let types = world.account.clients().ec2.describe_instance_types(&Default::default()).await.unwrap().items;
    let launched = types.iter().find(|one| one.name.as_str() == instance_type).unwrap();
    assert_ne!(launched.vcpus, 2, "{instance_type}");
    assert!(user_data.contains(&format!("maxPods: {}", 40 / (launched.vcpus - 2))), "{user_data}");
}
