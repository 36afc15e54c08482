//! The roles of nodes and controller: there, assumable, and able to do their work.

use std::collections::BTreeSet;

use super::Findings;
use crate::desired::{Desired, ManagedPolicy, Purpose};
use crate::observe::{Observed, POD_IDENTITY_AGENT, Policy, Role};
use crate::policy::trust::STS_AUDIENCE;
use crate::policy::{Document, Effect, Principal, Statement, node};
use crate::settings::{Identity, Settings};

const APPLY: &str = "karpenter bootstrap apply";
/// Nodes run without it; people cannot open a session on them.
const SESSION_POLICY: &str = "AmazonSSMManagedInstanceCore";

/// Every role that nodes have exists, is EC2's to assume, holds what nodes need and may join.
pub(super) fn nodes(settings: &Settings, desired: &Desired, observed: &Observed, findings: &mut Findings) {
    let made = desired.roles.iter().filter(|role| role.purpose != Purpose::Controller);
    let made = made.map(|role| (role.name.clone(), observed.roles.get(&role.name)));
    let given = settings.existing_node_role.is_some();
    let given = given.then(|| (settings.node_role(), observed.existing_node_role.as_ref()));
    for (name, role) in given.into_iter().chain(made) {
        node_role(settings, &name, role, findings);
    }
    for wanted in &desired.access_entries {
        let fix = format!(
            "aws eks create-access-entry --cluster-name {} --principal-arn {} --type {}, or {APPLY}",
            settings.cluster, wanted.principal, wanted.kind
        );
        match observed.access_entries.get(&wanted.principal) {
            None => findings.missing("access-entry", format!("{} may not join", wanted.principal), fix),
            Some(entry) if entry.kind != wanted.kind => findings.missing(
                "access-entry",
                format!("the entry of {} is of type {}, not {}", wanted.principal, entry.kind, wanted.kind),
                format!("delete the entry, then {fix}"),
            ),
            Some(entry) => {
                findings.ready("access-entry", format!("{} may join as {}", wanted.principal, entry.kind));
            }
        }
    }
}

fn node_role(settings: &Settings, name: &str, role: Option<&Role>, findings: &mut Findings) {
    let Some(role) = role else {
        return findings.missing("node-role", format!("role `{name}` does not exist"), APPLY.to_owned());
    };
    let ec2 = format!("ec2.{}", settings.dns_suffix);
    let assumable = trusts(&role.trust, &["sts:AssumeRole"], "Service", |service| {
        service == ec2 || service == "ec2.amazonaws.com"
    });
    if !assumable {
        let fix = "let the service ec2.amazonaws.com assume it".to_owned();
        return findings.missing("node-role", format!("EC2 may not assume role `{name}`"), fix);
    }
    let attached: BTreeSet<&str> = role.attached.iter().map(|arn| last(arn)).collect();
    let wanted = node::managed_policies(settings);
    let missing: Vec<&str> =
        wanted.iter().map(|arn| last(arn)).filter(|name| !holds(&attached, name)).collect();
    let evidence = format!("role `{name}` lacks {}", missing.join(", "));
    let fix = format!("attach {} to it", missing.join(", "));
    match missing.as_slice() {
        [] => findings.ready("node-role", format!("role `{name}` holds what nodes need")),
        [SESSION_POLICY] => findings.warn("node-role", evidence, fix),
        _ => findings.missing("node-role", evidence, fix),
    }
}

/// Some AWS-managed policies grant what others do, and more.
fn holds(attached: &BTreeSet<&str>, name: &str) -> bool {
    let instead: &[&str] = match name {
        "AmazonEC2ContainerRegistryPullOnly" => {
            &["AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser"]
        }
        "AmazonEKSWorkerNodePolicy" => &["AmazonEKSWorkerNodeMinimalPolicy"],
        _ => &[],
    };
    attached.contains(name) || instead.iter().any(|other| attached.contains(other))
}

/// The controller's role exists, is its service account's to assume, and grants the calls it makes.
pub(super) fn controller(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    findings: &mut Findings,
) {
    let Some(wanted) = desired.roles.iter().find(|role| role.purpose == Purpose::Controller) else {
        return findings.warn(
            "controller-role",
            "the controller's credentials are yours to bring".to_owned(),
            "karpenter bootstrap render iam-json prints what they must grant".to_owned(),
        );
    };
    let Some(role) = observed.roles.get(&wanted.name) else {
        let evidence = format!("role `{}` does not exist", wanted.name);
        return findings.missing("controller-role", evidence, APPLY.to_owned());
    };
    let missing = missing_actions(&desired.policies, role, observed);
    if missing.is_empty() {
        findings.ready("controller-role", format!("role `{}` grants what the controller does", wanted.name));
    } else {
        let evidence = format!("role `{}` does not grant {}", wanted.name, missing.join(", "));
        let unread = role.attached.iter().filter(|arn| observed.unread_policies.contains(*arn));
        let unread: Vec<&str> = unread.map(String::as_str).collect();
        if unread.is_empty() {
            findings.missing("controller-role", evidence, APPLY.to_owned());
        } else {
            findings.warn(
                "controller-role",
                format!("{evidence}, unless a policy does that you may not read"),
                format!("ask for iam:GetPolicy and iam:GetPolicyVersion on {}", unread.join(", ")),
            );
        }
    }
    match &settings.identity {
        Identity::PodIdentity => pod_identity(settings, role, observed, findings),
        Identity::Irsa { issuer } => irsa(settings, issuer, role, observed, findings),
        Identity::None => {}
    }
}

fn pod_identity(settings: &Settings, role: &Role, observed: &Observed, findings: &mut Findings) {
    let actions = ["sts:AssumeRole", "sts:TagSession"];
    let trusted = trusts(&role.trust, &actions, "Service", |service| service == "pods.eks.amazonaws.com");
    let account = format!("{}/{}", settings.namespace, settings.service_account);
    match &observed.pod_identity {
        _ if !trusted => findings.missing(
            "pod-identity",
            format!("pods.eks.amazonaws.com may not assume role `{}`", role.role.name),
            APPLY.to_owned(),
        ),
        None => {
            findings.missing(
                "pod-identity",
                format!("{account} is associated with no role"),
                APPLY.to_owned(),
            );
        }
        Some(found) if found.role != role.role.arn => findings.missing(
            "pod-identity",
            format!("{account} is associated with {}, not {}", found.role, role.role.arn),
            APPLY.to_owned(),
        ),
        Some(_) => findings.ready("pod-identity", format!("{account} gets role `{}`", role.role.name)),
    }
    match observed.pod_identity_agent.as_ref().map(|addon| addon.status.as_str()) {
        Some("ACTIVE") => {
            findings.ready("pod-identity-agent", format!("add-on {POD_IDENTITY_AGENT} is ACTIVE"));
        }
        Some(status) => findings.warn(
            "pod-identity-agent",
            format!("add-on {POD_IDENTITY_AGENT} is {status}"),
            format!(
                "aws eks describe-addon --cluster-name {} --addon-name {POD_IDENTITY_AGENT}",
                settings.cluster
            ),
        ),
        None => findings.missing(
            "pod-identity-agent",
            format!("add-on {POD_IDENTITY_AGENT} is not installed: pods get no credentials"),
            format!(
                "aws eks create-addon --cluster-name {} --addon-name {POD_IDENTITY_AGENT}",
                settings.cluster
            ),
        ),
    }
}

fn irsa(settings: &Settings, issuer: &str, role: &Role, observed: &Observed, findings: &mut Findings) {
    let subject = format!("system:serviceaccount:{}:{}", settings.namespace, settings.service_account);
    let provider = settings.oidc_provider_arn().unwrap_or_default();
    let trusted =
        trusts(&role.trust, &["sts:AssumeRoleWithWebIdentity"], "Federated", |name| name == provider);
    let named = role.trust.statements.iter().any(|statement| {
        let values = statement.conditions.values().filter_map(|keys| keys.get(&format!("{issuer}:sub")));
        values.flatten().any(|pattern| matches(pattern, &subject))
    });
    if trusted && named {
        findings.ready("irsa", format!("{subject} may assume role `{}`", role.role.name));
    } else {
        let evidence = format!("{subject} may not assume role `{}` through {provider}", role.role.name);
        findings.missing("irsa", evidence, format!("{APPLY} --identity irsa"));
    }
    match &observed.oidc_provider {
        Some(found) if found.client_ids.iter().any(|client| client == STS_AUDIENCE) => {
            findings.ready("oidc-provider", format!("IAM knows {provider}"));
        }
        _ => findings.missing(
            "oidc-provider",
            format!("IAM does not know {provider} with the audience {STS_AUDIENCE}"),
            format!("aws iam create-open-id-connect-provider --url https://{issuer} --client-id-list {STS_AUDIENCE}"),
        ),
    }
}

/// Actions the controller needs that no policy attached to its role allows.
fn missing_actions(policies: &[ManagedPolicy], role: &Role, observed: &Observed) -> Vec<String> {
    let attached: Vec<&Policy> = role.attached.iter().filter_map(|arn| observed.policies.get(arn)).collect();
    let granted: Vec<&String> = attached
        .iter()
        .flat_map(|policy| &policy.document.statements)
        .filter(|statement| statement.effect == Effect::Allow)
        .flat_map(|statement| &statement.actions)
        .collect();
    let needed: BTreeSet<&String> = policies
        .iter()
        .flat_map(|policy| &policy.document.statements)
        .flat_map(|statement| &statement.actions)
        .collect();
    let lacking = needed.into_iter().filter(|action| !granted.iter().any(|pattern| matches(pattern, action)));
    lacking.cloned().collect()
}

/// Whether a trust document lets a principal of `kind` do all of `actions`.
fn trusts(document: &Document, actions: &[&str], kind: &str, is_it: impl Fn(&str) -> bool) -> bool {
    let for_it = |statement: &&Statement| match &statement.principal {
        Some(Principal::Of(found, names)) => found == kind && names.iter().any(|name| is_it(name)),
        _ => false,
    };
    let allowed: Vec<_> = document
        .statements
        .iter()
        .filter(|statement| statement.effect == Effect::Allow)
        .filter(for_it)
        .flat_map(|statement| &statement.actions)
        .collect();
    actions.iter().all(|action| allowed.iter().any(|pattern| matches(pattern, action)))
}

/// IAM's wildcards; the case of actions does not matter.
fn matches(pattern: &str, text: &str) -> bool {
    fn from(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                from(rest, text) || text.split_first().is_some_and(|(_, text)| from(pattern, text))
            }
            ([b'?', pattern @ ..], [_, text @ ..]) => from(pattern, text),
            ([a, pattern @ ..], [b, text @ ..]) => a.eq_ignore_ascii_case(b) && from(pattern, text),
            _ => false,
        }
    }
    from(pattern.as_bytes(), text.as_bytes())
}

/// The name at the end of an ARN.
fn last(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_those_of_iam() {
        for (pattern, text, expected) in [
            ("*", "ec2:RunInstances", true),
            ("ec2:*", "ec2:RunInstances", true),
            ("EC2:Describe*", "ec2:DescribeImages", true),
            ("ec2:Describe*", "ec2:RunInstances", false),
            ("ec2:RunInstance?", "ec2:RunInstances", true),
            ("ec2:RunInstance?", "ec2:RunInstance", false),
            ("ec2:RunInstances", "ec2:RunInstances", true),
            ("iam:*", "ec2:RunInstances", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
