//! Pools that cannot be meant are refused by the API server, and the refusal names the field.

use anyhow::{Context, Result, bail, ensure};
use karpenter_api::NodePool;
use kube::api::Api;
use serde_json::{Value, json};

use crate::scenario::test_namespace::{TestNamespace, requiring};
use crate::world::World;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "refusals").await?;
    let requirement = |operator: &str, values: Value| {
        requiring(json!([{"key": "kubernetes.io/arch", "operator": operator, "values": values}]))
    };
    let disruption = |field: &str, value: &str| json!({"spec": {"disruption": {field: value}}});
    let table = [
        (requirement("Near", json!(["amd64"])), "spec.template.spec.requirements[0].operator"),
        (requirement("In", json!([])), "spec.template.spec.requirements"),
        (disruption("consolidateAfter", "soon"), "spec.disruption.consolidateAfter"),
        (disruption("consolidationPolicy", "Never"), "spec.disruption.consolidationPolicy"),
        (
            json!({"spec": {"template": {"spec": {"expireAfter": "3 days"}}}}),
            "spec.template.spec.expireAfter",
        ),
        (json!({"spec": {"weight": 101}}), "spec.weight"),
    ];
    for (change, field) in table {
        let text = change.to_string();
        match test.pool("malformed", change).await {
            Ok(()) => bail!("a pool with {text} was accepted"),
            Err(error) => {
                let error = format!("{error:#}");
                ensure!(error.contains(field), "the refusal of {text} does not name `{field}`: {error}");
            }
        }
    }
    let api: Api<NodePool> = Api::all(world.client.clone());
    let stored = api.get_opt("malformed").await.context("look for the refused pool")?;
    ensure!(stored.is_none(), "a refused pool exists");
    Ok(())
}
