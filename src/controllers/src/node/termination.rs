//! `node.termination`: takes deleted Nodes out of service and ends their machines.

use std::sync::Arc;
use std::time::Duration;

use karpenter_cloud::Read;
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::node::termination::{self, Facts, Presence};
use karpenter_model::{LabelKey, NodeName, NodeObject, Pod};

use crate::cloud;
use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "node.termination";

/// The reconciler.
pub(crate) struct Termination {
    pub(crate) evictions: Evictions,
}

impl Reconciler for Termination {
    type Key = NodeName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        let spec = Spec::new(NAME, settings.concurrency(100, 5000));
        spec.backing_off(Duration::from_millis(100), Duration::from_secs(10))
    }

    async fn pass(&self, context: &Context, name: &NodeName) -> Result<Done, Error> {
        let Some(known) = context.view.node(name).filter(|known| known.model.deletion.is_some()) else {
            return Ok(Done::idle());
        };
        let node = &known.model;
        let class_labels: Vec<LabelKey> =
            context.provider.node_class_kinds().iter().map(|kind| kind.label_key().as_str().into()).collect();
        if !termination::concerns(node, &class_labels) {
            return Ok(Done::idle());
        }
        // It is not known how long its drain may take, nor whether the machine may go. A version that can be decoded wakes
        // the Node.
        if node.provider_id.as_ref().is_some_and(|id| context.view.is_undecoded_machine(id)) {
            tracing::warn!("the nodeclaim of a deleted node cannot be decoded, waiting until it can");
            return Ok(Done::idle());
        }
        let claim = context.view.sole_claim_of(node);
        let presence = presence(context, node).await?;
        let pods = context.view.pods_on(name);
        let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
        let attachments = context.view.blocking_attachments(name, pods.iter().copied(), context.now());
        let step = termination::step(Facts {
            node,
            claim: claim.as_ref().map(|claim| &*claim.model),
            class_labels: &class_labels,
            pods: &pods,
            presence,
            attachments: &attachments,
            now: context.now(),
        })?;
        let mut pass = Pass::over_node(context, NAME, &self.evictions, Arc::clone(node), claim.as_ref());
        pass.carry_out(step).await?;
        pass.finish().await
    }
}

/// Presence of the machine, read only when the step needs it.
async fn presence(context: &Context, node: &NodeObject) -> Result<Presence, Error> {
    let Some(id) = node.provider_id.as_ref().filter(|_| termination::asks_presence(node)) else {
        return Ok(Presence::Unknown);
    };
    match cloud::call(context, NAME, "Get", context.provider.instance(id, Read::Consistent)).await {
        Ok(_) => Ok(Presence::Exists),
        Err(error) if error.not_found() => Ok(Presence::Gone),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{World, list};

    /// A pass over a deleted Node that is not ready; returns how often the provider was asked.
    async fn asked(metadata: &Value) -> usize {
        let world = World::new();
        let mut node = json!({
            "metadata": {
                "name": "node-1", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "1970-01-01T00:00:00Z",
            },
            "spec": {"providerID": "eks-hybrid:///x"},
        });
        for (key, value) in metadata.as_object().unwrap() {
            node["metadata"][key] = value.clone();
        }
        list::<k8s_openapi::api::core::v1::Node>(
            &world.context.view,
            [serde_json::from_value(node).unwrap()],
        );
        let termination = Termination { evictions: Evictions::new().0 };
        let _done = termination.pass(&world.context, &"node-1".into()).await;
        world.account.calls().len()
    }

    #[tokio::test(start_paused = true)]
    async fn the_provider_is_asked_about_nodes_of_ours_only() {
        let ours = json!({"karpenter.memory/memorynodeclass": "default"});
        let finalizers = json!(["karpenter.sh/termination"]);
        let cases = [
            ("another finalizer", json!({"finalizers": ["example.com/x"]}), 0),
            ("another autoscaler", json!({"finalizers": finalizers.clone()}), 0),
            ("ours without finalizer", json!({"labels": ours.clone()}), 0),
            ("ours", json!({"labels": ours, "finalizers": finalizers}), 1),
        ];
        for (what, metadata, calls) in cases {
            assert_eq!(asked(&metadata).await, calls, "{what}");
        }
    }
}
