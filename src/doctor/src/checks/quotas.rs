//! Limits of the account, and how close it is to them (spec aws-operations 1.14).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use karpenter_model::names;

use super::pools::{Launched, launched};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity, aws};
use crate::facts::{Facts, label};

/// vCPUs below which a quota is that of an account that is not used yet: three nodes of four.
const FEW_VCPUS: u64 = 12;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-3",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "a policy cannot be attached: LimitExceeded",
        cause: "a role may have ten managed policies unless its quota is raised",
        fix: "merge policies (`aws iam list-attached-role-policies --role-name <role>`), or raise the quota: `aws service-quotas request-service-quota-increase --region us-east-1 --service-code iam --quota-code L-0DA4ABF3 --desired-value 20`",
        look: Look::At(many_policies),
    },
    Check {
        id: "P-21",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "InstanceProfileReady is False",
        cause: "the account is close to its quota of instance profiles",
        fix: "delete unused ones (`aws iam list-instance-profiles`), or raise the quota `Instance profiles`: `aws service-quotas list-service-quotas --region us-east-1 --service-code iam` has its code",
        look: Look::At(many_profiles),
    },
    Check {
        id: "P-22",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "launches fail although there is capacity",
        cause: "a quota of the account is used up",
        fix: "raise the quota: `aws service-quotas request-service-quota-increase --service-code ec2 --quota-code <code> --desired-value <vCPUs>`, where the code of on-demand instances is L-1216C47A and that of spot instances L-34B43A08",
        look: Look::Either(
            few_vcpus,
            &[
                aws(&["vcpulimitexceeded"]),
                aws(&["maxspotinstancecountexceeded"]),
                aws(&["fleetquotaexceeded"]),
                aws(&["maxfleetcountexceeded"]),
            ],
        ),
    },
];

fn many_policies(facts: &Facts) -> Outcome {
    let most =
        facts.account.identity_limits.get()?.get("AttachedPoliciesPerRoleQuota").copied().unwrap_or(10);
    let roles = facts.account.roles.get()?;
    let found = roles.iter().filter_map(|(name, role)| Some((name, role.as_ref()?.policies)));
    Ok(found
        .filter(|(_, policies)| u64::try_from(*policies).is_ok_and(|policies| policies >= most))
        .map(|(name, policies)| {
            Evidence::new(
                format!("role {name}"),
                format!("has {policies} managed policies of at most {most}"),
            )
        })
        .collect())
}

fn many_profiles(facts: &Facts) -> Outcome {
    let limits = facts.account.identity_limits.get()?;
    let (Some(count), Some(most)) = (limits.get("InstanceProfiles"), limits.get("InstanceProfilesQuota"))
    else {
        return Ok(Vec::new());
    };
    Ok(is_close(*count, *most)
        .then(|| Evidence::new("account", format!("has {count} instance profiles of at most {most}")))
        .into_iter()
        .collect())
}

/// Nine tenths.
fn is_close(used: u64, most: u64) -> bool {
    used.saturating_mul(10) >= most.saturating_mul(9)
}

fn few_vcpus(facts: &Facts) -> Outcome {
    let quotas = facts.account.vcpu_quotas.get()?;
    let used = match facts.cluster.nodes.if_asked()? {
        Some(_) => vcpus(&facts.cluster.nodes_of_pools()?),
        None => BTreeMap::new(),
    };
    let mut found = Vec::new();
    for (capacity, most) in quotas {
        let used = used.get(capacity.as_str()).copied().unwrap_or(0);
        let seen = if *most < FEW_VCPUS {
            format!("is {most} vCPUs of standard instances")
        } else if is_close(used, *most) {
            format!("is {most} vCPUs, of which this cluster's nodes have {used}")
        } else {
            continue;
        };
        let evidence = Evidence::new(format!("quota of {capacity} instances"), seen);
        match launched(facts, capacity) {
            Launched::Yes => found.push(evidence),
            Launched::NotYet => found.push(evidence.advice_only()),
            Launched::No => {}
        }
    }
    Ok(found)
}

/// Returns whether instances of this type count against the quotas of standard ones: families A, C, D, H, I, M, R, T and Z. A
/// family is letters up to the number of its generation, and the first letter of some others is one of these.
fn is_standard(instance_type: &str) -> bool {
    const OTHERS: [&str; 4] = ["dl", "hpc", "inf", "trn"];
    let end = instance_type.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(instance_type.len());
    let family = &instance_type[..end];
    family.starts_with(['a', 'c', 'd', 'h', 'i', 'm', 'r', 't', 'z']) && !OTHERS.contains(&family)
}

/// vCPUs of standard nodes by capacity type. Nodes say whole numbers.
fn vcpus(nodes: &[&Node]) -> BTreeMap<String, u64> {
    let mut used = BTreeMap::new();
    let is_counted = |node: &&&Node| {
        // A node that does not say what it is may be of any type.
        label(node.metadata.labels.as_ref(), names::label::INSTANCE_TYPE).is_none_or(is_standard)
    };
    for node in nodes.iter().filter(is_counted) {
        let capacity = node.status.as_ref().and_then(|status| status.capacity.as_ref());
        let cpu = capacity.and_then(|capacity| capacity.get("cpu")?.0.parse::<u64>().ok()).unwrap_or(0);
        let kind = label(node.metadata.labels.as_ref(), names::label::CAPACITY_TYPE).unwrap_or("on-demand");
        *used.entry(kind.to_owned()).or_insert(0) += cpu;
    }
    used
}
