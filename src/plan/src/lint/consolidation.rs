//! Consolidation that can never act, although the pool says how it should.

use karpenter_model::{ConsolidationPolicy, DisruptionReason};

use super::budgets::always;
use super::{LintFinding, Linted, PoolRead};

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for read in linted.pools {
        of_pool(linted, read, found);
    }
}

fn of_pool(linted: &Linted<'_>, read: &PoolRead, found: &mut Vec<LintFinding>) {
    let disruption = &read.pool.disruption;
    let Some(after) = disruption.consolidate_after else {
        if written(linted, read, "consolidationPolicy") {
            let problem = "consolidateAfter is Never, so the policy changes nothing".to_owned();
            found.push(read.warning(
                "consolidation-never",
                "spec.disruption.consolidationPolicy",
                problem,
                "set consolidateAfter to a duration, or remove the policy",
            ));
        }
        return;
    };
    if read.pool.replicas.is_some() {
        if written(linted, read, "consolidationPolicy") || written(linted, read, "consolidateAfter") {
            let problem = "the pool has a fixed number of nodes, which are never consolidated".to_owned();
            found.push(read.warning(
                "consolidation-never",
                "spec.replicas",
                problem,
                "remove replicas, or what is said about consolidation",
            ));
        }
        return;
    }
    if let Some(expires) = read.pool.template.expire_after.filter(|expires| *expires <= after) {
        let problem = format!(
            "nodes expire after {} and are consolidated only after {} without changes, so they never are",
            shown(expires),
            shown(after)
        );
        found.push(read.warning(
            "consolidation-never",
            "spec.disruption.consolidateAfter",
            problem,
            "shorten consolidateAfter, or lengthen expireAfter",
        ));
    }
    let wanted: &[DisruptionReason] = match disruption.policy {
        ConsolidationPolicy::WhenEmpty => &[DisruptionReason::Empty],
        ConsolidationPolicy::WhenEmptyOrUnderutilized | ConsolidationPolicy::Balanced => {
            &[DisruptionReason::Empty, DisruptionReason::Underutilized]
        }
    };
    let shut = |reason: &DisruptionReason| {
        disruption
            .budgets
            .iter()
            .any(|budget| budget.nodes.allows_none() && budget.is_for(*reason) && always(linted, budget))
    };
    if wanted.iter().all(shut) {
        let problem = "budgets never let a node go for what the consolidation policy looks for".to_owned();
        found.push(read.warning(
            "consolidation-never",
            "spec.disruption.budgets",
            problem,
            "open a budget, or set consolidateAfter to Never",
        ));
    }
}

/// Returns whether the field is in the manifest, rather than a default.
fn written(linted: &Linted<'_>, read: &PoolRead, field: &str) -> bool {
    let name = read.pool.name.as_str();
    let mut pools = linted.objects.of_kind("NodePool");
    pools.any(|(key, object)| key.name == name && object["spec"]["disruption"].get(field).is_some())
}

fn shown(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds % 3600, seconds % 60) {
        (0, _) => format!("{}h", seconds / 3600),
        (_, 0) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}
