//! Deployments, and how their pods stand: what a rollout costs, what a soft spread amounts to
//! (spec aws-operations 7.2).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::names;

use super::pods::on_managed_nodes;
use super::{name, object, selects};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Unseen, label};

/// Number of pods in each zone.
type ByZone<'a> = BTreeMap<&'a str, i32>;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "D-40",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "a rollout brings a node that goes away again",
        cause: "the pods of a Deployment never share a node, so each pod of its surge needs one more",
        fix: "accept it, or with `kubectl edit deployment <name>` set maxSurge=0 with maxUnavailable, or spread over nodes instead of forbidding to share one",
        look: Look::At(surging),
    },
    Check {
        id: "D-41",
        also: &[],
        severity: Severity::Advice,
        scope: Scope::Cluster,
        symptom: "replicas do not spread over zones",
        cause: "the constraint is ScheduleAnyway, or counts only zones that have nodes because minDomains is missing",
        fix: "use DoNotSchedule with minDomains: `kubectl edit deployment <name>`",
        look: Look::At(lopsided),
    },
];

/// Pods of the Deployment never share a node.
fn stands_alone(deployment: &Deployment) -> bool {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let labels = template
        .and_then(|template| template.metadata.as_ref())
        .and_then(|metadata| metadata.labels.as_ref());
    let affinity = template.and_then(|template| template.spec.as_ref()?.affinity.as_ref());
    let against = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = against
        .and_then(|against| against.required_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten();
    terms.into_iter().any(|term| {
        term.topology_key == names::label::HOSTNAME && selects(term.label_selector.as_ref(), labels)
    })
}

/// Pods beyond the replicas during a rollout, as the Deployment controller rounds: up, a quarter by default.
fn surge(deployment: &Deployment) -> i32 {
    let Some(spec) = &deployment.spec else { return 0 };
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return 0;
    }
    let replicas = spec.replicas.unwrap_or(1);
    let share = |percent: i32| replicas.saturating_mul(percent).saturating_add(99) / 100;
    match strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.max_surge.as_ref()) {
        Some(IntOrString::Int(pods)) => *pods,
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse().map_or(0, share),
        None => share(25),
    }
}

fn surging(facts: &Facts) -> Outcome {
    let pods = on_managed_nodes(facts)?;
    let deployments = facts.cluster.deployments.get()?.iter();
    let ours = deployments.filter(|deployment| {
        let selector = deployment.spec.as_ref().map(|spec| &spec.selector);
        pods.iter().any(|pod| {
            pod.metadata.namespace == deployment.metadata.namespace
                && selects(selector, pod.metadata.labels.as_ref())
        })
    });
    Ok(ours
        .filter(|deployment| stands_alone(deployment) && surge(deployment) > 0)
        .map(|deployment| {
            let seen = format!("every rollout needs {} more nodes for a while", surge(deployment));
            Evidence::new(object("Deployment", &deployment.metadata), seen)
        })
        .collect())
}

/// A spread over zones that does not force the scheduler to use all of them.
fn soft_spread(pod: &Pod) -> Option<&TopologySpreadConstraint> {
    let constraints = pod.spec.as_ref()?.topology_spread_constraints.as_ref()?;
    constraints.iter().find(|constraint| {
        constraint.topology_key == names::label::ZONE
            && (constraint.when_unsatisfiable == "ScheduleAnyway" || constraint.min_domains.is_none())
    })
}

/// Zones in which there are nodes or could be.
fn zones(facts: &Facts) -> Result<BTreeSet<&str>, Unseen> {
    let nodes = facts.cluster.nodes.get()?.iter();
    let of_nodes = nodes.filter_map(|node| label(node.metadata.labels.as_ref(), names::label::ZONE));
    let subnets = facts.account.subnets.get()?.iter().map(|subnet| subnet.zone.as_str());
    Ok(of_nodes.chain(subnets).collect())
}

fn lopsided(facts: &Facts) -> Outcome {
    let zones = zones(facts)?;
    let nodes = facts.cluster.nodes.get()?;
    let zone_of = |pod: &Pod| {
        let node = pod.spec.as_ref()?.node_name.as_deref()?;
        let node = nodes.iter().find(|found| name(&found.metadata) == node)?;
        label(node.metadata.labels.as_ref(), names::label::ZONE)
    };
    // One group for each owner: the replicas of one workload.
    let mut groups: BTreeMap<(&str, &str, &str), (i32, ByZone<'_>)> = BTreeMap::new();
    for pod in on_managed_nodes(facts)? {
        let owner = pod.metadata.owner_references.as_ref().and_then(|owners| owners.first());
        let (Some(owner), Some(spread), Some(zone)) = (owner, soft_spread(pod), zone_of(pod)) else {
            continue;
        };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let (_, counts) = groups
            .entry((namespace, &owner.kind, &owner.name))
            .or_insert_with(|| (spread.max_skew, BTreeMap::new()));
        *counts.entry(zone).or_default() += 1;
    }
    let uneven = groups.into_iter().filter_map(|((namespace, kind, owner), (skew, counts))| {
        let count = |zone: &&str| counts.get(*zone).copied().unwrap_or(0);
        let (least, most) = (zones.iter().map(count).min()?, zones.iter().map(count).max()?);
        let words: Vec<String> = zones.iter().map(|zone| format!("{} in {zone}", count(zone))).collect();
        (most - least > skew).then(|| Evidence::new(format!("{kind} {namespace}/{owner}"), words.join(", ")))
    });
    Ok(uneven.collect())
}
