//! `node.together`: lets the nodes of one plan take pods at the same time, as far as the setting `ready-together` has them wait
//! for each other.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_lifecycle::node::together;
use karpenter_model::{Claim, NodeName, NodeObject, Taint};

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::reconciler::Reconciler;
use crate::{Context, Error, Settings};

const NAME: &str = "node.together";
/// Nodes that are released at a time.
const WRITES: usize = 10;

/// The reconciler. It runs without the setting, too: nodes that were launched with it must not keep the taint.
pub(crate) struct Together {
    pub(crate) evictions: Evictions,
}

impl Reconciler for Together {
    type Key = NodeName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        let spec = Spec::new(NAME, settings.concurrency(10, 100));
        spec.backing_off(Duration::from_millis(100), Duration::from_mins(1))
    }

    async fn pass(&self, context: &Context, name: &NodeName) -> Result<Done, Error> {
        let Some(known) = context.view.node(name) else { return Ok(Done::idle()) };
        let Some(claim) = context.view.sole_claim_of(&known.model) else { return Ok(Done::idle()) };
        // A node that still waits for something else of its own does not take pods without this taint either.
        let Some(plan) = together::waits(&claim.model, &known.model) else { return Ok(Done::idle()) };
        let mut nodes = of_plan(context, plan);
        let is_up = |(claim, node): &OfPlan| node.as_ref().is_some_and(|node| together::is_up(claim, node));
        let all_up = nodes.iter().all(is_up);
        if !all_up {
            nodes = vec![(Arc::clone(&claim.model), Some(known.model))];
        }
        // The last one that is up releases all.
        let passes = nodes.into_iter().filter_map(|(claim, node)| {
            let node = node?;
            let step = together::step(&claim, &node, all_up, context.settings.ready_together, context.now());
            let mut pass = Pass::over_node(context, NAME, &self.evictions, node, None);
            Some(async move {
                pass.carry_out(step).await?;
                pass.finish().await
            })
        });
        let passes: Vec<_> = passes.collect();
        stream::iter(passes).buffer_unordered(WRITES).try_fold(Done::idle(), |_, done| ready(Ok(done))).await
    }
}

/// A claim, and its Node if that has joined.
type OfPlan = (Arc<Claim>, Option<Arc<NodeObject>>);

/// The claims with the taint `plan` that stay.
fn of_plan(context: &Context, plan: &Taint) -> Vec<OfPlan> {
    let claims = context.view.claims().into_iter().map(|claim| claim.model);
    let own = claims.filter(|claim| together::of(claim) == Some(plan) && claim.deletion.is_none());
    let with_node = own.map(|claim| {
        let node = claim.provider_id.as_ref().and_then(|id| context.view.nodes_of(id).pop());
        (claim, node)
    });
    with_node.collect()
}
