//! A repair follows the policy that counts, and spares what must not be repaired (spec disruption 4.2).

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::names::annotation;
use karpenter_model::repair::{NEVER, Repair, RepairAction, RepairPolicy};
use karpenter_model::{ConditionStatus, ConditionType, Method, Node, NodeCondition, Plan, PoolName};

use super::{keeps_pod, refused};
use crate::finding::{Finding, Rule};
use crate::rules::commands::subject;
use crate::world::World;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    let mut before = 0;
    for command in &plan.commands {
        let mut find = |detail: String| findings.push(Finding::new(Rule::Removal, subject(command), detail));
        if command.method != Method::Repair {
            if command.repair.is_some() {
                find("says what is broken although it is no repair".to_owned());
            }
            continue;
        }
        before += 1;
        if before > 1 {
            find("is not the only repair of the plan".to_owned());
        }
        for id in command.nodes() {
            let Some(node) = world.machine(id) else { continue };
            for detail in objections(world, node, command.repair.as_ref()) {
                find(format!("node {id} {detail}"));
            }
        }
    }
}

/// Returns the errors in the repair of `node` as the command states it.
fn objections(world: &World<'_>, node: &Node, stated: Option<&Repair>) -> Vec<String> {
    let mut wrong = Vec::new();
    let expected = expected(node, &world.snapshot.repair, world.snapshot.now);
    match (&expected, stated) {
        (None, _) => wrong.push("is not broken for long enough".to_owned()),
        (Some(_), None) => wrong.push("is repaired for no stated condition".to_owned()),
        // A node that reboots have not repaired is replaced; how often it was rebooted is not in the snapshot.
        (Some(expected), Some(stated))
            if stated.action == RepairAction::Replace
                && *stated == (Repair { action: RepairAction::Replace, ..expected.clone() }) => {}
        (Some(expected), Some(stated)) if expected != stated => {
            wrong.push(format!("is to be repaired for {expected:?}, not {stated:?}"));
        }
        (Some(_), Some(_)) => {}
    }
    let said = |text: Option<&String>| text.is_some_and(|text| text == "true");
    let on_claim = node.claim.as_ref().and_then(|claim| claim.annotations.get(annotation::DO_NOT_REPAIR));
    if said(node.annotations.get(annotation::DO_NOT_REPAIR)) || said(on_claim) {
        wrong.push("says not to repair it".to_owned());
    }
    let endless = expected.is_some_and(|repair| repair.drain.is_none());
    if endless && node.pods.iter().any(|pod| keeps_pod(world, pod) || refused(world, pod)) {
        wrong.push("has a pod that would never leave".to_owned());
    }
    if let Some(pool) = node.pool().filter(|pool| is_mostly_broken(world, pool)) {
        wrong.push(format!("is of pool {pool}, of which too much is broken"));
    }
    wrong
}

/// Returns whether more than a fifth of the Nodes of `pool`, rounded up, show a condition of a policy.
fn is_mostly_broken(world: &World<'_>, pool: &PoolName) -> bool {
    let own: Vec<&Node> = world
        .snapshot
        .nodes
        .iter()
        .map(AsRef::as_ref)
        .filter(|node| node.name.is_some() && node.pool().as_ref() == Some(pool))
        .collect();
    let broken = own.iter().filter(|node| !rows(node, &world.snapshot.repair).is_empty()).count();
    // Rounding up: `broken` exceeds the share once what is one less does not fit into it.
    broken > 0 && (broken - 1) * 5 >= own.len()
}

/// Returns the repair that the command for `node` has to state at `now`.
fn expected(node: &Node, policies: &[RepairPolicy], now: Timestamp) -> Option<Repair> {
    let last = node.claim.as_ref().and_then(|claim| claim.conditions.get(&ConditionType::Rebooting));
    let over = last.filter(|last| last.status == ConditionStatus::False).map(|last| last.last_transition);
    let rebooted = over.unwrap_or(Timestamp::MIN);
    let mut due: Vec<(&RepairPolicy, &NodeCondition, Timestamp)> = rows(node, policies)
        .into_iter()
        .filter_map(|(policy, condition)| {
            let from = std::cmp::max(node.created_at, condition.last_transition).max(rebooted);
            let at = from.checked_add(policy.toleration).ok()?;
            (at <= now).then_some((policy, condition, at))
        })
        .collect();
    due.sort_by_key(|(policy, _, at)| {
        let reboots = policy.action == RepairAction::Reboot;
        (reboots, 100_u8.saturating_sub(policy.priority), *at, policy.condition.clone())
    });
    let graces = due.iter().filter_map(|(policy, _, _)| policy.termination_grace);
    let claim = node.claim.as_ref().and_then(|claim| claim.termination_grace_period);
    let drain: Option<Duration> = graces.chain(claim).min();
    let (policy, condition, eligible_at) = *due.first()?;
    Some(Repair {
        condition: policy.condition.clone(),
        status: policy.status,
        reason: condition.reason.clone(),
        pattern: policy.reason.as_ref().map(|pattern| pattern.as_str().to_owned()),
        action: policy.action,
        eligible_at,
        drain,
    })
}

/// Policies for what `node` shows, condition by condition: those that list its reason, or else the one for all others.
fn rows<'w>(node: &'w Node, policies: &'w [RepairPolicy]) -> Vec<(&'w RepairPolicy, &'w NodeCondition)> {
    let mut rows = Vec::new();
    for (kind, condition) in node.conditions.iter() {
        let group = policies.iter().filter(|policy| is_about(policy, kind, condition.status));
        let (listing, others): (Vec<_>, Vec<_>) = group.partition(|policy| policy.reason.is_some());
        let hits: Vec<_> = listing
            .into_iter()
            .filter(|policy| policy.reason.iter().any(|pattern| pattern.is_in(&condition.reason)))
            .collect();
        let counting = if hits.is_empty() { others } else { hits };
        let counting = counting.into_iter().filter(|policy| policy.toleration < NEVER);
        rows.extend(counting.map(|policy| (policy, condition)));
    }
    rows
}

fn is_about(policy: &RepairPolicy, kind: &str, status: ConditionStatus) -> bool {
    policy.condition == kind && policy.status == status
}
