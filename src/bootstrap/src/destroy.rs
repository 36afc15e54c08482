//! Plans the removal of everything bootstrap made for a cluster, and of nothing else.
//!
//! Only what carries our ownership tag goes. The spot service-linked role belongs to the account and stays.

use karpenter_aws_client::Tags;

use crate::desired::{DISCOVERY_TAG, Desired, OWNER_TAG};
use crate::observe::{Observed, is_ours};
use crate::plan::{Plan, other_versions, target_ids};
use crate::settings::Settings;
use crate::step::Step;

/// Plans the way back from what [`observe_remains`](crate::observe::observe_remains) found. Dependents come before what
/// they depend on, so that a run cut short can be repeated.
pub fn destroy(settings: &Settings, desired: &Desired, observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let ours = |tags| is_ours(tags, &settings.cluster);
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
