//! Removes one machine after the other's example: taint, mark, look again, delete; or take everything back.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_lifecycle::step::{About, Change, NodePatch, Verdict};
use karpenter_model::{
    ClaimName, ConditionStatus, ConditionType, DisruptionReason, NodeName, RemovalTarget, Taint,
};
use karpenter_telemetry::events::{Event, reason};

use crate::claim::disrupted;
use crate::claim::draft::Draft;
use crate::report::object;
use crate::write::{self, node};
use crate::{Context, Error};

/// Carries out removals side by side; one that fails is taken back and concerns no other.
pub(super) async fn remove(context: &Context, targets: &[RemovalTarget]) -> Result<bool, Error> {
    let results = join_all(targets.iter().map(|target| remove_one(context, target))).await;
    Error::combined(results.into_iter().filter_map(Result::err).collect()).map(|()| true)
}

async fn remove_one(context: &Context, target: &RemovalTarget) -> Result<(), Error> {
    let marked = async {
        taint(context, &target.node, true).await?;
        mark(context, &target.claim, Some(DisruptionReason::Empty)).await
    };
    let deleted = match marked.await {
        Ok(()) if still_planned(context, target) => delete(context, target).await,
        Ok(()) => Ok(false),
        Err(error) => Err(error),
    };
    match deleted {
        Ok(true) => Ok(()),
        Ok(false) => {
            tracing::debug!(node = %target.node, "removal is no longer planned, taking it back");
            take_back(context, &target.node, &target.claim).await
        }
        Err(error) => {
            take_back(context, &target.node, &target.claim).await?;
            if error.is_conflict() { Ok(()) } else { Err(error) }
        }
    }
}

/// What is planned now that no new pod can come.
fn still_planned(context: &Context, target: &RemovalTarget) -> bool {
    let snapshot = context.view.snapshot(context.now());
    snapshot.is_some_and(|snapshot| {
        let commands = super::emptiness(&snapshot);
        commands.iter().flat_map(|command| &command.candidates).any(|gone| gone.target == *target)
    })
}

async fn delete(context: &Context, target: &RemovalTarget) -> Result<bool, Error> {
    let RemovalTarget { claim, node, .. } = target;
    let Some(known) = context.view.claim(claim) else { return Ok(true) };
    let uid = known.object.metadata.uid.clone();
    context.view.with_cluster(|cluster| cluster.mark_for_deletion([claim]));
    match write::delete(&context.all::<NodeClaim>(), claim.as_str(), uid).await {
        Ok(false) => Ok(true),
        Ok(true) => {
            let (name, label) = words(DisruptionReason::Empty);
            tracing::info!(node = %node, nodeclaim = %claim, reason = label, "disrupting node(s)");
            disrupted(context, &known.object, Some(label));
            let pool = known.model.pool.as_ref().map_or("", |pool| pool.as_str());
            let metrics = &context.metrics.disruption;
            metrics.decisions_total.inc(["delete", label, "empty"]);
            metrics.decisions_by_nodepool_total.inc([pool, "delete", label, "empty"]);
            for (about, kind) in
                [(About::Node(node.clone()), "Node"), (About::Claim(claim.clone()), "NodeClaim")]
            {
                if let Some(object) = object(context, &about) {
                    let message = format!("Disrupting {kind}: {name}");
                    let event = Event::new(object, reason::DISRUPTION_TERMINATING, message);
                    context.recorder.publish(event.distinguished_by(name));
                }
            }
            Ok(true)
        }
        Err(error) => {
            context.view.with_cluster(|cluster| cluster.unmark([claim]));
            Err(error)
        }
    }
}

/// The reason in conditions and events, and as a metric label.
fn words(reason: DisruptionReason) -> (&'static str, &'static str) {
    match reason {
        DisruptionReason::Empty => ("Empty", "empty"),
        DisruptionReason::Drifted => ("Drifted", "drifted"),
        DisruptionReason::Underutilized => ("Underutilized", "underutilized"),
    }
}

/// Takes taint and mark off machines that are neither being removed nor about to be.
pub(super) async fn take_back_leftovers(context: &Context, due: &[RemovalTarget]) -> Result<bool, Error> {
    let due: BTreeSet<&NodeName> = due.iter().map(|target| &target.node).collect();
    let disrupted = Taint::disrupted();
    let mut leftovers = Vec::new();
    for node in context.view.nodes() {
        let tainted = node.model.taints.iter().any(|taint| taint.matches(&disrupted));
        let claims = node.model.provider_id.as_ref().map_or_else(Vec::new, |id| context.view.claims_of(id));
        if let [claim] = claims.as_slice()
            && (tainted || claim.model.conditions.contains_key(&ConditionType::DisruptionReason))
            && node.model.deletion.is_none()
            && claim.model.deletion.is_none()
            && !due.contains(&node.model.name)
        {
            leftovers.push((node.model.name.clone(), claim.model.name.clone()));
        }
    }
    let results = join_all(leftovers.iter().map(|(node, claim)| take_back(context, node, claim))).await;
    Error::combined(results.into_iter().filter_map(Result::err).collect()).map(|()| !leftovers.is_empty())
}

async fn take_back(context: &Context, node: &NodeName, claim: &ClaimName) -> Result<(), Error> {
    let untainted = taint(context, node, false).await;
    let unmarked = mark(context, claim, None).await;
    context.view.with_cluster(|cluster| cluster.unmark([claim]));
    // A conflict means somebody else is writing; the next look finds the leftover again.
    let errors = [untainted, unmarked].into_iter().filter_map(Result::err);
    Error::combined(errors.filter(|error| !error.is_conflict()).collect())
}

/// Puts the disruption taint on a Node, or takes it off.
async fn taint(context: &Context, name: &NodeName, on: bool) -> Result<(), Error> {
    let Some(known) = context.view.node(name) else { return Ok(()) };
    let mut patch = NodePatch::of(name);
    let present = known.model.taints.iter().any(|taint| taint.matches(&Taint::disrupted()));
    if on && !present {
        let same_key = known.model.taints.iter().filter(|taint| taint.key == Taint::disrupted().key);
        patch.remove_taints = same_key.cloned().collect();
        patch.add_taints = vec![Taint::disrupted()];
    } else if !on && present {
        patch.remove_taints = vec![Taint::disrupted()];
    }
    let Some(body) = node::body(&known.object, &patch) else { return Ok(()) };
    if let Some(node) = write::merge(&context.all::<Node>(), name.as_str(), &body).await? {
        context.view.put_node(node);
    }
    Ok(())
}

/// Says on a claim why it is being disrupted, or takes that back.
async fn mark(context: &Context, name: &ClaimName, reason: Option<DisruptionReason>) -> Result<(), Error> {
    let Some(known) = context.view.claim(name) else { return Ok(()) };
    let kind = ConditionType::DisruptionReason;
    let to = reason.map(|reason| {
        let (word, _) = words(reason);
        Verdict { status: ConditionStatus::True, reason: word.to_owned(), message: word.to_owned() }
    });
    let mut draft = Draft::new(known.object, context.now());
    draft.change(&Change { kind, to });
    let Some(patch) = draft.status_patch(draft.base()) else { return Ok(()) };
    if let Some(claim) = write::merge_status(&context.all::<NodeClaim>(), name.as_str(), &patch).await? {
        context.view.put_claim(claim);
    }
    Ok(())
}
