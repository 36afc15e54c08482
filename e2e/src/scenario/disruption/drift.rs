//! Nodes that are not what their pool or class asks for any more are replaced, within the budget of the pool.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use serde_json::{Value, json};

use crate::manifests::{self, merged};
use crate::scenario::test_namespace::{
    TestNamespace, a_node_each, class_like_default, class_says, distinct, images, needs, refers_to, requiring,
};
use crate::scenario::watch;
use crate::wait;
use crate::world::World;

/// Two releases the emulated account has had from its start.
const OLD: &str = "al2023@v20260120";
const NEW: &str = "al2023@v20260210";

/// The class moves to another image; three nodes follow, one at a time.
pub(super) async fn image(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "image-drift").await?;
    let class = |alias: &str| {
        let alias = json!({"amiSelectorTerms": [{"alias": alias}]});
        async move { class_like_default(world, "image-drift", alias).await }
    };
    manifests::apply_json(&world.client, class(OLD).await?).await?;
    class_says(world, "image-drift", ("Ready", "True", "Ready")).await?;
    test.ready_pool("image-drift", merged(refers_to("image-drift"), one_at_a_time())).await?;
    test.pods("worker", 3, a_node_each("worker")).await?;
    test.running("worker", 3).await?;
    let before = images(&test.claims().await?);
    ensure!(before.len() == 1 && !before.contains(""), "three new nodes have the images {before:?}");

    watch::at_most_leaving(&test, 1, async {
        manifests::apply_json(&world.client, class(NEW).await?).await?;
        wait::until("three nodes of another image", || async {
            let claims = test.claims().await?;
            let now = images(&claims);
            let done = claims.len() == 3 && now.len() == 1 && now.is_disjoint(&before) && !now.contains("");
            Ok(if done { Ok(()) } else { Err(format!("{} claims of {now:?}", claims.len())) })
        })
        .await
    })
    .await?;
    ensure!(distinct(&test.running("worker", 3).await?) == 3, "the pods share nodes");
    Ok(())
}

/// The pool allows other instance types than before.
pub(super) async fn requirements(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "requirement-drift").await?;
    test.ready_pool("requirement-drift", merged(only("m5.large"), one_at_a_time())).await?;
    test.pods("worker", 2, a_node_each("worker")).await?;
    test.running("worker", 2).await?;

    watch::at_most_leaving(&test, 1, async {
        test.pool("requirement-drift", merged(only("r5.large"), one_at_a_time())).await?;
        test.settled_on("worker", 2, &["r5.large", "r5.large"]).await
    })
    .await
}

/// The budget under test. Only empty nodes would be consolidated, and there are none.
fn one_at_a_time() -> Value {
    json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}})
}

fn only(instance_type: &str) -> Value {
    requiring(json!([
        needs(label::INSTANCE_TYPE, &[instance_type]),
        needs(label::CAPACITY_TYPE, &["on-demand"])
    ]))
}
