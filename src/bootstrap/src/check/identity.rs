//! The roles of nodes and controller: there, assumable, and able to do their work.

use std::collections::BTreeSet;

use karpenter_iam::Request;

use super::Findings;
use super::rights::{AccessDecision, Granted, Lacking};
use crate::aws_auth::AwsAuth;
use crate::desired::{AccessEntry, Desired, Purpose};
use crate::observe::{Observed, POD_IDENTITY_AGENT, Role};
use crate::policy::node;
use crate::policy::trust::STS_AUDIENCE;
use crate::settings::{Identity, Platform, Settings};

const APPLY: &str = "karpenter bootstrap apply";
/// Fix for an association that is not there. The account does not show how the controller gets its role, or as which service
/// account it runs: both are flags.
const ASSOCIATE: &str = "check again with --identity irsa if the service account has the annotation \
                         eks.amazonaws.com/role-arn, or with --service-account if the controller runs as another one; \
                         else karpenter bootstrap apply";
/// The service whose agent takes the controller's role on for its pods.
const PODS: &str = "pods.eks.amazonaws.com";
/// Nodes run without it; people cannot open a session on them.
const SESSION_POLICY: &str = "AmazonSSMManagedInstanceCore";
/// The network plugin may have a role of its own, or be another one.
const NETWORK_POLICIES: [&str; 2] = [node::CNI_POLICY, node::CNI_IPV6_POLICY];

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

/// Checks that it may join by an access entry, or by `aws-auth` where the cluster heeds it.
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
        Some(entry) if observed.is_older_than_its_role(entry) => {
            let evidence = format!(
                "the access entry of {principal} is older than the role, which was made again under its name: nodes may \
                 not join, because EKS knows the role that was deleted"
            );
            return findings.missing("access-entry", evidence, format!("delete the entry, then {fix}"));
        }
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
    let spellings = ["ec2.amazonaws.com", settings.ec2_principal.as_str()];
    let assumed = spellings.map(|service| {
        let request = Request::new("sts:AssumeRole", role.role.arn.as_str()).by("Service", service);
        AccessDecision::of(&role.trust, request)
    });
    let fix = "let the service ec2.amazonaws.com assume it".to_owned();
    match assumed.into_iter().min() {
        Some(AccessDecision::Granted) => {}
        Some(AccessDecision::Unclear(why)) => {
            let evidence = format!("it is not known whether EC2 may assume role `{name}`: {why}");
            return findings.warn("node-role", evidence, fix);
        }
        Some(AccessDecision::Refused) | None => {
            return findings.missing("node-role", format!("EC2 may not assume role `{name}`"), fix);
        }
    }
    let attached: BTreeSet<&str> = role.attached.iter().map(|arn| last(arn)).collect();
    let wanted = node::managed_policies(settings);
    let missing: Vec<&str> =
        wanted.iter().map(|arn| last(arn)).filter(|name| !holds(&attached, name)).collect();
    let evidence = format!("role `{name}` lacks {}", missing.join(", "));
    let fix = format!("attach {} to it", missing.join(", "));
    let account = format!("::{}:policy/", settings.account);
    let of_others = !role.own.is_empty()
        || role.attached.iter().any(|arn| arn.contains(&account) && last(arn) != node::CNI_IPV6_POLICY);
    let minor = |policy: &&str| *policy == SESSION_POLICY || NETWORK_POLICIES.contains(policy);
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
    let lacking = granted.lacking(settings, role, &desired.policies);
    rights(role, &lacking, &granted.unread, findings);
    match &settings.identity {
        Identity::PodIdentity => pod_identity(settings, role, observed, findings),
        Identity::Irsa { issuer } => irsa(settings, issuer, role, observed, findings),
        Identity::None => {}
    }
}

/// Checks that its policies grant what the controller does.
fn rights(role: &Role, lacking: &Lacking, unread: &[&str], findings: &mut Findings) {
    let Lacking { missing, denying, unclear, reasons } = lacking;
    let (name, arn) = (&role.role.name, &role.role.arn);
    let joined = |texts: &BTreeSet<String>, by: &str| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        texts.join(by)
    };
    if missing.is_empty() && unclear.is_empty() {
        return findings.ready("controller-role", format!("role `{name}` grants what the controller does"));
    }
    if missing.is_empty() {
        let (actions, reasons) = (joined(unclear, ", "), joined(reasons, "; "));
        let evidence = format!("it is not known whether role `{name}` grants {actions}: {reasons}");
        let actions = joined(unclear, " ");
        let fix = format!(
            "ask IAM: aws iam simulate-principal-policy --policy-source-arn {arn} --action-names {actions}"
        );
        return findings.warn("controller-role", evidence, fix);
    }
    let evidence = format!("role `{name}` does not grant {}", joined(missing, ", "));
    if !denying.is_empty() {
        // No further policy makes up for a denial, read or not.
        let denying = joined(denying, "`, `");
        let fix = format!("take the denial out of the policies of the role: `{denying}`; then {APPLY}");
        findings.missing("controller-role", evidence, fix);
    } else if unread.is_empty() {
        findings.missing("controller-role", evidence, APPLY.to_owned());
    } else {
        findings.warn(
            "controller-role",
            format!("{evidence}, unless a policy does that could not be read"),
            format!(
                "ask for iam:GetRolePolicy, iam:GetPolicy and iam:GetPolicyVersion on {}",
                unread.join(", ")
            ),
        );
    }
}

fn pod_identity(settings: &Settings, role: &Role, observed: &Observed, findings: &mut Findings) {
    let trusted = ["sts:AssumeRole", "sts:TagSession"].map(|action| {
        let request = Request::new(action, role.role.arn.as_str())
            .by("Service", PODS)
            .with("aws:SourceAccount", &settings.account)
            .with("aws:SourceArn", &settings.cluster_arn())
            .with("aws:RequestTag/eks-cluster-arn", &settings.cluster_arn())
            .with("aws:RequestTag/eks-cluster-name", &settings.cluster)
            .with("aws:RequestTag/kubernetes-namespace", &settings.namespace)
            .with("aws:RequestTag/kubernetes-service-account", &settings.service_account);
        AccessDecision::of(&role.trust, request)
    });
    let trusted = trusted.into_iter().max().unwrap_or(AccessDecision::Refused);
    let account = format!("{}/{}", settings.namespace, settings.service_account);
    match &observed.pod_identity {
        // A role for IRSA refuses as well, and refuses first.
        found if trusted == AccessDecision::Refused => findings.missing(
            "pod-identity",
            format!("{PODS} may not assume role `{}`", role.role.name),
            if found.is_none() { ASSOCIATE } else { APPLY }.to_owned(),
        ),
        None => findings.missing(
            "pod-identity",
            format!("{account} is associated with no role"),
            ASSOCIATE.to_owned(),
        ),
        Some(found) if found.role != role.role.arn => findings.missing(
            "pod-identity",
            format!("{account} is associated with {}, not {}", found.role, role.role.arn),
            APPLY.to_owned(),
        ),
        Some(_) => match trusted {
            AccessDecision::Unclear(why) => findings.warn(
                "pod-identity",
                format!("it is not known whether {PODS} may assume role `{}`: {why}", role.role.name),
                APPLY.to_owned(),
            ),
            AccessDecision::Granted | AccessDecision::Refused => {
                findings.ready("pod-identity", format!("{account} gets role `{}`", role.role.name));
            }
        },
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
        None if observed.cluster.as_ref().is_some_and(|cluster| cluster.auto_mode) => findings.ready(
            "pod-identity-agent",
            // The account does not show where the controller runs.
            format!(
                "nodes of EKS Auto Mode have it built in; on other nodes it needs add-on {POD_IDENTITY_AGENT}"
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
    let request = Request::new("sts:AssumeRoleWithWebIdentity", role.role.arn.as_str())
        .by("Federated", &provider)
        .with(&format!("{issuer}:sub"), &subject)
        .with(&format!("{issuer}:aud"), STS_AUDIENCE);
    let (name, fix) = (&role.role.name, format!("{APPLY} --identity irsa"));
    match AccessDecision::of(&role.trust, request) {
        AccessDecision::Granted => findings.ready("irsa", format!("{subject} may assume role `{name}`")),
        AccessDecision::Unclear(why) => {
            let evidence = format!("it is not known whether {subject} may assume role `{name}`: {why}");
            findings.warn("irsa", evidence, fix);
        }
        AccessDecision::Refused => {
            let evidence = format!("{subject} may not assume role `{name}` through {provider}");
            findings.missing("irsa", evidence, fix);
        }
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

/// The name at the end of an ARN.
fn last(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}
