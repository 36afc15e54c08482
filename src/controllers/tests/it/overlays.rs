//! Node overlays: what they make of launches, and what is said about them (spec scheduling 24, 32.14).

use karpenter_api::{NodeClaim, NodeOverlay};
use karpenter_model::names::annotation::{CAPACITY_OVERLAY_APPLIED, PRICE_OVERLAY_APPLIED};
use karpenter_testkit::objects::one_of;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{MINUTE, Process, World, condition, is_running};

impl World {
    fn overlay(&self, name: &str, spec: &Value) {
        self.load(&json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name},
            "spec": spec,
        }));
    }

    fn start_overlaying(&self) -> Process {
        self.start_gated(|gates| gates.node_overlay = true)
    }

    /// Waits until the overlay says `Ready` with this status and `ValidationSucceeded` with this reason.
    async fn overlay_says(&self, name: &str, ready: &str, reason: &str) {
        self.until(&format!("{name} is {ready} for {reason}"), MINUTE, || {
            let overlays: Vec<NodeOverlay> = self.list();
            let overlay = overlays.into_iter().find(|one| one.name_any() == name).unwrap();
            let conditions = overlay.status.unwrap_or_default().conditions;
            let find = |kind: &str| conditions.iter().find(|one| one.kind == kind);
            find("Ready").is_some_and(|one| one.status.as_str() == ready)
                && find("ValidationSucceeded").is_some_and(|one| one.reason == reason)
        })
        .await;
    }

    /// Types of the machines there are.
    fn types(&self) -> Vec<String> {
        self.account.machines().iter().map(|machine| machine.instance_type.to_string()).collect()
    }
}

fn of_types(types: &[&str]) -> Value {
    json!([one_of("node.kubernetes.io/instance-type", types)])
}

fn says(claim: &NodeClaim, annotation: &str) -> bool {
    claim.annotations().get(annotation).is_some_and(|value| value == "true")
}

#[tokio::test(start_paused = true)]
async fn a_price_decides_which_type_is_launched() {
    let world = World::with_pool(&json!({})).await;
    world.overlay("large", &json!({"requirements": of_types(&["large"]), "price": "0.0001"}));
    world.pod("web", "1");
    let process = world.start_overlaying();
    world.all_running().await;
    assert_eq!(world.types(), ["large"]);
    let claim = world.claims().remove(0);
    assert!(says(&claim, PRICE_OVERLAY_APPLIED) && !says(&claim, CAPACITY_OVERLAY_APPLIED), "{claim:?}");
    world.overlay_says("large", "True", "ValidationSucceeded").await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_amount_makes_pods_fit_that_ask_for_an_extended_resource() {
    let world = World::with_pool(&json!({})).await;
    let device = json!({"smarter-devices/fuse": "1"});
    let resources = json!({"requests": device, "limits": device});
    world.pod_with(
        "fuse",
        "1",
        &json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}),
    );
    let process = world.start_overlaying();
    tokio::time::sleep(MINUTE).await;
    assert!(world.claims().is_empty(), "no type has such a resource");
    // Plans are made as soon as the overlay is in force.
    let overlay = json!({"requirements": of_types(&["medium"]), "capacity": {"smarter-devices/fuse": "2"}});
    world.overlay("fuse", &overlay);
    world.all_running().await;
    assert_eq!(world.types(), ["medium"]);
    let claim = world.claims().remove(0);
    assert!(says(&claim, CAPACITY_OVERLAY_APPLIED) && !says(&claim, PRICE_OVERLAY_APPLIED), "{claim:?}");
    let capacity = claim.status.clone().unwrap().capacity.unwrap();
    assert_eq!(capacity["smarter-devices/fuse"].to_string(), "2");
    let initialized = || condition(&world.claims()[0], "Initialized") == "True";
    world.until("the device counts as registered", 2 * MINUTE, initialized).await;
    process.stop().await;
}

/// Waits until every pod runs on one machine of this type.
async fn is_on(world: &World, instance_type: &str) {
    world
        .until(&format!("the pod runs on `{instance_type}` alone"), 20 * MINUTE, || {
            world.types() == [instance_type] && world.pods().iter().all(is_running)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn machines_move_to_the_type_an_overlay_makes_cheaper() {
    let medium = of_types(&["medium"]);
    for overlay in [
        json!({"requirements": medium, "priceAdjustment": "-99%", "weight": 3}),
        json!({"requirements": medium, "price": "0.0000232"}),
    ] {
        let world = World::new().await;
        // A spot machine is replaced by a cheaper spot machine only where many types are.
        let on_demand = json!([one_of("karpenter.sh/capacity-type", &["on-demand"])]);
        world.pool("default", &json!({"template": {"spec": {"requirements": on_demand}}}));
        world.set("web", 1, "1");
        let process = world.start_overlaying();
        is_on(&world, "small").await;
        world.overlay("cheap", &overlay);
        is_on(&world, "medium").await;
        process.stop().await;
    }
}

/// Pods that ask for huge pages run on the only type that has them so far, until an overlay says that a cheaper one has
/// them as well.
#[tokio::test(start_paused = true)]
async fn machines_move_to_the_cheaper_type_an_overlay_gives_huge_pages() {
    let world = World::new().await;
    let on_demand = json!([one_of("karpenter.sh/capacity-type", &["on-demand"])]);
    world.pool("default", &json!({"template": {"spec": {"requirements": on_demand}}}));
    let pages =
        |types: &[&str]| json!({"requirements": of_types(types), "capacity": {"hugepages-2Mi": "100Mi"}});
    world.overlay("large", &pages(&["large"]));
    let resources = json!({"cpu": "1", "memory": "100Mi", "hugepages-2Mi": "100Mi"});
    let resources = json!({"requests": resources, "limits": resources});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    world.set_with("web", 1, "1", &json!({"containers": containers}));
    let process = world.start_overlaying();
    is_on(&world, "large").await;
    let claim = world.claims().remove(0);
    assert_eq!(claim.status.clone().unwrap().capacity.unwrap()["hugepages-2Mi"].to_string(), "100Mi");
    world.overlay("small", &pages(&["small"]));
    is_on(&world, "small").await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_in_conflict_the_alphabetically_last_applies_and_once_it_is_gone_the_other() {
    let world = World::with_pool(&json!({})).await;
    world.overlay("a", &json!({"requirements": of_types(&["large"]), "price": "0.0001"}));
    world.overlay("b", &json!({"requirements": of_types(&["large"]), "price": "9.9"}));
    let process = world.start_overlaying();
    world.overlay_says("a", "False", "Conflict").await;
    world.overlay_says("b", "True", "ValidationSucceeded").await;
    world.pod("one", "1");
    world.all_running().await;
    assert_eq!(world.types(), ["small"]);
    world.delete::<NodeOverlay>("b").await;
    world.overlay_says("a", "True", "ValidationSucceeded").await;
    world.pod("two", "1500m");
    world.all_running().await;
    assert!(world.types().contains(&"large".to_owned()), "{:?}", world.types());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_overlay_that_is_wrong_by_itself_says_why_and_stops_nobody() {
    let world = World::with_pool(&json!({})).await;
    let unknown = json!([one_of("karpenter.sh/capacity-type", &["free"])]);
    world.overlay("wrong", &json!({"requirements": unknown, "price": "0"}));
    world.overlay("right", &json!({"requirements": of_types(&["large"]), "price": "0.0001"}));
    world.pod("web", "1");
    let process = world.start_overlaying();
    world.overlay_says("wrong", "False", "RuntimeValidation").await;
    world.overlay_says("right", "True", "ValidationSucceeded").await;
    world.all_running().await;
    assert_eq!(world.types(), ["large"]);
    process.stop().await;
}

/// Planning without them could buy the wrong thing; planning goes on by itself once they are there.
#[tokio::test(start_paused = true)]
async fn nothing_is_planned_until_overlays_are_known() {
    let world = World::with_pool(&json!({})).await;
    world.overlay("large", &json!({"requirements": of_types(&["large"]), "price": "0.0001"}));
    world.pod("web", "1");
    world.forbidden.add("nodeoverlays");
    let process = world.start_overlaying();
    tokio::time::sleep(3 * MINUTE).await;
    assert!(world.claims().is_empty());
    world.forbidden.clear();
    world.all_running().await;
    assert_eq!(world.types(), ["large"]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_comes_later_is_evaluated_too() {
    let world = World::new().await;
    let process = world.start_overlaying();
    let of_pool = json!([
        one_of("karpenter.sh/nodepool", &["late"]),
        one_of("node.kubernetes.io/instance-type", &["large"]),
    ]);
    world.overlay("large", &json!({"requirements": of_pool, "price": "0.0001"}));
    world.pod("web", "1");
    tokio::time::sleep(MINUTE).await;
    world.pool("late", &json!({}));
    world.all_running().await;
    assert_eq!(world.types(), ["large"]);
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_closed_overlays_are_not_even_read() {
    let world = World::with_pool(&json!({})).await;
    world.overlay("large", &json!({"requirements": of_types(&["large"]), "price": "0.0001"}));
    world.pod("web", "1");
    let process = world.start();
    world.all_running().await;
    assert_eq!(world.types(), ["small"]);
    let asked = |(_, path): &(String, String)| path.contains("nodeoverlays");
    assert!(!process.calls.seen().iter().any(asked));
    let overlays: Vec<NodeOverlay> = world.list();
    assert_eq!(overlays[0].status, None);
    process.stop().await;
}
