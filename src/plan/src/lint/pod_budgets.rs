//! Budgets of pods that let none go, however healthy all are: no node with such a pod is ever drained.

use std::collections::BTreeMap;

use karpenter_api::convert;
use serde_json::Value;

use super::kinds::name;
use super::{LintFinding, LintSeverity, Linted};
use crate::objects::{BUDGET, ObjectKey};
use crate::workloads::{WORKLOADS, is_owned, labels_of};

/// Replicas of a workload that leaves their number to an autoscaler. It may be any; with many, every share allows one pod.
const MANY: u64 = 1_000;

pub(super) fn check(linted: &Linted<'_>, found: &mut Vec<LintFinding>) {
    let mut first_of: BTreeMap<&ObjectKey, &ObjectKey> = BTreeMap::new();
    for (key, budget) in linted.objects.of_kind(BUDGET) {
        let workloads = covered(linted, key, budget);
        if let Some(wanted) = never_opens(budget, &workloads) {
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
        for (workload, _) in workloads {
            let first = *first_of.entry(workload).or_insert(key);
            if first == key {
                continue;
            }
            // Each further budget is one too many.
            let problem = format!(
                "PodDisruptionBudget `{}` covers the pods of {} `{}` as well, and no pod of two budgets can be evicted, so no \
                 node that has one is ever drained",
                first.name, workload.kind, workload.name
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

/// Returns the workloads whose pods `budget` selects.
fn covered<'a>(linted: &Linted<'a>, key: &ObjectKey, budget: &Value) -> Vec<(&'a ObjectKey, &'a Value)> {
    let selector = budget["spec"].get("selector").cloned();
    let selector = convert::selector(selector.and_then(|one| serde_json::from_value(one).ok()).as_ref());
    let Some(selector) = selector else { return Vec::new() };
    let objects = linted.objects;
    let workloads = WORKLOADS.into_iter().flat_map(|kind| objects.of_kind(kind));
    let is_covered = |(workload, object): &(&ObjectKey, &Value)| {
        workload.namespace == key.namespace
            && !is_owned(object)
            && selector.matches(&labels_of(&object["spec"]["template"]))
    };
    workloads.filter(is_covered).collect()
}

/// Returns the number of pods that a budget is for if it allows none of them to go while all are healthy.
fn never_opens(budget: &Value, workloads: &[(&ObjectKey, &Value)]) -> Option<i64> {
    let pods = workloads.iter().flat_map(|(workload, object)| {
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or(MANY);
        let wanted = i64::try_from(replicas).unwrap_or(i64::MAX);
        (0..replicas).map(move |_| (true, Some((*workload, wanted))))
    });
    let allowed = convert::allowance(budget, pods);
    (allowed.expected > 0 && allowed.disruptions == 0).then_some(allowed.expected)
}
