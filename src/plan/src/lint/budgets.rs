//! Budgets that never open, always are open, or never are the one that counts.

use karpenter_engine::disrupt::{Opening, opening};
use karpenter_model::{Budget, BudgetNodes, DisruptionReason};

use super::{LintFinding, Linted, PoolRead};

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for read in linted.pools {
        for (index, budget) in read.pool.disruption.budgets.iter().enumerate() {
            one(linted, read, index, budget, found);
        }
    }
}

/// Returns whether the budget is in force at all times.
pub(super) fn always(linted: &Linted<'_>, budget: &Budget) -> bool {
    budget.window.as_ref().is_none_or(|window| opening(window, linted.at) == Opening::Always)
}

fn one(linted: &Linted<'_>, read: &PoolRead, index: usize, budget: &Budget, found: &mut Vec<LintFinding>) {
    let field = format!("spec.disruption.budgets[{index}]");
    if let BudgetNodes::Invalid(text) = &budget.nodes {
        let problem = format!(
            "`{text}` is neither a number nor a percentage, so no node of the pool is ever disrupted"
        );
        found.push(read.error("budget-invalid", &format!("{field}.nodes"), problem, "write 5 or 10%"));
        return;
    }
    if let Some(window) = &budget.window {
        match opening(window, linted.at) {
            Opening::Invalid(why) => {
                let problem = format!("{why}, so no node of the pool is ever disrupted");
                found.push(read.error(
                    "budget-invalid",
                    &format!("{field}.schedule"),
                    problem,
                    "write five fields as of cron, with CRON_TZ=Europe/Berlin or the like before them unless they are in \
                     UTC, or a macro such as @daily",
                ));
                return;
            }
            Opening::Always => {
                let problem = "the window never closes, so the schedule changes nothing".to_owned();
                found.push(read.warning(
                    "budget-always",
                    &format!("{field}.schedule"),
                    problem,
                    "shorten the duration, or remove schedule and duration",
                ));
            }
            Opening::Sometimes => {}
        }
    }
    if budget.reasons.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
        found.push(read.warning(
            "budget-unused",
            &format!("{field}.reasons"),
            "an empty list of reasons is for none, so the budget never counts".to_owned(),
            "name reasons, or remove the list for all of them",
        ));
        return;
    }
    if always(linted, budget) && budget.nodes.allows_none() {
        let for_what = budget.reasons.as_ref().map_or_else(
            || "voluntarily".to_owned(),
            |reasons| {
                let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                format!("for {}", reasons.join(", "))
            },
        );
        let problem =
            format!("no node of the pool is ever disrupted {for_what}: no update and no saving reaches it");
        found.push(read.warning(
            "budget-never",
            &format!("{field}.nodes"),
            problem,
            "give it a schedule and a duration, or allow at least one node",
        ));
    }
    let stricter = read
        .pool
        .disruption
        .budgets
        .iter()
        .enumerate()
        .find(|(other, strict)| *other != index && shadows(linted, strict, budget, *other < index));
    if let Some((other, _)) = stricter {
        let problem = format!("budget {other} is at least as strict at all times, so this one never counts");
        found.push(read.warning("budget-unused", &field, problem, "remove one of them"));
    }
}

/// Returns whether `strict` always leaves `budget` without effect; of two equal ones the first counts.
fn shadows(linted: &Linted<'_>, strict: &Budget, budget: &Budget, first: bool) -> bool {
    let stricter = match (&strict.nodes, &budget.nodes) {
        (BudgetNodes::Count(strict), BudgetNodes::Count(nodes)) => {
            (strict < nodes) || (strict == nodes && first)
        }
        (BudgetNodes::Percent(strict), BudgetNodes::Percent(nodes)) => {
            (strict < nodes) || (strict == nodes && first)
        }
        (strict, _) => strict.allows_none() && (!budget.nodes.allows_none() || first),
    };
    let covers = |reason: DisruptionReason| !budget.is_for(reason) || strict.is_for(reason);
    stricter && always(linted, strict) && DisruptionReason::ALL.into_iter().all(covers)
}
