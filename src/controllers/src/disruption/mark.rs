//! The taint that keeps new pods off a machine that is to be removed, the condition with the reason, and the undoing of both.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_kube_harness::write;
use karpenter_lifecycle::command::{Leftover, leftover};
use karpenter_lifecycle::step::{Change, ConditionValue, NodePatch};
use karpenter_model::plan::command::Candidate;
use karpenter_model::{
    ClaimName, ConditionStatus, ConditionType, DisruptionReason, NodeId, NodeName, Snapshot, Taint,
};
use karpenter_telemetry::observe::Chain;
use tokio::time::sleep;

use super::FAN_OUT;
use crate::pass::draft::Draft;
use crate::pass::node_write;
use crate::{Context, Error};

/// Number of attempts at the write of one mark, and the wait after the first failure; each further wait is twice as long.
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
        // The taint first: from then on no pod comes, which the look after it relies on.
        let tainted = Mark::Taint(node).write(context).await;
        let marked = match tainted {
            Ok(()) => Mark::Reason(claim, reason).write(context).await,
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
    // A machine that is being deleted goes all the same, and pods must stay away from it (spec disruption
    // 3.1.4).
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
        let taint = left.taint.then_some(Mark::Untaint(&left.node));
        let mut results = Vec::new();
        for mark in taint.into_iter().chain(left.condition.then_some(Mark::NoReason(&left.claim))) {
            results.push(mark.write(context).await);
        }
        context.view.with_cluster(|cluster| cluster.unmark([&left.claim]));
        results
    };
    let undone: Vec<_> = leftovers.into_iter().map(undo).collect();
    let results: Vec<_> = stream::iter(undone).buffer_unordered(FAN_OUT).collect().await;
    // A conflict means another client keeps writing; the next look finds the leftover again.
    let errors = results.into_iter().flatten().filter_map(Result::err).filter(|error| !error.is_conflict());
    Error::combined(errors.collect())
}

/// One mark that is written to the API server, as it is to be.
enum Mark<'a> {
    /// The disrupted taint of the Node.
    Taint(&'a NodeName),
    /// The absence of that taint.
    Untaint(&'a NodeName),
    /// The condition of the claim with the reason for its disruption.
    Reason(&'a ClaimName, DisruptionReason),
    /// The absence of that condition.
    NoReason(&'a ClaimName),
}

impl Mark<'_> {
    /// Writes the mark, in several attempts; before another one the object is read again. An object that is gone needs
    /// no mark.
    async fn write(&self, context: &Context) -> Result<(), Error> {
        let mut wait = FIRST_WAIT;
        for _ in 1..ATTEMPTS {
            if self.try_write(context).await.is_ok() {
                return Ok(());
            }
            sleep(wait).await;
            wait *= 2;
            // An object that cannot be read can hardly be written; the next attempt reports it.
            let _unread = self.refresh(context).await;
        }
        self.try_write(context).await
    }

    async fn try_write(&self, context: &Context) -> Result<(), Error> {
        match self {
            Self::Taint(name) => write_taints(context, name, NodePatch::with_disrupted_taint).await,
            Self::Untaint(name) => write_taints(context, name, NodePatch::without_disrupted_taint).await,
            Self::Reason(name, reason) => write_condition(context, name, Some(condition(*reason))).await,
            Self::NoReason(name) => write_condition(context, name, None).await,
        }
    }

    async fn refresh(&self, context: &Context) -> Result<(), Error> {
        match self {
            Self::Taint(name) | Self::Untaint(name) => {
                if let Some(node) = write::read(&context.all::<Node>(), name.as_str()).await? {
                    context.view.put_node(node);
                }
            }
            Self::Reason(name, _) | Self::NoReason(name) => {
                if let Some(claim) = write::read(&context.all::<NodeClaim>(), name.as_str()).await? {
                    context.view.put_claim(claim);
                }
            }
        }
        Ok(())
    }
}

async fn write_taints(
    context: &Context,
    name: &NodeName,
    patch: fn(&NodeName, &[Taint]) -> NodePatch,
) -> Result<(), Error> {
    let Some(known) = context.view.node(name) else { return Ok(()) };
    let patch = patch(name, &known.model.taints);
    let Some(body) = node_write::body(&known.object, &patch) else { return Ok(()) };
    if let Some(node) = write::merge(&context.all::<Node>(), name.as_str(), &body).await? {
        context.view.put_node(node);
    }
    Ok(())
}

async fn write_condition(
    context: &Context,
    name: &ClaimName,
    to: Option<ConditionValue>,
) -> Result<(), Error> {
    let Some(known) = context.view.claim(name) else { return Ok(()) };
    let mut draft = Draft::new(known.object, context.now());
    draft.change(&Change { kind: ConditionType::DisruptionReason, to });
    let Some(patch) = draft.status_patch(draft.base()) else { return Ok(()) };
    let claims = context.all::<NodeClaim>();
    if let Some(claim) = write::merge_status(&claims, name.as_str(), &patch).await? {
        context.view.put_claim(claim);
    }
    Ok(())
}

fn condition(reason: DisruptionReason) -> ConditionValue {
    let word = reason.to_string();
    ConditionValue { status: ConditionStatus::True, message: word.clone(), reason: word }
}
