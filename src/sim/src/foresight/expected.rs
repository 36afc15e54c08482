//! Holds what was foreseen against what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karpenter_api::{NodeClaim, convert};
use karpenter_aws::registry::label_registry;
use karpenter_model::Resources;
use karpenter_model::names::label;
use karpenter_plan::{Forecast, Launched, Removal};
use serde::Deserialize;
use serde_json::Value;

use super::observed::Observed;

/// Longest time until everything that one pass of the controller starts is started.
const PASS: Duration = Duration::from_secs(3);
/// Claims for waiting pods are created within this time: watches, the batch of pods, and the plan.
const PROVISION: Duration = Duration::from_secs(8);

/// Returns the differences between forecast and observation, in words; empty when there are none.
pub(super) fn differences(forecast: &Forecast, observed: &Observed) -> Vec<String> {
    let mut differences = if pods_come(forecast) {
        let seen = observed.claims.iter().filter(|(at, _)| *at <= PROVISION);
        claims(forecast.launches.iter(), seen.map(|(_, claim)| &**claim))
    } else {
        removals(forecast, observed)
    };
    differences.extend(refusals(forecast, observed));
    differences
}

/// Returns whether pods get places. Then nodes are not compared: a pass that decides about nodes may come before the one that
/// decides about pods, or after it.
pub(super) fn pods_come(forecast: &Forecast) -> bool {
    !forecast.nominated.is_empty() || !forecast.launches.is_empty()
}

fn claims<'a>(
    foreseen: impl Iterator<Item = &'a Launched>,
    seen: impl Iterator<Item = &'a Value>,
) -> Vec<String> {
    let (foreseen, seen) = (counted(foreseen.map(of_launch)), counted(seen.map(of_claim)));
    if foreseen == seen {
        return Vec::new();
    }
    vec![format!("claims {foreseen:#?} were to be created first, {seen:#?} were")]
}

/// Nodes that go at once, nodes that go after the second look, and what takes their place.
fn removals(forecast: &Forecast, observed: &Observed) -> Vec<String> {
    let (at_once, later): (Vec<&Removal>, Vec<&Removal>) =
        forecast.removals.iter().partition(|removal| removal.not_before <= forecast.at);
    // Static pools give nodes up as soon as their number changes, whatever else goes on.
    let surplus: BTreeSet<&str> = forecast.surplus.iter().map(|node| node.name.as_str()).collect();
    let all = observed.leaving.iter().map(|(node, at)| (node.as_str(), *at));
    let (given_up, leaving): (BTreeMap<&str, Duration>, BTreeMap<&str, Duration>) =
        all.partition(|(node, _)| surplus.contains(node));
    let mut differences = Vec::new();
    if given_up.len() < surplus.len() {
        differences.push(format!("nodes {surplus:?} were to be given up, {given_up:?} were"));
    }
    let first = leaving.values().min().copied();
    let waits = later.first().map_or(Duration::ZERO, |removal| {
        Duration::try_from(forecast.at.duration_until(removal.not_before)).unwrap_or_default()
    });
    // The second of two waves comes its waiting time after the first; a single wave begins with the first that go.
    let after = if at_once.is_empty() { Duration::ZERO } else { waits };
    let (mut foreseen_claims, mut seen_claims) = (Vec::new(), Vec::new());
    for (removals, after) in [(at_once, Duration::ZERO), (later, after)] {
        let nodes = removals.iter().flat_map(|removal| &removal.nodes).map(|node| node.name.as_str());
        let foreseen: BTreeSet<&str> = nodes.collect();
        if foreseen.is_empty() {
            continue;
        }
        let begins = first.map_or(Duration::MAX, |first| first + after);
        let within = |at: Duration| at >= begins && at <= begins.saturating_add(PASS);
        let seen: BTreeSet<&str> =
            leaving.iter().filter(|(_, at)| within(**at)).map(|(node, _)| *node).collect();
        if foreseen != seen {
            differences.push(format!("nodes {foreseen:?} were to go, of {leaving:?} {seen:?} did"));
        }
        foreseen_claims.extend(removals.iter().flat_map(|removal| &removal.replacements));
        seen_claims.extend(observed.claims.iter().filter(|(at, _)| within(*at)).map(|(_, claim)| &**claim));
    }
    if forecast.removals.is_empty() {
        if !leaving.is_empty() {
            differences.push(format!("no node was to go, {leaving:?} did"));
        }
        seen_claims.extend(observed.claims.iter().map(|(_, claim)| &**claim));
    }
    differences.extend(claims(foreseen_claims.into_iter(), seen_claims.into_iter()));
    differences
}

/// Returns the text that distinguishes one claim from another, except for its name.
fn of_launch(launch: &Launched) -> String {
    // Those of static pools leave the type to the provider.
    let types =
        if launch.instance_types.is_empty() { String::new() } else { launch.instance_types.join(" ") };
    said(launch.pool.as_str(), &launch.requirements, &launch.requests, &types)
}

fn of_claim(claim: &Value) -> String {
    let Ok(claim) = NodeClaim::deserialize(claim) else { return format!("unreadable {claim}") };
    let registry = label_registry();
    let requirements = convert::requirements(&registry, &claim.spec.requirements);
    let written: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    let types = claim.spec.requirements.iter().find(|one| one.key == label::INSTANCE_TYPE);
    let types = types.and_then(|one| one.values.clone()).unwrap_or_default().join(" ");
    let (model, _) = convert::claim_in_part(&claim, &registry);
    let pool = model.pool.as_ref().map(ToString::to_string).unwrap_or_default();
    said(&pool, &written, &model.requests, &types)
}

fn said(pool: &str, requirements: &[String], requests: &Resources, types: &str) -> String {
    format!("{pool}: {} | {requests} | {types}", requirements.join(", "))
}

fn counted(all: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for one in all {
        *counted.entry(one).or_default() += 1;
    }
    counted
}

/// Pods of planned workloads have other names than those that come, so pods are compared by their workload.
fn refusals(forecast: &Forecast, observed: &Observed) -> Vec<String> {
    let mut differences = Vec::new();
    let workload = |pod: &str| {
        let name = pod.rsplit('/').next().unwrap_or_default();
        name.split('-').next().unwrap_or_default().to_owned()
    };
    let mut foreseen: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for waiting in &forecast.pending {
        let entry = foreseen.entry(workload(&waiting.pod)).or_default();
        entry.0 += 1;
        let first = waiting.reasons.first().map(|why| why.code);
        let closest = waiting.reasons.iter().filter(|why| Some(why.code) == first);
        entry.1.extend(closest.map(|why| why.text.clone()));
    }
    let mut refused: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for (pod, messages) in &observed.refused {
        let entry = refused.entry(workload(pod)).or_default();
        entry.0 += 1;
        entry.1.extend(messages.iter().cloned());
    }
    for (name, (count, reasons)) in &foreseen {
        let Some((seen, messages)) = refused.get(name) else {
            differences.push(format!("{count} pods of {name} were to be refused, none was: {reasons:?}"));
            continue;
        };
        if count != seen {
            differences.push(format!(
                "{count} pods of {name} were to be refused, {seen} were: {reasons:?} {messages:?}"
            ));
        }
        for reason in reasons {
            if !messages.iter().any(|message| message.contains(reason.as_str())) {
                differences
                    .push(format!("pods of {name} were to be refused for `{reason}`, were for {messages:?}"));
            }
        }
    }
    for (name, (count, messages)) in &refused {
        if !foreseen.contains_key(name) {
            differences.push(format!("no pod of {name} was to be refused, {count} were: {messages:?}"));
        }
    }
    differences
}
