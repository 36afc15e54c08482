//! One plan for all pods of a cluster, as if no node were there: the least that its planner would pay for them, and what the
//! nodes that came about are compared with.

use anyhow::Result;
use karpenter_kube_sim::apiserver::object;
use karpenter_model::Price;
use karpenter_model::names::condition;
use karpenter_plan::WhatIf;
use serde_json::{Value, json};

use crate::process::planning;
use crate::world::World;

/// Its price an hour.
pub(super) async fn price(world: &World) -> Result<Price> {
    let objects = planning::objects(world).into_iter().filter_map(without_nodes).collect();
    let cluster = planning::read(world, objects, WhatIf::default())?;
    let offerings = planning::offerings(world, &cluster).await?;
    Ok(planning::told(&cluster, &offerings).price.after)
}

/// The object in a cluster without nodes: nodes are not there, and pods wait.
fn without_nodes(mut object: Value) -> Option<Value> {
    match object["kind"].as_str().unwrap_or_default() {
        "Node" | "NodeClaim" => None,
        "Pod" => {
            let owner = object::controller(&object).map(|owner| object::text(owner, "/kind"));
            let ended = matches!(object::text(&object, "/status/phase"), "Succeeded" | "Failed");
            if owner == Some("DaemonSet") || ended || object::is_deleting(&object) {
                return None;
            }
            object["spec"].as_object_mut()?.remove("nodeName");
            object["status"] = json!({"phase": "Pending", "conditions": [{
                "type": condition::POD_SCHEDULED, "status": "False", "reason": "Unschedulable", "message": "",
                "lastTransitionTime": object["metadata"]["creationTimestamp"],
            }]});
            Some(object)
        }
        _ => Some(object),
    }
}
