//! What IAM says to what the controller must be able to do.
//!
//! A simulation asks about one resource. Most statements of the controller's policies are bound to tags and ARNs
//! that only a launch has, so their effect cannot be asked for in general; what boundaries and organisations say to
//! an action as such can, and so can the passing of a role.

use std::collections::BTreeMap;

use karpenter_aws_client::error::optional;
use karpenter_aws_client::survey::Simulation;
use karpenter_aws_client::{Clients, Error, Partition};

use crate::facts::{Account, Cluster, Right, label};

/// One action of each kind the controller needs, for boundaries and organisations.
const ACTIONS: [&str; 12] = [
    "ec2:CreateFleet",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:DescribeInstanceTypes",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "eks:DescribeCluster",
    "iam:CreateInstanceProfile",
    "iam:PassRole",
    "pricing:GetProducts",
    "sqs:ReceiveMessage",
    "ssm:GetParameter",
];
/// What EC2 does with the key of a volume, in the name of who launches.
const WITH_A_KEY: [&str; 3] = ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"];

/// The ARN of the role the controller has or will have; `None` when nobody knows one.
async fn controller_role(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
    account: &Account,
) -> Result<Option<String>, Error> {
    if let Ok(Some(role)) = account.pod_identity.get() {
        return Ok(Some(role.clone()));
    }
    let by_annotation = cluster.controller().ok().flatten().and_then(|deployment| {
        let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
        let name = spec.service_account_name.as_deref()?;
        let accounts = cluster.service_accounts.get().ok()?;
        let own = accounts.iter().find(|found| {
            found.metadata.namespace == deployment.metadata.namespace
                && found.metadata.name.as_deref() == Some(name)
        })?;
        label(own.metadata.annotations.as_ref(), "eks.amazonaws.com/role-arn").map(str::to_owned)
    });
    if by_annotation.is_some() {
        return Ok(by_annotation);
    }
    let made_by_us = clients.iam.get_role(&format!("{cluster_name}-karpenter")).await;
    Ok(optional(made_by_us)?.map(|role| role.arn.to_string()))
}

/// Asks for everything; nothing when the controller has no role yet.
pub(super) async fn rights(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
    account: &Account,
) -> Result<Vec<Right>, Error> {
    let Some(role) = controller_role(clients, cluster_name, cluster, account).await? else {
        return Ok(Vec::new());
    };
    let mut rights = ask(clients, &role, &ACTIONS, "*").await?;
    let nodes = account.roles.get().into_iter().flatten().filter_map(|(_, role)| role.as_ref());
    for passed in nodes.filter(|found| found.arn != role) {
        rights.extend(ask(clients, &role, &["iam:PassRole"], &passed.arn).await?);
    }
    let keys = account.keys.get().into_iter().flat_map(BTreeMap::keys);
    for key in keys.filter(|key| key.starts_with("arn:")) {
        rights.extend(ask(clients, &role, &WITH_A_KEY, key).await?);
    }
    Ok(rights)
}

async fn ask(clients: &Clients, role: &str, actions: &[&str], resource: &str) -> Result<Vec<Right>, Error> {
    let suffix = Partition::of_region(&clients.region).dns_suffix();
    let request = Simulation {
        principal: role.into(),
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        resource: resource.to_owned(),
        context: BTreeMap::from([
            ("aws:RequestedRegion".to_owned(), clients.region.clone()),
            ("iam:PassedToService".to_owned(), format!("ec2.{suffix}")),
        ]),
    };
    let verdicts = clients.survey.simulate(&request).await?;
    Ok(verdicts
        .into_iter()
        .map(|verdict| Right {
            role: role.to_owned(),
            action: verdict.action,
            resource: resource.to_owned(),
            allowed: verdict.is_allowed,
            by_boundary: verdict.by_boundary,
            by_organization: verdict.by_organization,
        })
        .collect())
}
