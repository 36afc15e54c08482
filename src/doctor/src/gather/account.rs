//! The account's answers.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_client::ec2::{CapacityReservationQuery, SecurityGroupQuery, SubnetQuery};
use karpenter_aws_client::error::optional;
use karpenter_aws_client::{Clients, Error, Filter, ec2, eks, iam};

use super::rights::rights;
use super::surroundings::{closed_subnets, endpoints, keys, vcpu_quotas, volumes};
use crate::checks::queue_name;
use crate::facts::{
    AccessEntry, Account, Answer, Cluster, EksCluster, Queue, Reservation, Role, SecurityGroup, Subnet,
};

const DISCOVERY: &str = "karpenter.sh/discovery";
const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

/// Every action of AWS that [`account`] asks for, as a policy names it.
pub const PERMISSIONS: [&str; 23] = [
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ec2:GetEbsDefaultKmsKeyId",
    "ec2:GetEbsEncryptionByDefault",
    "eks:DescribeAccessEntry",
    "eks:DescribeCluster",
    "eks:DescribePodIdentityAssociation",
    "eks:ListAccessEntries",
    "eks:ListPodIdentityAssociations",
    "events:ListRuleNamesByTarget",
    "iam:GetAccountSummary",
    "iam:GetRole",
    "iam:ListAttachedRolePolicies",
    "iam:SimulatePrincipalPolicy",
    "kms:GetKeyPolicy",
    "servicequotas:GetServiceQuota",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    "sqs:ListQueueTags",
    "sts:GetCallerIdentity",
];

/// Asks the account about `cluster_name`. What the cluster answered says which roles and queues to ask for.
pub async fn account(clients: &Clients, cluster_name: &str, cluster: &Cluster) -> Account {
    let filters = vec![Filter::tag(DISCOVERY, cluster_name)];
    let query = SubnetQuery { filters: filters.clone(), ..SubnetQuery::default() };
    let subnets = clients.ec2.describe_subnets(&query).await;
    let groups = SecurityGroupQuery { filters, ..SecurityGroupQuery::default() };
    let mut account = Account {
        region: Answer::Seen(clients.region.clone()),
        eks: optional(clients.eks.describe_cluster(cluster_name).await)
            .map(|found| found.map(eks_cluster))
            .into(),
        closed_subnets: of_subnets(&subnets, async |found| closed_subnets(clients, found).await).await,
        endpoints: of_subnets(&subnets, async |found| endpoints(clients, found).await).await,
        subnets: subnets.map(|found| found.iter().map(subnet).collect::<Vec<_>>()).into(),
        security_groups: clients
            .ec2
            .describe_security_groups(&groups)
            .await
            .map(|found| found.into_iter().map(security_group).collect::<Vec<_>>())
            .into(),
        roles: roles(clients, cluster_name, cluster).await.into(),
        spot_role: optional(clients.iam.get_role(SPOT_ROLE).await).map(|found| found.is_some()).into(),
        queues: queues(clients, cluster_name, cluster).await.into(),
        access_entries: access_entries(clients, cluster_name).await.into(),
        pod_identity: pod_identity(clients, cluster_name, cluster).await.into(),
        identity_limits: clients.survey.identity_limits().await.into(),
        volumes: volumes(clients).await.into(),
        vcpu_quotas: vcpu_quotas(clients).await.into(),
        reservations: clients
            .ec2
            .describe_capacity_reservations(&CapacityReservationQuery::default())
            .await
            .map(|found| found.into_iter().map(reservation).collect::<Vec<_>>())
            .into(),
        keys: Answer::Unasked,
        rights: Answer::Unasked,
    };
    // These two are about what the others found.
    account.keys = Answer::Seen(keys(clients, &account).await);
    account.rights = rights(clients, cluster_name, cluster, &account).await.into();
    account
}

/// An answer that needs the subnets; without them it is missing for the same reason.
async fn of_subnets<T>(
    subnets: &Result<Vec<ec2::Subnet>, Error>,
    question: impl AsyncFnOnce(&[ec2::Subnet]) -> Result<T, Error>,
) -> Answer<T> {
    match subnets {
        Ok(subnets) => question(subnets).await.into(),
        Err(error) => Answer::Unseen(error.to_string()),
    }
}

fn eks_cluster(found: eks::Cluster) -> EksCluster {
    EksCluster {
        version: found.version,
        authentication_mode: found.authentication_mode,
        zonal_shift: found.zonal_shift,
    }
}

fn subnet(found: &karpenter_aws_client::ec2::Subnet) -> Subnet {
    Subnet { id: found.id.to_string(), zone: found.zone.to_string(), free_addresses: found.free_addresses }
}

fn security_group(found: karpenter_aws_client::ec2::SecurityGroup) -> SecurityGroup {
    SecurityGroup { id: found.id.to_string(), tags: found.tags }
}

fn reservation(found: karpenter_aws_client::ec2::CapacityReservation) -> Reservation {
    Reservation { id: found.id.to_string(), match_criteria: found.match_criteria, state: found.state }
}

/// Roles of the classes, and those bootstrap makes.
async fn roles(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<BTreeMap<String, Option<Role>>, Error> {
    let mut names =
        BTreeSet::from([format!("KarpenterNodeRole-{cluster_name}"), format!("{cluster_name}-karpenter")]);
    let classes = cluster.node_classes.get().map(Vec::as_slice).unwrap_or_default();
    let named = classes.iter().filter_map(|class| class.spec.role.as_deref());
    names.extend(named.map(|role| role.rsplit('/').next().unwrap_or(role).to_owned()));
    let mut found = BTreeMap::new();
    for name in names.into_iter().filter(|name| name.len() <= 64) {
        let role = match optional(clients.iam.get_role(&name).await)? {
            Some(role) => Some(with_policies(clients, role).await?),
            None => None,
        };
        found.insert(name, role);
    }
    Ok(found)
}

async fn with_policies(clients: &Clients, role: iam::Role) -> Result<Role, Error> {
    let policies = clients.iam.list_attached_role_policies(&role.name).await?.len();
    let boundary = role.permissions_boundary.map(|arn| arn.to_string());
    Ok(Role { arn: role.arn.to_string(), path: role.path, trust: role.trust, boundary, policies })
}

/// The configured queue, and the ones bootstrap and the Terraform module make.
async fn queues(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<BTreeMap<String, Option<Queue>>, Error> {
    let mut names = BTreeSet::from([cluster_name.to_owned(), format!("Karpenter-{cluster_name}")]);
    if let Ok(Some(configured)) = cluster.setting("INTERRUPTION_QUEUE") {
        names.insert(queue_name(&configured).to_owned());
    }
    let mut found = BTreeMap::new();
    for name in names {
        let queue = match optional(clients.sqs.get_queue_url(&name).await)? {
            Some(url) => Some(queue(clients, &url).await?),
            None => None,
        };
        found.insert(name, queue);
    }
    Ok(found)
}

async fn queue(clients: &Clients, url: &karpenter_aws_client::id::QueueUrl) -> Result<Queue, Error> {
    let attributes = clients.sqs.get_queue_attributes(url).await?;
    let rules = match attributes.get("QueueArn") {
        Some(arn) => clients.events.list_rules_sending_to(&arn.as_str().into()).await?,
        None => Vec::new(),
    };
    Ok(Queue {
        tags: clients.sqs.list_queue_tags(url).await?,
        kms_key: attributes.get("KmsMasterKeyId").cloned(),
        rules,
    })
}

async fn access_entries(clients: &Clients, cluster_name: &str) -> Result<Vec<AccessEntry>, Error> {
    let mut found = Vec::new();
    for principal in clients.eks.list_access_entries(cluster_name).await? {
        // An entry that is deleted between the two calls is not there.
        if let Some(entry) = optional(clients.eks.describe_access_entry(cluster_name, &principal).await)? {
            found.push(AccessEntry { principal: entry.principal.to_string(), kind: entry.kind });
        }
    }
    Ok(found)
}

/// The role of the controller's service account, by Pod Identity.
async fn pod_identity(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<Option<String>, Error> {
    let deployment = cluster.controller().ok().flatten();
    let namespace = deployment.and_then(|found| found.metadata.namespace.as_deref()).unwrap_or("kube-system");
    let spec = deployment.and_then(|found| found.spec.as_ref()?.template.spec.as_ref());
    let account = spec.and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("karpenter");
    let found = clients.eks.find_pod_identity_associations(cluster_name, namespace, account).await?;
    Ok(found.first().map(|association| association.role.to_string()))
}
