//! Rights of the controller's role in IAM: boundaries, organisations, passing roles on (spec aws-operations 1.14).

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
];

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
