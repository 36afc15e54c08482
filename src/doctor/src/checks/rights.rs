//! Rights of the controller: those of its role in IAM, which boundaries and organisations limit, passing roles on (spec
//! aws-operations 1.14), and those that a feature needs on top.

use std::collections::{BTreeMap, BTreeSet};

use super::account::class_roles;
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity, aws};
use crate::facts::{Facts, Right};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-4",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "AccessDenied with an explicit deny in a permissions boundary",
        cause: "the boundary of a role does not allow what the controller does",
        fix: "let the boundary allow the actions that `karpenter bootstrap render iam-json --cluster-name <cluster>` prints",
        look: Look::Either(
            bounded,
            &[aws(&["explicit deny in a permissions boundary"]), aws(&["no permissions boundary allows"])],
        ),
    },
    Check {
        id: "P-19",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "launches are denied although the policies allow them",
        cause: "a service control policy of the organisation denies them, for example without IMDSv2, without a tag or outside a region",
        fix: "`aws sts decode-authorization-message --encoded-message <text of the error>` names the policy; adjust metadataOptions, tags or the policy",
        look: Look::Either(
            denied_by_organization,
            &[
                aws(&["explicit deny in a service control policy"]),
                aws(&["no service control policy allows"]),
            ],
        ),
    },
    Check {
        id: "P-20",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "`Unauthorized` or RoleNotFound on launches of one EC2NodeClass",
        cause: "the class names a role that IAM does not know, or that the controller may not pass on",
        fix: "name the role bootstrap made (`kubectl edit ec2nodeclass <class>`), or let the controller pass another one on: `karpenter bootstrap apply --cluster-name <cluster> --extra-node-role <ARN>`",
        look: Look::At(unusable_role),
    },
    Check {
        id: "D-47",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "a feature is switched on and does nothing, or fails again and again",
        cause: "its gate is open, and the controller lacks a right that only the feature needs",
        fix: "of Kubernetes: `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values` grants what the values ask for; of AWS: `karpenter bootstrap apply --cluster-name <cluster>`; or close the gate",
        look: Look::At(gate_without_right),
    },
];

/// A right in Kubernetes that is needed where a feature is on: API group, resource and verb.
type Needed = (&'static str, &'static str, &'static str);

/// Feature gates of the core, each with what only it needs.
const GATES: &[(&str, &[Needed])] = &[
    (
        "NodeOverlay",
        &[("karpenter.sh", "nodeoverlays", "watch"), ("karpenter.sh", "nodeoverlays/status", "patch")],
    ),
    (
        "CapacityBuffer",
        &[
            ("autoscaling.x-k8s.io", "capacitybuffers", "watch"),
            ("autoscaling.x-k8s.io", "capacitybuffers/status", "patch"),
            ("", "podtemplates", "watch"),
        ],
    ),
    ("PodDeletionCostManagement", &[("", "pods", "patch")]),
];

/// Rights for the default spread, which is on where it has a configuration.
const DEFAULT_SPREAD: &[Needed] = &[("", "services", "watch"), ("", "replicationcontrollers", "watch")];

/// Refusals by role, each with the actions refused. What concerns keys is looked at with the keys.
fn refused(facts: &Facts, is_refused: impl Fn(&Right) -> bool) -> Result<ByRole<'_>, crate::facts::Unseen> {
    let mut roles = ByRole::new();
    let rights = facts.account.rights.get()?.iter().filter(|right| !right.action.starts_with("kms:"));
    for right in rights.filter(|right| is_refused(right)) {
        roles.entry(&right.role).or_default().insert(&right.action);
    }
    Ok(roles)
}

type ByRole<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn evidence(roles: ByRole<'_>, who: &str) -> Vec<Evidence> {
    let words = |actions: BTreeSet<&str>| actions.into_iter().collect::<Vec<_>>().join(", ");
    roles
        .into_iter()
        .map(|(role, actions)| {
            Evidence::new(format!("role {role}"), format!("{who} allow {}", words(actions)))
        })
        .collect()
}

fn bounded(facts: &Facts) -> Outcome {
    Ok(evidence(refused(facts, |right| right.by_boundary == Some(false))?, "its boundary does not"))
}

fn denied_by_organization(facts: &Facts) -> Outcome {
    Ok(evidence(refused(facts, |right| right.by_organization == Some(false))?, "the organisation does not"))
}

fn unusable_role(facts: &Facts) -> Outcome {
    let known = facts.account.roles.get()?;
    let rights = facts.account.rights.get()?;
    let mut found = Vec::new();
    for (class, role) in class_roles(facts)? {
        let bare = role.rsplit('/').next().unwrap_or(&role);
        let Some(exists) = known.get(bare) else { continue };
        let Some(exists) = exists else {
            found.push(Evidence::new(class, format!("IAM knows no role `{role}`")));
            continue;
        };
        // Refusals by a boundary or the organisation are the findings of other checks.
        let is_own_refusal = |right: &&Right| {
            right.action == "iam:PassRole"
                && right.resource == exists.arn
                && !right.allowed
                && right.by_boundary != Some(false)
                && right.by_organization != Some(false)
        };
        if let Some(right) = rights.iter().find(is_own_refusal) {
            found.push(Evidence::new(class, format!("{} may not pass on role `{role}`", right.role)));
        }
    }
    Ok(found)
}

fn gate_without_right(facts: &Facts) -> Outcome {
    let mut found = Vec::new();
    for (gate, needed) in GATES {
        if facts.cluster.opens("FEATURE_GATES", gate)? {
            found.extend(lacking(facts, &format!("feature gate {gate}"), needed)?);
        }
    }
    if facts.cluster.setting("SCHEDULER_CONFIG")?.is_some() {
        found.extend(lacking(facts, "setting SCHEDULER_CONFIG", DEFAULT_SPREAD)?);
    }
    // Nothing is rebooted without repair, and as v1.14 repaired.
    let reboots = facts.cluster.opens("AWS_FEATURE_GATES", "RebootForRepair")?
        && facts.cluster.opens("FEATURE_GATES", "NodeRepair")?;
    if reboots {
        let rights = facts.account.rights.get()?.iter();
        // Refusals by a boundary or the organisation are the findings of other checks.
        let mut refused = rights.filter(|right| {
            right.action == "ec2:RebootInstances"
                && !right.allowed
                && right.by_boundary != Some(false)
                && right.by_organization != Some(false)
        });
        found.extend(refused.next().map(|right| {
            Evidence::new(
                "feature gate RebootForRepair",
                format!("{} may not call {}", right.role, right.action),
            )
        }));
    }
    Ok(found)
}

/// Evidence about `feature` for those of `needed` that no cluster role grants.
fn lacking(facts: &Facts, feature: &str, needed: &[Needed]) -> Result<Vec<Evidence>, crate::facts::Unseen> {
    let mut found = Vec::new();
    for (group, resource, verb) in needed {
        if !facts.cluster.grants(group, resource, verb)? {
            let of = if group.is_empty() { String::new() } else { format!(".{group}") };
            let (namespace, name) = facts.cluster.service_account();
            let seen = format!("service account {namespace}/{name} may not `{verb}` {resource}{of}");
            found.push(Evidence::new(feature, seen));
        }
    }
    Ok(found)
}
