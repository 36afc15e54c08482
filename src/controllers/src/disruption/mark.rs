//! The taint that keeps new pods off a machine that is to go, the condition that says why, and taking both back.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_lifecycle::command::{Leftover, leftover};
use karpenter_lifecycle::step::{Change, NodePatch, Verdict};
use karpenter_model::command::Candidate;
use karpenter_model::{
    ClaimName, ConditionStatus, ConditionType, DisruptionReason, NodeId, NodeName, Snapshot, Taint,
};
use karpenter_telemetry::observe::Chain;
use tokio::time::sleep;

use super::FAN_OUT;
use crate::claim::draft::Draft;
use crate::write::{self, node};
use crate::{Context, Error};

/// How often one write is tried, and the wait after the first failure; each further wait is twice as long.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Taints and marks candidates side by side; returns the claims of those for which it failed.
pub(super) async fn mark(
    context: &Context,
    candidates: &[Candidate],
    reason: DisruptionReason,
) -> BTreeSet<ClaimName> {
    let mark = |candidate: Candidate| async move {
        let (node, claim) = (&candidate.target.node, &candidate.target.claim);
        let tainted = taint(context, node, true).await;
        let marked = match tainted {
            Ok(()) => say(context, claim, Some(reason)).await,
            Err(error) => Err(error),
        };
        marked.err().map(|error| {
            tracing::warn!(node = %node, nodeclaim = %claim, error = %Chain(&error), "cannot mark candidate");
            claim.clone()
        })
    };
    let marks: Vec<_> = candidates.iter().cloned().map(mark).collect();
    stream::iter(marks).buffer_unordered(FAN_OUT).filter_map(std::future::ready).collect().await
}

/// Takes taint, condition and mark off candidates that stay after all. What cannot be taken back now is found again
/// by [`take_back_leftovers`].
pub(super) async fn take_back<'a>(
    context: &Context,
    candidates: impl IntoIterator<Item = &'a Candidate>,
) -> Result<(), Error> {
    let targets = candidates.into_iter().map(|candidate| candidate.target.clone());
    let staying = targets.filter(|target| {
        let claim = context.view.claim(&target.claim);
        claim.is_some_and(|claim| claim.model.deletion.is_none())
    });
    let leftovers = staying.map(|target| Leftover {
        node: target.node,
        claim: target.claim,
        taint: true,
        condition: true,
    });
    undo(context, leftovers.collect()).await
}

/// Takes back what commands left behind that are no longer there; `held` are the machines of those that are. True
/// when there was something.
pub(super) async fn take_back_leftovers(
    context: &Context,
    snapshot: &Snapshot,
    held: &BTreeSet<NodeId>,
) -> Result<bool, Error> {
    let free = snapshot.nodes.iter().filter(|node| !held.contains(&node.id));
    let leftovers: Vec<_> = free.filter_map(|node| leftover(node)).collect();
    let found = !leftovers.is_empty();
    undo(context, leftovers).await.map(|()| found)
}

async fn undo(context: &Context, leftovers: Vec<Leftover>) -> Result<(), Error> {
    let undo = |left: Leftover| async move {
        let untainted = if left.taint { taint(context, &left.node, false).await } else { Ok(()) };
        let unmarked = if left.condition { say(context, &left.claim, None).await } else { Ok(()) };
        context.view.with_cluster(|cluster| cluster.unmark([&left.claim]));
        [untainted, unmarked]
    };
    let undone: Vec<_> = leftovers.into_iter().map(undo).collect();
    let results: Vec<_> = stream::iter(undone).buffer_unordered(FAN_OUT).collect().await;
    // A conflict means somebody else keeps writing; the next look finds the leftover again.
    let errors = results.into_iter().flatten().filter_map(Result::err).filter(|error| !error.is_conflict());
    Error::combined(errors.collect())
}

/// Puts the disrupted taint on a Node, or takes it off. A Node that is gone needs neither.
async fn taint(context: &Context, name: &NodeName, on: bool) -> Result<(), Error> {
    let nodes = context.all::<Node>();
    let write = async || {
        let Some(known) = context.view.node(name) else { return Ok(()) };
        let patch = patch(name, &known.model.taints, on);
        let Some(body) = node::body(&known.object, &patch) else { return Ok(()) };
        let written = write::merge(&nodes, name.as_str(), &body).await?;
        written.into_iter().for_each(|node| context.view.put_node(node));
        Ok(())
    };
    let refresh = async || {
        let fresh = write::read(&nodes, name.as_str()).await?;
        fresh.into_iter().for_each(|node| context.view.put_node(node));
        Ok(())
    };
    insist(write, refresh).await
}

fn patch(name: &NodeName, taints: &[Taint], on: bool) -> NodePatch {
    let mut patch = NodePatch::of(name);
    let ours = Taint::disrupted();
    let present = taints.iter().any(|taint| taint.matches(&ours));
    if on && !present {
        patch.remove_taints = taints.iter().filter(|taint| taint.key == ours.key).cloned().collect();
        patch.add_taints = vec![ours];
    } else if !on && present {
        patch.remove_taints = vec![ours];
    }
    patch
}

/// Says on a claim why it is being disrupted, or takes that back. A claim that is gone needs neither.
async fn say(context: &Context, name: &ClaimName, reason: Option<DisruptionReason>) -> Result<(), Error> {
    let claims = context.all::<NodeClaim>();
    let to = reason.map(|reason| Verdict {
        status: ConditionStatus::True,
        reason: reason.to_string(),
        message: reason.to_string(),
    });
    let change = Change { kind: ConditionType::DisruptionReason, to };
    let put = |claim: Option<NodeClaim>| {
        for claim in claim {
            context.view.put_claim(claim);
        }
    };
    let write = async || {
        let Some(known) = context.view.claim(name) else { return Ok(()) };
        let mut draft = Draft::new(known.object, context.now());
        draft.change(&change);
        let Some(patch) = draft.status_patch(draft.base()) else { return Ok(()) };
        put(write::merge_status(&claims, name.as_str(), &patch).await?);
        Ok(())
    };
    let refresh = async || {
        put(write::read(&claims, name.as_str()).await?);
        Ok(())
    };
    insist(write, refresh).await
}

/// Tries a write that starts from what is known, and after each failure looks up what is true.
async fn insist(
    write: impl AsyncFn() -> Result<(), Error>,
    refresh: impl AsyncFn() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        if write().await.is_ok() {
            return Ok(());
        }
        sleep(wait).await;
        wait *= 2;
        // What cannot be read can hardly be written; the next attempt says so.
        let _unread = refresh().await;
    }
    write().await
}
