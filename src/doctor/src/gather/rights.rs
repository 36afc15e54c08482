//! Decisions of IAM on what the controller must be able to do.
//!
//! A simulation asks about one resource. Most statements of the controller's policies are bound to tags and ARNs
//! that only a launch has, and so are boundaries: each action is asked about a thing as the controller handles it, with
//! the tags it gives. Whether the policies themselves allow it in every case cannot be asked for in general; what
//! boundaries and organisations say to it can, and so can the passing of a role.

use std::collections::BTreeMap;

use karpenter_aws_api::error::optional;
use karpenter_aws_api::survey::Simulation;
use karpenter_aws_api::{Clients, Error, Partition};
use karpenter_model::names;

use crate::facts::{Account, Facts, Right};

/// Actions of EC2 on the key of a volume, in the name of the principal that launches.
const WITH_A_KEY: [&str; 3] = ["kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"];

/// Principal that instances have their role from: EC2 has this name in every partition, whatever its endpoints are called.
const EC2: &str = "ec2.amazonaws.com";

/// One action of each kind the controller needs, for boundaries and organisations, by the resource it acts on.
fn actions(clients: &Clients, facts: &Facts, role: &str) -> Vec<(String, &'static [&'static str])> {
    let (region, cluster) = (&clients.region, &facts.cluster_name);
    let partition = Partition::of_region(region).arn_prefix();
    // `arn:aws:iam::123456789012:role/...`
    let owner = role.split(':').nth(4).unwrap_or_default();
    let of = |service: &str, region: &str, owner: &str, resource: &str| {
        format!("arn:{partition}:{service}:{region}:{owner}:{resource}")
    };
    let ec2 = |resource: &str| of("ec2", region, owner, &format!("{resource}0123456789abcdef0"));
    let queue = facts.cluster.setting("INTERRUPTION_QUEUE").ok().flatten();
    let queue = queue.as_deref().map_or(facts.names.queue.as_str(), crate::checks::queue_name);
    let reboots = facts.cluster.opens("AWS_FEATURE_GATES", "RebootForRepair").unwrap_or(false);
    let profile = format!("instance-profile/karpenter/{region}/{cluster}/default/{cluster}_0123456789");
    let mut actions: Vec<(String, &'static [&'static str])> = vec![
        (ec2("fleet/fleet-"), &["ec2:CreateFleet"]),
        (ec2("launch-template/lt-"), &["ec2:CreateLaunchTemplate"]),
        (ec2("instance/i-"), &["ec2:CreateTags", "ec2:RunInstances", "ec2:TerminateInstances"]),
        ("*".to_owned(), &["ec2:DescribeInstanceTypes", "pricing:GetProducts"]),
        (of("eks", region, owner, &format!("cluster/{cluster}")), &["eks:DescribeCluster"]),
        (of("iam", "", owner, &profile), &["iam:CreateInstanceProfile"]),
        (of("sqs", region, owner, queue), &["sqs:ReceiveMessage"]),
        (of("ssm", region, "", "parameter/aws/service/eks/optimized-ami"), &["ssm:GetParameter"]),
    ];
    // Needed behind a gate alone.
    actions.extend(reboots.then(|| (ec2("instance/i-"), &["ec2:RebootInstances"][..])));
    actions
}

/// The tags of a launch, as a request gives them and as resources then have them, and the rest of what statements are
/// bound to.
fn context(clients: &Clients, facts: &Facts) -> BTreeMap<String, String> {
    let cluster_key = format!("{}{}", names::tag::CLUSTER_PREFIX, facts.cluster_name);
    let tags = [
        (cluster_key.as_str(), "owned"),
        (names::tag::CLUSTER_NAME, facts.cluster_name.as_str()),
        (names::label::NODE_POOL, "default"),
        (names::tag::NODE_CLAIM, "default-abcde"),
        (names::label::aws::EC2_NODE_CLASS, "default"),
        (names::label::REGION, clients.region.as_str()),
    ];
    let tags = tags.into_iter().flat_map(|(key, value)| {
        ["aws:RequestTag", "aws:ResourceTag"].map(|of| (format!("{of}/{key}"), value.to_owned()))
    });
    let mut context: BTreeMap<String, String> = tags.collect();
    context.insert("aws:RequestedRegion".to_owned(), clients.region.clone());
    context.insert("iam:PassedToService".to_owned(), EC2.to_owned());
    context.insert("ec2:CreateAction".to_owned(), "RunInstances".to_owned());
    context
}

/// The ARN of the role the controller has or will have; `None` when it is unknown.
async fn controller_role(
    clients: &Clients,
    facts: &Facts,
    account: &Account,
) -> Result<Option<String>, Error> {
    if let Ok(Some(role)) = account.pod_identity.get() {
        return Ok(Some(role.clone()));
    }
    if let Ok(Some(role)) = facts.cluster.annotated_role() {
        return Ok(Some(role.to_owned()));
    }
    let made_by_us = clients.iam.get_role(&facts.names.controller_role).await;
    Ok(optional(made_by_us)?.map(|role| role.arn.to_string()))
}

/// Asks for everything; nothing when the controller has no role yet.
pub(super) async fn rights(clients: &Clients, facts: &Facts, account: &Account) -> Result<Vec<Right>, Error> {
    let Some(role) = controller_role(clients, facts, account).await? else {
        return Ok(Vec::new());
    };
    let context = context(clients, facts);
    let mut rights = Vec::new();
    for (resource, actions) in actions(clients, facts, &role) {
        rights.extend(ask(clients, &role, actions, &resource, &context).await?);
    }
    let nodes = account.roles.get().into_iter().flatten().filter_map(|(_, role)| role.as_ref());
    for passed in nodes.filter(|found| found.arn != role) {
        rights.extend(ask(clients, &role, &["iam:PassRole"], &passed.arn, &context).await?);
    }
    let keys = account.keys.get().into_iter().flat_map(BTreeMap::values).filter_map(|key| key.get().ok());
    for key in keys {
        rights.extend(ask(clients, &role, &WITH_A_KEY, &key.arn, &context).await?);
    }
    Ok(rights)
}

async fn ask(
    clients: &Clients,
    role: &str,
    actions: &[&str],
    resource: &str,
    context: &BTreeMap<String, String>,
) -> Result<Vec<Right>, Error> {
    let request = Simulation {
        principal: role.into(),
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        resource: resource.to_owned(),
        context: context.clone(),
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

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Account, Options};

    use super::*;
    use crate::facts::Names;

    #[test]
    fn a_role_is_passed_to_ec2_by_the_name_it_has_in_every_partition() {
        let names = Names { node_role: String::new(), controller_role: String::new(), queue: String::new() };
        let facts = Facts::new("demo", names, jiff::Timestamp::UNIX_EPOCH);
        for region in ["us-west-2", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "eusc-de-east-1"] {
            let options = Options { region: region.to_owned(), ..Options::default() };
            let asked = context(&Account::new(options).clients(), &facts);
            assert_eq!(asked["iam:PassedToService"], "ec2.amazonaws.com", "{region}");
        }
    }
}
