//! The calls of the controller, held against the policies of its role as they are in the account.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::Clients;
use karpenter_aws_api::iam::Role;
use karpenter_iam::{Decision, Policies, Policy, Request};

use super::{Right, Rights};
use crate::account::Control;
use crate::account::control::Question;

/// Service whose pods take the role on.
const PODS: &str = "pods.eks.amazonaws.com";

/// Evaluates every call that was made with the credentials of `role`; fails with those IAM would have refused, and when
/// there was none.
pub async fn check(control: &Control, aws: &Clients, role: &str, cluster: &str) -> Result<Rights> {
    let role = aws.iam.get_role(role).await.context("read the controller's role")?;
    trusts_pods(&role, aws, cluster).await?;
    let policies = policies(aws, &role).await?;
    let questions = control.questions(role.arn.as_str()).await?;
    ensure!(!questions.is_empty(), "no call was made with the credentials of `{}`", role.arn);
    evaluate(&policies, &questions)
}

/// Checks that the role's trust document admits the cluster's pods.
async fn trusts_pods(role: &Role, aws: &Clients, cluster: &str) -> Result<()> {
    let cluster = aws.eks.describe_cluster(cluster).await.context("read the cluster")?;
    let account = cluster.arn.as_str().split(':').nth(4).context("an ARN has an account")?.to_owned();
    let trust = Policies::of(vec![Policy::of_resource(&role.trust).context("read the role's trust")?]);
    for action in ["sts:AssumeRole", "sts:TagSession"] {
        let request = Request::new(action, role.arn.as_str())
            .by("Service", PODS)
            .with("aws:SourceAccount", &account)
            .with("aws:SourceArn", cluster.arn.as_str());
        if let Decision::Denied(denial) = trust.decide(&request) {
            anyhow::bail!("pods cannot take on `{}`: {action} is {denial}", role.arn);
        }
    }
    Ok(())
}

/// Returns the policies attached to the role, in the versions that are in force, and its boundary.
async fn policies(aws: &Clients, role: &Role) -> Result<Policies> {
    let mut attached = Vec::new();
    for policy in aws.iam.list_attached_role_policies(&role.name).await? {
        attached.push(in_force(aws, &policy.arn).await?);
    }
    let boundary = match &role.permissions_boundary {
        Some(arn) => Some(in_force(aws, arn).await?),
        None => None,
    };
    Ok(Policies { attached, boundary })
}

async fn in_force(aws: &Clients, arn: &karpenter_aws_api::id::Arn) -> Result<Policy> {
    let version = aws.iam.get_policy(arn).await?.default_version;
    let text = aws.iam.get_policy_version(arn, &version).await?;
    Policy::of_identity(&text).with_context(|| format!("read policy `{arn}`"))
}

/// Answers every question; fails with the denied ones.
pub fn evaluate(policies: &Policies, questions: &[Question]) -> Result<Rights> {
    let right = |(sid, pattern): (&str, &str)| Right::new(sid, pattern);
    let mut rights = Rights::default();
    rights.granted.extend(policies.attached.iter().flat_map(Policy::grants).map(right));
    let mut denied = BTreeSet::new();
    for question in questions {
        let request = question.request();
        match policies.decide(&request) {
            Decision::Allowed(_) => {
                let used = policies.attached.iter().flat_map(|policy| policy.used_by(&request));
                rights.used.extend(used.map(right));
            }
            Decision::Denied(denial) => {
                denied.insert(format!(
                    "{} of {} on {}: {denial}",
                    question.action, question.call, question.resource
                ));
            }
        }
    }
    ensure!(
        denied.is_empty(),
        "IAM would have refused {} calls:\n{}",
        denied.len(),
        denied.into_iter().collect::<Vec<_>>().join("\n")
    );
    Ok(rights)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(action: &str, tag: &str) -> Question {
        let row = json!({
            "call": "ec2:TerminateInstances", "action": action, "count": 1,
            "resource": "arn:aws:ec2:us-west-2:123456789012:instance/i-1",
            "context": {"aws:ResourceTag/owner": tag, "aws:TagKeys": ["a", "b"]},
        });
        serde_json::from_value(row).unwrap()
    }

    fn policies() -> Policies {
        let text = r#"{"Version":"2012-10-17","Statement":[{"Sid":"Own","Effect":"Allow",
            "Action":["ec2:TerminateInstances","ec2:StopInstances"],"Resource":"*","Condition":{
                "StringEquals":{"aws:ResourceTag/owner":"us"},
                "ForAllValues:StringEquals":{"aws:TagKeys":["a","b"]}}}]}"#;
        Policies::of(vec![Policy::of_identity(text).unwrap()])
    }

    #[test]
    fn what_was_not_used_is_known_by_statement() {
        let rights = evaluate(&policies(), &[question("ec2:TerminateInstances", "us")]).unwrap();
        assert_eq!(rights.unused().collect::<Vec<_>>(), [&Right::new("Own", "ec2:StopInstances")]);
        assert_eq!(
            rights.report(),
            "used   Own: *\nunused Own: ec2:StopInstances\nused   Own: ec2:TerminateInstances\n"
        );
    }

    #[test]
    fn a_denied_call_is_named_with_the_statement_that_came_nearest() {
        let questions =
            [question("ec2:TerminateInstances", "them"), question("ec2:TerminateInstances", "them")];
        let error = evaluate(&policies(), &questions).unwrap_err().to_string();
        assert!(
            error.starts_with("IAM would have refused 1 calls:\nec2:TerminateInstances of ec2:Terminate"),
            "{error}"
        );
        assert!(
            error.contains("nearest is `Own`") && error.contains(r#"the request has ["them"]"#),
            "{error}"
        );
    }
}
