//! Budgets of pods that let none go, however healthy all are: no node with such a pod is ever drained.

use karpenter_api::convert;
use serde_json::Value;

use super::kinds::name;
use super::{LintFinding, LintSeverity, Linted};
use crate::objects::{BUDGET, ObjectKey};
use crate::workloads::{WORKLOADS, is_owned, labels_of};

/// Replicas of a workload that leaves their number to an autoscaler. It may be any; with many, every share allows one pod.
const MANY: u64 = 1_000;

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    for (key, budget) in linted.objects.of_kind(BUDGET) {
        if let Some(wanted) = never_opens(linted, key, budget) {
            let written =
                ["maxUnavailable", "minAvailable"].into_iter().find(|field| !budget["spec"][field].is_null());
            let all = if wanted == 1 { "the pod".to_owned() } else { format!("all {wanted} pods") };
            let problem = format!(
                "{all} that it covers must stay available, so no node that has one is ever drained or consolidated"
            );
            found.push(LintFinding {
                object: name(budget),
                field: format!("spec.{}", written.unwrap_or_default()),
                rule: "pod-budget-never",
                severity: LintSeverity::Warning,
                problem,
                remedy: "allow one pod to be unavailable, or run more replicas".to_owned(),
                origin: None,
            });
        }
    }
    for kind in WORKLOADS {
        for (key, workload) in linted.objects.of_kind(kind) {
            let mut covering = linted
                .objects
                .of_kind(BUDGET)
                .filter(|(budget, object)| covers(budget, object, key, workload));
            // Each further budget is one too many.
            let Some((first, _)) = covering.next() else { continue };
            for (_, budget) in covering {
                let problem = format!(
                    "PodDisruptionBudget `{}` covers the pods of {kind} `{}` as well, and no pod of two budgets can be \
                     evicted, so no node that has one is ever drained",
                    first.name, key.name
                );
                found.push(LintFinding {
                    object: name(budget),
                    field: "spec.selector".to_owned(),
                    rule: "pod-budgets-overlap",
                    severity: LintSeverity::Warning,
                    problem,
                    remedy: "remove one of them, or narrow its selector".to_owned(),
                    origin: None,
                });
            }
        }
    }
}

/// Returns the number of pods that a budget is for if it allows none of them to go while all are healthy.
fn never_opens(linted: &Linted<'_>, key: &ObjectKey, budget: &Value) -> Option<i64> {
    let covered = WORKLOADS.into_iter().flat_map(|kind| linted.objects.of_kind(kind));
    let covered = covered.filter(|(workload, object)| covers(key, budget, workload, object));
    let pods = covered.flat_map(|(workload, object)| {
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(MANY);
        let wanted = i64::try_from(replicas).unwrap_or(i64::MAX);
        (0..replicas).map(move |_| (true, Some((workload, wanted))))
    });
    let allowed = convert::allowance(budget, pods);
    (allowed.expected > 0 && allowed.disruptions == 0).then_some(allowed.expected)
}

/// Returns whether `budget` selects the pods that `workload` makes.
fn covers(budget: &ObjectKey, written: &Value, workload: &ObjectKey, object: &Value) -> bool {
    let selector = written["spec"].get("selector").cloned();
    let selector = convert::selector(selector.and_then(|one| serde_json::from_value(one).ok()).as_ref());
    let template = &object["spec"]["template"];
    budget.namespace == workload.namespace
        && !is_owned(object)
        && selector.is_some_and(|selector| selector.matches(&labels_of(template)))
}
