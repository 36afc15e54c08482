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
        let claims = node.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.claims_of(id));
        // With more than one claim it is not known whose machine it is.
        let claim = match claims.as_slice() {
            [claim] => Some(claim),
            _ => None,
        };
        let presence = presence(context, node).await?;
        let pods = context.view.pods_on(name);
        let pods: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
        let attachments = context.view.blocking_attachments(name, pods.iter().copied(), context.now());
        let class_labels: Vec<LabelKey> =
            context.provider.node_class_kinds().iter().map(|kind| kind.label_key().as_str().into()).collect();
        let step = termination::step(Facts {
            node,
            claim: claim.map(|claim| &*claim.model),
            class_labels: &class_labels,
            pods: &pods,
            presence,
            attachments: &attachments,
            now: context.now(),
        })?;
        let object = claim.map(|claim| Arc::clone(&claim.object));
        let mut pass = Pass::over_node(context, NAME, &self.evictions, Arc::clone(node), object);
        pass.carry_out(step).await?;
        pass.finish().await
    }
}

/// Whether the machine still exists, asked only when the step needs to know.
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
