//! Nodes that hold nothing but the room of a buffer stay as they are, whatever happens to us.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_with_nothing_but_room_is_neither_removed_nor_bought_again() {
    for (policy, after) in [("WhenEmptyOrUnderutilized", "30s"), ("WhenEmpty", "0s")] {
        let world = World::new().await;
        world.pool(
            "default",
            &json!({"disruption": {"consolidationPolicy": policy, "consolidateAfter": after}}),
        );
        spare(&world, 3, "1500m");
        let process = start(&world);
        has_room(&world, "spare").await;
        let (nodes, bought) = (world.claim_names(), launched(&process));
        assert_eq!(u64::try_from(nodes.len()).unwrap(), bought, "none was bought in vain");
        for _ in 0..4 {
            tokio::time::sleep(15 * MINUTE).await;
            assert_eq!(world.claim_names(), nodes, "{policy} {after}");
            assert_eq!(launched(&process), bought, "{policy} {after}");
        }
        assert_eq!(reason(&world, "spare", "Provisioning"), "FitsExistingCapacity");
        let told = process.events.messages("Unconsolidatable");
        assert!(told.iter().any(|text| text.starts_with("Node has buffer pods")), "{told:?}");
        assert!(process.events.messages("PromisedNodeNotUsed").is_empty());
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_neither_loses_nor_doubles_room() {
    let (world, first) = with_room(3, &json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let nodes = world.claim_names();
    tokio::time::sleep(5 * MINUTE).await;
    first.kill();
    let second = start(&world);
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!(world.claim_names(), nodes);
    assert_eq!(launched(&second), 0);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_any_buffer_the_gate_holds_up_nothing() {
    let world = World::with_pool(&json!({})).await;
    world.pod("web", "1");
    let first = start(&world);
    world.all_running().await;
    first.kill();
    world.delete::<Pod>("web").await;
    let second = start(&world);
    world.all_gone().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_neither_loses_nor_doubles_room() {
    for write in 0..10 {
        for crash in [Crash::BeforeWrite(write), Crash::AfterWrite(write)] {
            let world = World::with_pool(&json!({})).await;
            spare(&world, 1, "1500m");
            let first = start_with(&world, crash);
            tokio::select! {
                () = first.calls.crashed() => {}
                () = has_room(&world, "spare") => {}
            }
            first.kill();
            let second = start(&world);
            has_room(&world, "spare").await;
            world.one_machine_per_claim().await;
            assert_eq!(world.claims().len(), 1);
            second.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_room_is_found_beside_pods_is_empty_and_goes() {
    let (world, process) = with_room(1, &json!({"disruption": {"consolidationPolicy": "WhenEmpty"}})).await;
    let small = world.claim_names();
    world.pod("web", "12");
    world.all_running().await;
    // Too large for the small node, and there is that much left beside the pod.
    template_takes(&world, "spare", "2500m").await;
    world
        .until("the small node is gone", 5 * MINUTE, || {
            let left = world.claim_names();
            left.len() == 1 && left != small
        })
        .await;
    says(&world, "spare", "Provisioning", "FitsExistingCapacity", MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_takes_no_room_away() {
    use karpenter_kube_sim::apiserver::{Fault, Rule};

    let (world, process) = with_room(1, &json!({"disruption": {"consolidateAfter": "0s"}})).await;
    let nodes = world.claim_names();
    world.server.faults().inject(Rule::on("get").resource("podtemplates"), Fault::InternalError);
    tokio::time::sleep(20 * MINUTE).await;
    assert_eq!(reason(&world, "spare", "ReadyForProvisioning"), "Resolved");
    assert_eq!(world.claim_names(), nodes);
    assert!(process.metrics.runtime.reconcile_errors_total.value(["capacitybuffer"]) > 0);
    process.stop().await;
}
