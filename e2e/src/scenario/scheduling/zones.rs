//! Topology spread over zones: six pods with `maxSkew: 1` end as two in each of the account's three zones.

use anyhow::{Result, ensure};
use karpenter_model::names::label;
use serde_json::json;

use crate::scenario::test_namespace::{TestNamespace, by_label};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "zones").await?;
    test.ready_pool("zones", json!({})).await?;
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": label::ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    });
    test.pods("spread", 6, json!({"spec": {"topologySpreadConstraints": [spread]}})).await?;

    let zones = by_label(&test.running("spread", 6).await?, label::ZONE);
    ensure!(zones.len() == 3 && zones.values().all(|&pods| pods == 2), "pods by zone: {zones:?}");
    Ok(())
}
