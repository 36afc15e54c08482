//! How the controller's pods come to their role: the agent of Pod Identity, the identity provider of web identity.

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_iam::matches as glob;
use serde_json::Value;

use super::controller::pods_of;
use super::keys::{list, named};
use super::pools::daemon;
use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Facts, Unseen, label};

/// Whom tokens of service accounts are for that a role is taken on with.
const AUDIENCE: &str = "sts.amazonaws.com";

/// What brings the credentials of a Pod Identity association to the pods of a node.
const AGENT: &str = "eks-pod-identity-agent";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-31",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: no credentials, although a Pod Identity association gives the controller its role",
        cause: "no agent of Pod Identity runs beside the controller: the add-on is missing, or the node is one of Fargate",
        fix: "aws eks create-addon --addon-name eks-pod-identity-agent; on Fargate use `karpenter bootstrap apply --identity irsa`",
        look: Look::At(without_agent),
    },
    Check {
        id: "P-32",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: InvalidIdentityToken, no OpenIDConnect provider found in your account",
        cause: "the service account names a role, but IAM does not know the cluster's issuer",
        fix: "eksctl utils associate-iam-oidc-provider --cluster <cluster> --approve",
        look: Look::At(without_provider),
    },
    Check {
        id: "P-33",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: no credentials, or not authorized to perform sts:AssumeRoleWithWebIdentity",
        cause: "the trust of the controller's role is for another cluster, namespace or service account",
        fix: "`karpenter bootstrap apply` with --identity, --namespace and --service-account as they are; where EKS \
              does not meet the condition on the cluster's ARN, with --pod-identity-trust session-tags",
        look: Look::At(distrusted),
    },
];

fn without_agent(facts: &Facts) -> Outcome {
    let Some(deployment) = facts.cluster.controller()? else { return Ok(Vec::new()) };
    // Who names a role for its service account takes it on by web identity, which goes first.
    let is_by_agent =
        facts.account.pod_identity.get()?.is_some() && facts.cluster.annotated_role()?.is_none();
    if !is_by_agent {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let is_missing = daemon(facts, AGENT)?.is_none();
    for pod in pods_of(deployment, facts.cluster.pods.get()?) {
        let compute = node_of(facts, pod)?.and_then(|node| {
            label(node.metadata.labels.as_ref(), "eks.amazonaws.com/compute-type").map(str::to_owned)
        });
        match compute.as_deref() {
            Some("fargate") => found.push(Evidence::new(object("Pod", &pod.metadata), "runs on Fargate")),
            // Nodes of Auto Mode have the agent built in.
            Some("auto") => {}
            _ if is_missing => {
                let seen = format!("there is no DaemonSet {AGENT} to serve it");
                found.push(Evidence::new(object("Pod", &pod.metadata), seen));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn node_of<'a>(facts: &'a Facts, pod: &Pod) -> Result<Option<&'a Node>, Unseen> {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    Ok(facts.cluster.nodes.get()?.iter().find(|node| Some(name(&node.metadata)) == wanted))
}

fn without_provider(facts: &Facts) -> Outcome {
    if *facts.account.identity_provider.get()? != Some(false) {
        return Ok(Vec::new());
    }
    let issuer = facts.account.eks.get()?.as_ref().and_then(|eks| eks.issuer.as_deref()).unwrap_or_default();
    Ok(vec![Evidence::new(format!("identity provider {issuer}"), "IAM does not know it")])
}

/// Who takes a role on, as a trust document names it, and with what.
struct Taker {
    /// ARN of the role.
    role: String,
    action: &'static str,
    /// Kind of principal.
    kind: &'static str,
    /// How the principal's name ends.
    name: String,
    /// Condition keys with the values they have.
    keys: Vec<(String, String)>,
}

fn distrusted(facts: &Facts) -> Outcome {
    if facts.cluster.controller()?.is_none() {
        return Ok(Vec::new());
    }
    let Some(taker) = taker(facts)? else { return Ok(Vec::new()) };
    let (namespace, account) = facts.cluster.service_account();
    // A role of another account is not ours to read.
    let roles = facts.account.roles.get()?.values().flatten();
    let found = roles.filter(|role| role.arn == taker.role && !trusts(&role.trust, &taker));
    Ok(found
        .map(|role| {
            let seen = format!(
                "its trust does not let service account {namespace}/{account} of this cluster take it on"
            );
            Evidence::new(format!("role {}", role.arn), seen)
        })
        .collect())
}

/// The controller: by the token of its service account if that names a role, else by Pod Identity.
fn taker(facts: &Facts) -> Result<Option<Taker>, Unseen> {
    let (namespace, account) = facts.cluster.service_account();
    if let Some(role) = facts.cluster.annotated_role()? {
        let issuer = facts.account.eks.get()?.as_ref().and_then(|eks| eks.issuer.as_deref());
        let Some(issuer) = issuer.map(|issuer| issuer.trim_start_matches("https://")) else {
            return Ok(None);
        };
        return Ok(Some(Taker {
            role: role.to_owned(),
            action: "sts:assumerolewithwebidentity",
            kind: "Federated",
            name: format!(":oidc-provider/{issuer}"),
            keys: vec![
                (format!("{issuer}:sub"), format!("system:serviceaccount:{namespace}:{account}")),
                (format!("{issuer}:aud"), AUDIENCE.to_owned()),
            ],
        }));
    }
    let Some(role) = facts.account.pod_identity.get()? else { return Ok(None) };
    // `arn:aws:iam::123456789012:role/...`
    let parts: Vec<&str> = role.split(':').collect();
    let (Some(&partition), Some(&owner)) = (parts.get(1), parts.get(4)) else { return Ok(None) };
    let (region, cluster) = (facts.account.region.get()?, facts.cluster_name.as_str());
    let arn = format!("arn:{partition}:eks:{region}:{owner}:cluster/{cluster}");
    let keys = [
        ("aws:SourceArn", arn.as_str()),
        ("aws:SourceAccount", owner),
        ("aws:RequestTag/eks-cluster-arn", arn.as_str()),
        ("aws:RequestTag/eks-cluster-name", cluster),
        ("aws:RequestTag/kubernetes-namespace", namespace),
        ("aws:RequestTag/kubernetes-service-account", account),
    ];
    Ok(Some(Taker {
        role: role.clone(),
        action: "sts:assumerole",
        kind: "Service",
        name: "pods.eks.amazonaws.com".to_owned(),
        keys: keys.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    }))
}

/// Whether a trust document lets the role be taken on. Conditions on keys that are not known here are not weighed.
fn trusts(document: &str, taker: &Taker) -> bool {
    let Ok(document) = serde_json::from_str::<Value>(document) else { return false };
    list(&document["Statement"]).into_iter().any(|statement| {
        let mut actions = list(&statement["Action"]).into_iter().filter_map(Value::as_str);
        let mut principals = named(&statement["Principal"], taker.kind).into_iter();
        statement["Effect"] == "Allow"
            && actions.any(|action| glob(&action.to_lowercase(), taker.action))
            && principals.any(|name| name.ends_with(&taker.name))
            && taker.keys.iter().all(|(key, value)| holds(&statement["Condition"], key, value))
    })
}

/// Whether what a statement says about a key holds for this value; what it does not say holds.
fn holds(conditions: &Value, key: &str, value: &str) -> bool {
    ["StringEquals", "StringLike", "ArnEquals", "ArnLike"].iter().all(|operator| {
        let wanted = list(&conditions[*operator][key]);
        let fits =
            |pattern: &str| if *operator == "StringEquals" { pattern == value } else { glob(pattern, value) };
        wanted.is_empty() || wanted.into_iter().filter_map(Value::as_str).any(fits)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trust_is_read_by_principal_action_and_what_is_known_of_the_keys() {
        let taker = Taker {
            role: String::new(),
            action: "sts:assumerolewithwebidentity",
            kind: "Federated",
            name: ":oidc-provider/i/A".to_owned(),
            keys: vec![
                ("i/A:sub".to_owned(), "system:serviceaccount:kube-system:karpenter".to_owned()),
                ("i/A:aud".to_owned(), AUDIENCE.to_owned()),
            ],
        };
        let trust = |provider: &str, condition: Value| {
            json!({"Statement": {
                "Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition,
                "Principal": {"Federated": format!("arn:aws:iam::123456789012:oidc-provider/{provider}")},
            }})
            .to_string()
        };
        let exactly =
            |account: &str| json!({"StringEquals": {"i/A:sub": format!("system:serviceaccount:{account}")}});
        let pods = r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;
        for (name, document, expected) in [
            ("this account", trust("i/A", exactly("kube-system:karpenter")), true),
            ("any account", trust("i/A", Value::Null), true),
            ("a pattern", trust("i/A", json!({"StringLike": {"i/A:sub": ["a", "*:karpenter"]}})), true),
            ("no pattern", trust("i/A", json!({"StringEquals": {"i/A:sub": "*:karpenter"}})), false),
            ("another namespace", trust("i/A", exactly("karpenter:karpenter")), false),
            ("another cluster", trust("i/B", exactly("kube-system:karpenter")), false),
            ("another audience", trust("i/A", json!({"StringEquals": {"i/A:aud": "me"}})), false),
            ("a key of others", trust("i/A", json!({"StringEquals": {"aws:PrincipalOrgID": "o"}})), true),
            ("Pod Identity", pods.to_owned(), false),
            ("no document", String::new(), false),
        ] {
            assert_eq!(trusts(&document, &taker), expected, "{name}: {document}");
        }
    }
}
