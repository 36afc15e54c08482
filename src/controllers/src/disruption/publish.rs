//! Output of disruption for users and dashboards: events, metrics and log lines (spec disruption 3.15, 6
//! and 7).

mod decision;

use std::collections::BTreeSet;

use karpenter_engine::disrupt::{Rejection, RejectionKind};
use karpenter_lifecycle::command::{self, CommandId, Failure, Running};
use karpenter_lifecycle::step::About;
use karpenter_model::plan::command::Candidate;
use karpenter_model::repair::Repair;
use karpenter_model::{Command, DisruptionReason, InstanceTypeName, Launch, Method};
use karpenter_telemetry::events::{Event, Reason, reason};
use serde_json::{Value, json};

pub(super) use decision::DecisionPublisher;

use crate::Context;

/// Most instance types of a replacement that a log line lists.
const TYPES_SHOWN: usize = 5;

/// A command starts.
pub(super) fn started(id: &CommandId, command: &Command) {
    if let Some(repair) = &command.repair {
        repaired(id, command, repair);
    }
    let pods: usize = command.candidates.iter().map(|candidate| candidate.pods.len()).sum();
    let nodes: Value = command.candidates.iter().map(disrupted_node).collect();
    let only = command.replacements.len() == 1;
    let replacements: Value =
        command.replacements.iter().map(|launch| replacement_node(launch, only)).collect();
    tracing::info!(
        "command-id" = %id,
        command = command::text(id, command),
        decision = command.decision().as_str(),
        "disrupted-node-count" = command.candidates.len(),
        "replacement-node-count" = command.replacements.len(),
        "pod-count" = pods,
        "disrupted-nodes" = %nodes,
        "replacement-nodes" = %replacements,
        "disrupting node(s)"
    );
}

/// A broken machine is going to be replaced; by which policy.
fn repaired(id: &CommandId, command: &Command, repair: &Repair) {
    let node = command.candidates.first().map_or("", |candidate| candidate.target.node.as_str());
    tracing::info!(
        "command-id" = %id,
        Node = node,
        condition = repair.condition,
        status = ?repair.status,
        reason = repair.reason,
        "reason-regex" = repair.pattern.as_deref().unwrap_or_default(),
        fallback = repair.pattern.is_none(),
        action = repair.action.as_str(),
        "eligible-at" = %repair.eligible_at,
        "termination-grace-period" = repair.drain.map(tracing::field::debug),
        "selected repair policy"
    );
}

fn disrupted_node(candidate: &Candidate) -> Value {
    json!({
        "Node": {"name": candidate.target.node.as_str()},
        "NodeClaim": {"name": candidate.target.claim.as_str()},
        "capacity-type": candidate.capacity_type.map(|kind| kind.to_string()),
        "instance-type": candidate.instance_type.as_ref().map(InstanceTypeName::as_str),
    })
}

fn replacement_node(launch: &Launch, types: bool) -> Value {
    let capacity = launch.cheapest.as_ref().map(|offering| offering.capacity_type.to_string());
    let mut shown = json!({"capacity-type": capacity});
    if types {
        let names: Vec<&str> = launch.instance_types.iter().map(InstanceTypeName::as_str).collect();
        let first = names.iter().take(TYPES_SHOWN).copied().collect::<Vec<_>>().join(", ");
        shown["instance-types"] = match names.len().saturating_sub(TYPES_SHOWN) {
            0 => first.into(),
            others => format!("{first} and {others} other(s)").into(),
        };
    }
    shown
}

/// A command was started: its candidates are marked and its replacements exist.
pub(super) fn decided(context: &Context, command: &Command) {
    let metrics = &context.metrics.disruption;
    let [decision, reason, kind] = &labels(command);
    metrics.decisions_total.inc([decision, reason, kind]);
    let pools: BTreeSet<_> = command.candidates.iter().map(|candidate| &candidate.pool).collect();
    for pool in pools {
        metrics.decisions_by_nodepool_total.inc([pool.as_str(), decision, reason, kind]);
    }
}

/// A command was given up after it had started.
pub(super) fn rolled_back(context: &Context, id: &CommandId, running: &Running, failure: &Failure) {
    if failure.is_change_of_mind() {
        tracing::debug!("command-id" = %id, reason = %failure, "command is no longer wanted, taking it back");
        return;
    }
    tracing::error!("command-id" = %id, error = %failure, "failed to disrupt node(s), taking it back");
    if failure.is_late() {
        let [decision, reason, kind] = &labels(running.command());
        let failed = u64::try_from(running.missing_replacements()).unwrap_or(u64::MAX);
        context.metrics.disruption.queue_failures_total.add([decision, reason, kind], failed);
    }
}

fn labels(command: &Command) -> [String; 3] {
    let reason = command.reason.to_string().to_lowercase();
    [command.decision().as_str().to_owned(), reason, command.method.consolidation_type().to_owned()]
}

/// The second look at a command let fewer machines go than had been proposed.
pub(super) fn shrunk(context: &Context, before: &Command, now: &Command) {
    let dropped = before.candidates.len().saturating_sub(now.candidates.len());
    count_invalid(context, before.method, dropped);
}

/// The second look found a reason against a command.
pub(super) fn rejected(context: &Context, command: &Command, rejection: &Rejection) {
    tracing::debug!(
        command = command::short(command),
        reason = %rejection.kind,
        detail = rejection.detail,
        "abandoned a command at its second look"
    );
    // The reference does not count this one.
    if rejection.kind != RejectionKind::Scheduling {
        count_invalid(context, command.method, command.candidates.len());
    }
    if command.reason != DisruptionReason::Underutilized {
        return;
    }
    for candidate in &command.candidates {
        let message = format!(
            "{} rejected, {}: {}",
            command::part(command, candidate),
            rejection.kind,
            rejection.detail
        );
        publish_machine(context, candidate, reason::CONSOLIDATION_REJECTED, &message, |event| {
            event.distinguished_by(command::short(command)).distinguished_by(rejection.kind.as_str())
        });
    }
}

fn count_invalid(context: &Context, method: Method, machines: usize) {
    let (machines, kind) = (u64::try_from(machines).unwrap_or(u64::MAX), method.consolidation_type());
    // Drift and repair have no type, and no second look in the reference.
    if machines > 0 && !kind.is_empty() {
        context.metrics.disruption.failed_validations_total.add([kind], machines);
    }
}

/// One event on the Node and one on the claim of a machine.
fn publish_machine(
    context: &Context,
    candidate: &Candidate,
    reason: Reason,
    message: &str,
    distinguish: impl Fn(Event) -> Event,
) {
    let target = &candidate.target;
    for about in [About::Node(target.node.clone()), About::Claim(target.claim.clone())] {
        if let Some(object) = context.object(&about) {
            context.recorder.publish(distinguish(Event::new(object, reason, message)));
        }
    }
}
