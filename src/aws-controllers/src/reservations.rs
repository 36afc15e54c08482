//! Handling of machines in capacity reservations (spec aws-provider 9).
//!
//! A capacity block ends with its instances, so they are left in time. An ordinary reservation that ends leaves its
//! instances running on-demand, and claim and Node show it from then on; they are never called reserved afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::instances::provider_id::instance_of;
use karpenter_aws::instances::view::capacity_type_of;
use karpenter_aws::market::reservations::status::is_expiring;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_controllers::publish::disrupted;
use karpenter_controllers::view::KnownClaim;
use karpenter_kube_harness::write;
use karpenter_model::label::Labels;
use karpenter_model::names::label::{self, aws};
use karpenter_model::{CapacityType, NodeObject};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::{AwsContext, Error};

/// The `reason` label of `karpenter_nodeclaims_disrupted_total` for claims whose capacity block ends.
const ENDS: &str = "capacity_block_ends";

/// Deletes the claims in capacity blocks that are about to end.
///
/// # Errors
/// What AWS or the API server refused; the other claims have been handled.
pub(crate) async fn leave_expiring(context: &AwsContext) -> Result<(), Error> {
    let claims: Vec<(String, KnownClaim)> = ours(context)
        .filter(|known| known.model.deletion.is_none())
        .filter_map(|known| Some((known.model.labels.get(aws::CAPACITY_RESERVATION_ID)?.to_string(), known)))
        .collect();
    let ids: BTreeSet<String> = claims.iter().map(|(id, _)| id.clone()).collect();
    let found = context.aws.reservations.by_id(ids).await?;
    let now = context.common.now();
    let expiring: BTreeSet<&str> =
        found.iter().filter(|one| is_expiring(one, now)).map(|one| one.id.as_str()).collect();
    let mut errors = Vec::new();
    for (id, known) in claims.iter().filter(|(id, _)| expiring.contains(id.as_str())) {
        let api = context.common.all::<NodeClaim>();
        match write::delete(&api, known.model.name.as_str(), known.object.uid()).await {
            Ok(true) => {
                tracing::info!(nodeclaim = %known.model.name, reservation = id, "capacity block ends, deleted nodeclaim");
                disrupted(&context.common, &known.object, Some(ENDS), None);
            }
            Ok(false) => {}
            Err(error) => errors.push(error.into()),
        }
    }
    Error::combined(errors)
}

/// Calls on-demand what was launched into a reservation and is in none any more.
///
/// # Errors
/// What AWS or the API server refused; the others have been handled.
pub(crate) async fn demote(context: &AwsContext) -> Result<(), Error> {
    let reserved: Vec<(KnownClaim, Vec<Arc<NodeObject>>)> =
        ours(context).filter_map(|known| labelled_reserved(context, known)).collect();
    if reserved.is_empty() {
        return Ok(());
    }
    let instances = context.aws.instances.list().await?;
    let gate = context.aws.settings.reserved_capacity;
    // One that is still being launched may not show its reservation yet, and nothing is ever called reserved again.
    let on_demand: BTreeSet<&str> = instances
        .iter()
        .filter(|one| one.state == InstanceState::Running)
        .filter(|one| capacity_type_of(one, gate) == CapacityType::OnDemand)
        .map(|one| one.id.as_str())
        .collect();
    let mut errors = Vec::new();
    for (known, nodes) in reserved {
        let instance = known.model.provider_id.as_ref().and_then(instance_of);
        if instance.is_some_and(|id| on_demand.contains(id.as_str())) {
            errors.extend(demote_one(context, &known, &nodes).await.err());
        }
    }
    Error::combined(errors)
}

/// The claim with those of its registered Nodes that are labelled reserved, if it or any of them is.
fn labelled_reserved(context: &AwsContext, known: KnownClaim) -> Option<(KnownClaim, Vec<Arc<NodeObject>>)> {
    let id = known.model.provider_id.as_ref()?;
    let mut nodes = context.common.view.nodes_of(id);
    nodes.retain(|node| {
        let registered = node.labels.get(label::REGISTERED).is_some_and(|value| value.as_str() == "true");
        registered && is_reserved(&node.labels)
    });
    (is_reserved(&known.model.labels) || !nodes.is_empty()).then_some((known, nodes))
}

async fn demote_one(
    context: &AwsContext,
    known: &KnownClaim,
    nodes: &[Arc<NodeObject>],
) -> Result<(), Error> {
    let view = &context.common.view;
    let name = known.model.name.as_str();
    let change = json!({"metadata": {"labels": on_demand_labels()}});
    if is_reserved(&known.model.labels) {
        tracing::info!(
            nodeclaim = name,
            "instance is in no capacity reservation any more, on-demand from now on"
        );
        if let Some(written) = write::merge(&context.common.all::<NodeClaim>(), name, &change).await? {
            view.put_claim(written);
        }
    }
    for node in nodes {
        if let Some(written) =
            write::merge(&context.common.all::<Node>(), node.name.as_str(), &change).await?
        {
            view.put_node(written);
        }
    }
    Ok(())
}

fn ours(context: &AwsContext) -> impl Iterator<Item = KnownClaim> + use<> {
    // Nothing is concluded from half a list.
    let claims = if context.cluster_known() { context.common.view.claims() } else { Vec::new() };
    claims.into_iter().filter(|known| NODE_CLASS_KIND.owns(&known.model.node_class))
}

fn is_reserved(labels: &Labels) -> bool {
    labels.get(label::CAPACITY_TYPE).is_some_and(|value| value.as_str() == CapacityType::Reserved.as_str())
}

fn on_demand_labels() -> Map<String, Value> {
    let gone = aws::RESERVED_CAPACITY.into_iter().map(|key| (key.to_owned(), Value::Null));
    gone.chain([(label::CAPACITY_TYPE.to_owned(), CapacityType::OnDemand.as_str().into())]).collect()
}
