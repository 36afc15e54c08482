//! The roles of nodes and controller: there, assumable, and able to do their work.

use std::collections::BTreeSet;

use super::Findings;
use crate::aws_auth::AwsAuth;
use crate::desired::{AccessEntry, Desired, ManagedPolicy, Purpose};
use crate::observe::{Observed, POD_IDENTITY_AGENT, Role};
use crate::policy::trust::STS_AUDIENCE;
use crate::policy::{Document, Effect, Principal, Statement, node};
use crate::settings::{Identity, Platform, Settings};

const APPLY: &str = "karpenter bootstrap apply";
const PASS_ROLE: &str = "iam:PassRole";
/// Nodes run without it; people cannot open a session on them.
const SESSION_POLICY: &str = "AmazonSSMManagedInstanceCore";
/// The network plugin may have a role of its own, or be another one.
const NETWORK_POLICY: &str = "AmazonEKS_CNI_Policy";

/// Every role that nodes have exists, is EC2's to assume, holds what nodes need and may join.
pub(super) fn nodes(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    aws_auth: &AwsAuth,
    findings: &mut Findings,
) {
    let made = desired.roles.iter().filter(|role| role.purpose != Purpose::Controller);
    let made = made.map(|role| (role.name.clone(), observed.roles.get(&role.name)));
    let given = settings.existing_node_role.is_some();
    let given = given.then(|| (settings.node_role(), observed.existing_node_role.as_ref()));
    for (name, role) in given.into_iter().chain(made) {
        node_role(settings, &name, role, findings);
    }
    for wanted in &desired.access_entries {
        may_join(settings, wanted, observed, aws_auth, findings);
    }
}

/// By an access entry, or by `aws-auth` where the cluster heeds it.
fn may_join(
    settings: &Settings,
    wanted: &AccessEntry,
    observed: &Observed,
    aws_auth: &AwsAuth,
    findings: &mut Findings,
) {
    let principal = &wanted.principal;
    let fix = format!(
        "aws eks create-access-entry --cluster-name {} --principal-arn {principal} --type {}, or {APPLY}",
        settings.cluster, wanted.kind
    );
    match observed.access_entries.get(principal) {
        Some(entry) if entry.kind == wanted.kind => {
            return findings.ready("access-entry", format!("{principal} may join as {}", entry.kind));
        }
        Some(entry) => {
            let evidence = format!("the entry of {principal} is of type {}, not {}", entry.kind, wanted.kind);
            return findings.missing("access-entry", evidence, format!("delete the entry, then {fix}"));
        }
        None => {}
    }
    let mode = observed.cluster.as_ref().and_then(|cluster| cluster.authentication_mode.as_deref());
    let mode = mode.unwrap_or("CONFIG_MAP");
    let windows = Platform::Windows.entry_type() == wanted.kind;
    let platform = if windows { Platform::Windows } else { Platform::Linux };
    match aws_auth {
        _ if mode != "API" && aws_auth.lets_join(principal, platform) => {
            findings.ready("access-entry", format!("{principal} may join by the ConfigMap aws-auth"));
        }
        // Such a cluster has no access entries at all, so everything hangs on what was not read.
        AwsAuth::Unread(why) if mode == "CONFIG_MAP" => findings.warn(
            "access-entry",
            format!(
                "whether {principal} may join is up to the ConfigMap aws-auth, which was not read: {why}"
            ),
            format!("kubectl --namespace kube-system get configmap aws-auth -o yaml must map {principal}"),
        ),
        AwsAuth::Read(_) if mode == "CONFIG_MAP" => findings.missing(
            "access-entry",
            format!("{principal} may not join: the ConfigMap aws-auth does not map it"),
            format!(
                "eksctl create iamidentitymapping --cluster {} --arn {principal} --username \
                 'system:node:{{{{EC2PrivateDNSName}}}}' --group system:bootstrappers --group system:nodes",
                settings.cluster
            ),
        ),
        AwsAuth::Unread(why) if mode != "API" => findings.missing(
            "access-entry",
            format!("{principal} has no access entry, and the ConfigMap aws-auth was not read: {why}"),
            format!("{fix}; if aws-auth maps it, check again with a kubeconfig of the cluster"),
        ),
        _ => findings.missing("access-entry", format!("{principal} may not join"), fix),
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
    let account = format!("::{}:policy/", settings.account);
    let of_others = !role.own.is_empty() || role.attached.iter().any(|arn| arn.contains(&account));
    let minor = |policy: &&str| matches!(*policy, SESSION_POLICY | NETWORK_POLICY);
    if missing.is_empty() {
        findings.ready("node-role", format!("role `{name}` holds what nodes need"));
    } else if missing.iter().all(minor) {
        let fix = format!(
            "{fix}, unless the network plugin has its rights from elsewhere and sessions are not wanted"
        );
        findings.warn("node-role", evidence, fix);
    } else if of_others {
        findings.warn("node-role", format!("{evidence}, unless policies of your own grant the same"), fix);
    } else {
        findings.missing("node-role", evidence, fix);
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
    let granted = Granted::of(role, observed);
    let missing = granted.missing(&desired.policies);
    if missing.is_empty() {
        findings.ready("controller-role", format!("role `{}` grants what the controller does", wanted.name));
    } else {
        let evidence = format!("role `{}` does not grant {}", wanted.name, missing.join(", "));
        if granted.unread.is_empty() {
            findings.missing("controller-role", evidence, APPLY.to_owned());
        } else {
            findings.warn(
                "controller-role",
                format!("{evidence}, unless a policy does that could not be read"),
                format!(
                    "ask for iam:GetRolePolicy, iam:GetPolicy and iam:GetPolicyVersion on {}",
                    granted.unread.join(", ")
                ),
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

/// What the policies of a role allow: its own, those attached, AWS's among them.
struct Granted<'a> {
    allowing: Vec<&'a Statement>,
    /// Policies that could not be read.
    unread: Vec<&'a str>,
}

impl<'a> Granted<'a> {
    fn of(role: &'a Role, observed: &'a Observed) -> Self {
        let attached = role.attached.iter().filter_map(|arn| observed.policies.get(arn));
        let own = role.own.values().flatten();
        let documents = attached.map(|policy| &policy.document).chain(own);
        let allowing = documents
            .flat_map(|document| &document.statements)
            .filter(|statement| statement.effect == Effect::Allow)
            .collect();
        let attached = role.attached.iter().filter(|arn| observed.unread_policies.contains(*arn));
        let own = role.own.iter().filter(|(_, document)| document.is_none()).map(|(name, _)| name);
        Self { allowing, unread: attached.chain(own).map(String::as_str).collect() }
    }

    /// What the controller needs and nothing allows: actions, and passing each role that nodes have.
    fn missing(&self, policies: &[ManagedPolicy]) -> Vec<String> {
        let needed: BTreeSet<&String> = policies
            .iter()
            .flat_map(|policy| &policy.document.statements)
            .flat_map(|statement| &statement.actions)
            .collect();
        let passed = policies.iter().flat_map(|policy| &policy.document.statements);
        let passed = passed.filter(|statement| statement.actions.iter().any(|action| action == PASS_ROLE));
        let passed = passed.flat_map(|statement| &statement.resources);
        let allows = |statement: &Statement, action: &str| {
            statement.actions.iter().any(|pattern| matches(pattern, action))
        };
        let lacking = needed
            .into_iter()
            .filter(|action| !self.allowing.iter().any(|statement| allows(statement, action)));
        let mut missing: Vec<String> = lacking.cloned().collect();
        if missing.iter().any(|action| action == PASS_ROLE) {
            return missing;
        }
        for role in passed {
            // A statement without resources names those it is not about: what it covers is not known here.
            let covers = |statement: &Statement| {
                statement.resources.is_empty()
                    || statement.resources.iter().any(|pattern| matches_exactly(pattern, role))
            };
            if !self.allowing.iter().any(|statement| allows(statement, PASS_ROLE) && covers(statement)) {
                missing.push(format!("{PASS_ROLE} on {role}"));
            }
        }
        missing
    }
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
    matches_exactly(&pattern.to_ascii_lowercase(), &text.to_ascii_lowercase())
}

/// IAM's wildcards in ARNs, where case matters.
fn matches_exactly(pattern: &str, text: &str) -> bool {
    fn from(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                from(rest, text) || text.split_first().is_some_and(|(_, text)| from(pattern, text))
            }
            ([b'?', pattern @ ..], [_, text @ ..]) => from(pattern, text),
            ([a, pattern @ ..], [b, text @ ..]) => a == b && from(pattern, text),
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
