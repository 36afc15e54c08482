//! Carries out what a notice of the cloud means for one claim. A controller of the cloud reads the notices.

use karpenter_lifecycle::node::interruption::{self, Reaction};
use karpenter_lifecycle::step::Step;
use karpenter_model::{ClaimName, NoticeKind};

pub use karpenter_lifecycle::node::interruption::Exhausted;

use crate::pass::Pass;
use crate::pods::evict::Evictions;
use crate::view::KnownClaim;
use crate::{Context, Error};

/// Capacity that the notice reports used up. To be remembered before [`interrupted`], so that the replacement is sought
/// elsewhere.
pub fn exhausted(context: &Context, kind: NoticeKind, claim: &ClaimName) -> Option<Exhausted> {
    let known = context.view.claim(claim)?;
    reaction(context, kind, &known).exhausted
}

/// Returns whether a notice about the machine of a claim is new: the end of a machine that was terminated here
/// is not.
pub fn is_news(context: &Context, kind: NoticeKind, claim: &ClaimName) -> bool {
    let known = context.view.claim(claim);
    known.is_some_and(|known| reaction(context, kind, &known).step != Step::idle())
}

/// Carries out the reaction to a notice about the machine of a claim.
pub async fn interrupted(
    context: &Context,
    controller: &'static str,
    kind: NoticeKind,
    claim: &ClaimName,
) -> Result<(), Error> {
    let Some(known) = context.view.claim(claim) else { return Ok(()) };
    let step = reaction(context, kind, &known).step;
    // Pods are evicted by the termination of the Node.
    let (evictions, _never_run) = Evictions::new();
    let mut pass = Pass::over_claim(context, controller, &evictions, &known);
    pass.carry_out(step).await?;
    match pass.finish().await {
        // Another client changed the claim; the deletion itself has been asked for. Nothing else has been done about a
        // recommendation, whose notice comes again.
        Err(error) if error.is_conflict() && kind != NoticeKind::RebalanceRecommendation => Ok(()),
        other => other.map(drop),
    }
}

fn reaction(context: &Context, kind: NoticeKind, known: &KnownClaim) -> Reaction {
    let nodes = known.model.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.nodes_of(id));
    // For the text of an event alone, so any of several will do.
    let node = nodes.first().map(|node| &node.name);
    let on_rebalance = context.settings.decisions.disruption.on_rebalance;
    interruption::react(kind, &known.model, node, context.view.registry(), on_rebalance, context.now())
}
