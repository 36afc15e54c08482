//! Plans the removal of everything bootstrap made for a cluster, and of nothing else.
//!
//! Removed are things with our ownership tag, and launch templates and instance profiles that the controller left behind.
//! The spot service-linked role belongs to the account and stays.
//!
//! Invariant: while machines run, or the cluster's controller may still use its instance profiles, nothing is removed unless
//! that is asked for: without role and access entry the controller could not end the machines any more.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::Tags;

use crate::desired::{DISCOVERY_TAG, Desired, OWNER_TAG};
use crate::leftovers::{Leftovers, profile_path};
use crate::observe::{Observed, is_ours};
use crate::plan::{Plan, other_versions, target_ids};
use crate::resource_owner::ResourceOwner;
use crate::settings::Settings;
use crate::step::Step;

/// Number of names that a message lists.
const LISTED: usize = 5;

/// Treatment by `destroy` of things that are still in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// It refuses.
    Refuse,
    /// It continues: machines are left to the operator.
    Ignore,
}

/// Plans the way back from what [`observe_remains`](crate::observe::observe_remains) found. Dependents come before what
/// they depend on, so that a run cut short can be repeated.
pub fn destroy(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    leftovers: &Leftovers,
    in_use: InUse,
) -> Plan {
    let mut plan = remains(settings, observed, leftovers, in_use);
    plan.conflicts.extend(foreign_profiles(settings, desired, observed, leftovers));
    plan.notes.extend(of_other_regions(settings, observed));
    let ours = |tags| is_ours(tags, settings);
    let mut step = |step| plan.steps.push(step);

    if let Some(association) = observed.pod_identity.as_ref().filter(|association| ours(&association.tags)) {
        step(Step::DeletePodIdentity { id: association.id.clone() });
    }
    for entry in observed.access_entries.values().filter(|entry| ours(&entry.tags)) {
        step(Step::DeleteAccessEntry { principal: entry.principal.to_string() });
    }
    for (name, rule) in observed.rules.iter().filter(|(_, rule)| ours(&rule.tags)) {
        step(Step::DeleteRule { rule: name.clone(), targets: target_ids(rule) });
    }
    if let Some(queue) = observed.queue.as_ref().filter(|queue| ours(&queue.tags)) {
        step(Step::DeleteQueue { name: desired.queue.name.clone(), url: queue.url.clone() });
    }
    if let Some(profile) = observed.instance_profile.as_ref().filter(|profile| ours(&profile.tags)) {
        step(Step::DeleteInstanceProfile { profile: profile.name.clone(), role: profile.role.clone() });
    }
    for (name, role) in observed.roles.iter().filter(|(_, role)| ours(&role.role.tags)) {
        for policy in &role.attached {
            step(Step::DetachPolicy { role: name.clone(), policy: policy.clone() });
        }
        // Policies that others added to it go with the role: IAM deletes no role that has any.
        for policy in role.own.keys() {
            step(Step::DeleteOwnPolicy { role: name.clone(), policy: policy.clone() });
        }
        step(Step::DeleteRole { role: name.clone() });
    }
    for (arn, policy) in observed.policies.iter().filter(|(_, policy)| ours(&policy.tags)) {
        step(Step::DeletePolicy { policy: arn.clone(), versions: other_versions(policy) });
    }
    // A discovery tag that names another cluster by now is that cluster's.
    let keys = |tags: &Tags| {
        let discovery = tags.get(DISCOVERY_TAG).filter(|value| **value == settings.cluster);
        discovery.map(|_| DISCOVERY_TAG).into_iter().chain([OWNER_TAG]).map(str::to_owned).collect()
    };
    for subnet in observed.subnets.iter().filter(|subnet| ours(&subnet.tags)) {
        step(Step::UntagResource { kind: "subnet", id: subnet.id.to_string(), keys: keys(&subnet.tags) });
    }
    for group in observed.security_groups.iter().filter(|group| ours(&group.tags)) {
        step(Step::UntagResource {
            kind: "security group",
            id: group.id.to_string(),
            keys: keys(&group.tags),
        });
    }
    plan
}

/// Plans the end of what the controller left behind, and returns what is still in use: as conflicts, or as notes when that
/// is to be ignored.
pub(crate) fn remains(
    settings: &Settings,
    observed: &Observed,
    leftovers: &Leftovers,
    in_use: InUse,
) -> Plan {
    let mut plan = Plan::default();
    let machines: Vec<&str> = leftovers.machines.iter().map(|machine| machine.id.as_str()).collect();
    if !machines.is_empty() {
        let what = format!("{} machine(s) of the cluster run ({})", machines.len(), listed(&machines));
        match in_use {
            InUse::Refuse => plan.conflicts.push(format!(
                "{what}, and without its role the controller cannot end them: delete the NodePools first (--drain does \
                 it and waits), or pass --force and end them yourself"
            )),
            InUse::Ignore => plan.notes.push(format!(
                "{what} and go on running: aws ec2 terminate-instances --instance-ids {}",
                machines.join(" ")
            )),
        }
    }
    let profiles: Vec<&str> = leftovers.profiles.iter().map(|profile| profile.name.as_str()).collect();
    // Without the cluster there is no controller either that could still use or delete them.
    if !profiles.is_empty() && in_use == InUse::Refuse && observed.cluster.is_some() {
        plan.conflicts.push(format!(
            "{} instance profile(s) of EC2NodeClasses are left under {} ({}): delete the EC2NodeClasses while the \
             controller runs (--drain does it and waits), or pass --force to delete the profiles here",
            profiles.len(),
            profile_path(settings),
            listed(&profiles)
        ));
    }
    let templates = leftovers.templates.iter();
    plan.steps.extend(templates.map(|one| Step::DeleteLaunchTemplate { name: one.name.clone() }));
    let profiles = leftovers.profiles.iter();
    plan.steps.extend(
        profiles.map(|one| Step::DeleteInstanceProfile { profile: one.name.clone(), role: one.role.clone() }),
    );
    plan
}

/// A role of ours in a profile that others made cannot be deleted, and taking it out would leave their machines without
/// credentials.
fn foreign_profiles(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    leftovers: &Leftovers,
) -> Vec<String> {
    let mut known: BTreeSet<&str> = leftovers.profiles.iter().map(|profile| profile.name.as_str()).collect();
    known.insert(&desired.instance_profile.name);
    let mut found = Vec::new();
    for (name, role) in observed.roles.iter().filter(|(_, role)| is_ours(&role.role.tags, settings)) {
        let profiles = role.profiles.iter().map(String::as_str);
        let foreign: Vec<&str> = profiles.filter(|profile| !known.contains(profile)).collect();
        if !foreign.is_empty() {
            found.push(format!(
                "role `{name}` is in instance profiles that others made ({}): take it out of them, or delete them",
                listed(&foreign)
            ));
        }
    }
    found
}

/// Describes the objects of IAM under our names that belong to clusters of the same name elsewhere: not ours to delete.
fn of_other_regions(settings: &Settings, observed: &Observed) -> Vec<String> {
    let roles = observed.roles.iter().map(|(name, role)| (format!("role `{name}`"), &role.role.tags));
    let policies = observed.policies.values().map(|found| (format!("policy `{}`", found.name), &found.tags));
    let profile = observed.instance_profile.iter();
    let profile = profile.map(|found| (format!("instance profile `{}`", found.name), &found.tags));
    let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (what, tags) in roles.chain(policies).chain(profile) {
        if let ResourceOwner::OtherRegion { region, .. } = ResourceOwner::of(tags, settings) {
            left.entry(region).or_default().push(what);
        }
    }
    let note = |(region, things): (String, Vec<String>)| {
        let cluster = &settings.cluster;
        format!(
            "{} are of cluster `{cluster}` in {region} and are left: `--region {region}` is the way to destroy that one",
            things.join(", ")
        )
    };
    left.into_iter().map(note).collect()
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > LISTED { format!("{shown}, ...") } else { shown }
}
