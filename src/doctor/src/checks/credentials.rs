//! Credentials of the controller's pods for their role: the agent of Pod Identity, the identity provider of web identity.

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_iam::Request;

use super::controller::pods_of;
use super::policies::{gathered, lets};
use super::pools::daemon;
use super::{name, object};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{COMPUTE_TYPE, Facts, Unseen, label};

/// Whom tokens of service accounts are for that a role is taken on with.
const AUDIENCE: &str = "sts.amazonaws.com";

/// Add-on that brings the credentials of a Pod Identity association to the pods of a node.
const AGENT: &str = "eks-pod-identity-agent";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-31",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: no credentials, although a Pod Identity association gives the controller its role",
        cause: "no agent of Pod Identity runs beside the controller: the add-on is missing, or the node is one of Fargate",
        fix: "`aws eks create-addon --cluster-name <cluster> --addon-name eks-pod-identity-agent`; on Fargate use `karpenter bootstrap apply --cluster-name <cluster> --identity irsa`",
        look: Look::At(without_agent),
    },
    Check {
        id: "P-32",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the start fails: InvalidIdentityToken, no OpenIDConnect provider found in your account",
        cause: "the service account names a role, but IAM does not know the cluster's issuer",
        fix: "`eksctl utils associate-iam-oidc-provider --cluster <cluster> --approve`",
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
    // Installations that name a role for the service account take it on by web identity, which goes first.
    let is_by_agent =
        facts.account.pod_identity.get()?.is_some() && facts.cluster.annotated_role()?.is_none();
    if !is_by_agent {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let is_missing = daemon(facts, AGENT)?.is_none();
    for pod in pods_of(deployment, facts.cluster.pods.get()?) {
        let compute = node_of(facts, pod)?
            .and_then(|node| label(node.metadata.labels.as_ref(), COMPUTE_TYPE).map(str::to_owned));
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

/// Principal that takes a role on, as a trust document names it, and with what.
struct Taker {
    /// ARN of the role.
    role: String,
    action: &'static str,
    /// Kind of principal.
    kind: &'static str,
    /// Name of the principal.
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
    gathered(roles.filter(|role| role.arn == taker.role).map(|role| {
        let seen = format!(
            "its trust does not let service account {namespace}/{account} of this cluster take it on"
        );
        let evidence = || Evidence::new(format!("role {}", role.arn), seen);
        Ok((!trusts(&role.trust, &taker)?).then(evidence))
    }))
}

/// The controller: by the token of its service account if that names a role, else by Pod Identity.
fn taker(facts: &Facts) -> Result<Option<Taker>, Unseen> {
    let (namespace, account) = facts.cluster.service_account();
    // `arn:aws:iam::123456789012:role/...`
    let of_arn = |role: &str| {
        let mut parts = role.split(':').map(str::to_owned);
        Some((parts.nth(1)?, parts.nth(2)?))
    };
    if let Some(role) = facts.cluster.annotated_role()? {
        let issuer = facts.account.eks.get()?.as_ref().and_then(|eks| eks.issuer.as_deref());
        let Some(issuer) = issuer.map(|issuer| issuer.trim_start_matches("https://")) else {
            return Ok(None);
        };
        let Some((partition, owner)) = of_arn(role) else { return Ok(None) };
        return Ok(Some(Taker {
            role: role.to_owned(),
            action: "sts:AssumeRoleWithWebIdentity",
            kind: "Federated",
            name: format!("arn:{partition}:iam::{owner}:oidc-provider/{issuer}"),
            keys: vec![
                (format!("{issuer}:sub"), format!("system:serviceaccount:{namespace}:{account}")),
                (format!("{issuer}:aud"), AUDIENCE.to_owned()),
            ],
        }));
    }
    let Some(role) = facts.account.pod_identity.get()? else { return Ok(None) };
    let Some((partition, owner)) = of_arn(role) else { return Ok(None) };
    let (region, cluster) = (facts.account.region.get()?, facts.cluster_name.as_str());
    let arn = format!("arn:{partition}:eks:{region}:{owner}:cluster/{cluster}");
    let keys = [
        ("aws:SourceArn", arn.as_str()),
        ("aws:SourceAccount", owner.as_str()),
        ("aws:RequestTag/eks-cluster-arn", arn.as_str()),
        ("aws:RequestTag/eks-cluster-name", cluster),
        ("aws:RequestTag/kubernetes-namespace", namespace),
        ("aws:RequestTag/kubernetes-service-account", account),
    ];
    Ok(Some(Taker {
        role: role.clone(),
        action: "sts:AssumeRole",
        kind: "Service",
        name: "pods.eks.amazonaws.com".to_owned(),
        keys: keys.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    }))
}

/// Returns whether a trust document lets the role be taken on.
fn trusts(document: &str, taker: &Taker) -> Result<bool, Unseen> {
    let request = Request::new(taker.action, &taker.role).by(taker.kind, &taker.name);
    let request = taker.keys.iter().fold(request, |request, (key, value)| request.with(key, value));
    lets(document, [request])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_trust_is_read_by_principal_action_and_what_is_known_of_the_keys() {
        let taker = Taker {
            role: "arn:aws:iam::123456789012:role/demo-karpenter".to_owned(),
            action: "sts:AssumeRoleWithWebIdentity",
            kind: "Federated",
            name: "arn:aws:iam::123456789012:oidc-provider/i/A".to_owned(),
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
        let denied = |condition: &Value| {
            let statement = |effect: &str, condition: &Value| {
                json!({
                    "Effect": effect, "Action": "sts:*", "Principal": {"Federated": "*"}, "Condition": condition,
                })
            };
            json!({"Statement": [statement("Allow", &json!({})), statement("Deny", condition)]}).to_string()
        };
        let pods = r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;
        for (name, document, expected) in [
            ("this account", trust("i/A", exactly("kube-system:karpenter")), true),
            ("any account", trust("i/A", json!({})), true),
            ("a pattern", trust("i/A", json!({"StringLike": {"i/A:sub": ["a", "*:karpenter"]}})), true),
            ("no pattern", trust("i/A", json!({"StringEquals": {"i/A:sub": "*:karpenter"}})), false),
            ("another namespace", trust("i/A", exactly("karpenter:karpenter")), false),
            ("another cluster", trust("i/B", exactly("kube-system:karpenter")), false),
            ("another audience", trust("i/A", json!({"StringEquals": {"i/A:aud": "me"}})), false),
            ("a denial", denied(&exactly("kube-system:karpenter")), false),
            ("a denial to another account", denied(&exactly("default:karpenter")), true),
            ("Pod Identity", pods.to_owned(), false),
            ("no document", String::new(), false),
        ] {
            assert_eq!(trusts(&document, &taker), Ok(expected), "{name}: {document}");
        }
        let others = trust("i/A", json!({"StringEquals": {"aws:PrincipalOrgID": "o"}}));
        let Unseen(why) = trusts(&others, &taker).unwrap_err();
        assert!(why.contains("`aws:PrincipalOrgID`"), "{why}");
    }
}
