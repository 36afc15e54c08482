//! The account's answers.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::ec2::CapacityReservationQuery;
use karpenter_aws_api::error::optional;
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Clients, Error, ec2, eks, iam};

use super::permissions::{answer, why};
use super::rights::rights;
use super::selection::{self, Selected};
use super::surroundings::{closed_subnets, endpoints, keys, pods_by_type, vcpu_quotas, volumes};
use crate::checks::queue_name;
use crate::facts::{
    AccessEntry, Account, Answer, EksCluster, Facts, Objects, Queue, Reservation, Role, SecurityGroup, Subnet,
};

const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

/// Asks the account about the cluster of `facts`. What that answered says which roles, queues, keys and networks to ask
/// for.
pub async fn account(clients: &Clients, facts: &Facts) -> Account {
    let (name, cluster) = (facts.cluster_name.as_str(), &facts.cluster);
    let subnets = selection::subnets(clients, name, cluster).await;
    let mut account = Account {
        region: Answer::Seen(clients.region.clone()),
        eks: answer(optional(clients.eks.describe_cluster(name).await).map(|found| found.map(eks_cluster))),
        closed_subnets: of_subnets(&subnets, async |found| closed_subnets(clients, found).await).await,
        endpoints: of_subnets(&subnets, async |found| endpoints(clients, found).await).await,
        subnets: answer(subnets.map(|found| found.into_iter().map(subnet).collect())),
        security_groups: answer(
            selection::security_groups(clients, name, cluster)
                .await
                .map(|found| found.into_iter().map(security_group).collect()),
        ),
        spot_role: answer(optional(clients.iam.get_role(SPOT_ROLE).await).map(|found| found.is_some())),
        queues: answer(queues(clients, facts).await),
        access_entries: answer(access_entries(clients, name).await),
        pod_identity: answer(pod_identity(clients, facts).await),
        identity_limits: answer(clients.survey.identity_limits().await),
        volumes: answer(volumes(clients).await),
        vcpu_quotas: answer(vcpu_quotas(clients).await),
        pods_by_type: pods_by_type(clients, cluster).await,
        reservations: answer(
            clients
                .ec2
                .describe_capacity_reservations(&CapacityReservationQuery::default())
                .await
                .map(|found| found.into_iter().map(reservation).collect()),
        ),
        ..Account::default()
    };
    // These are about what the others found.
    account.identity_provider = identity_provider(clients, facts, &account).await;
    account.roles = answer(roles(clients, facts, &account).await);
    account.keys = Answer::Seen(keys(clients, &account, cluster).await);
    account.rights = answer(rights(clients, facts, &account).await);
    account
}

/// An answer that needs the subnets; without them it is missing for the same reason.
async fn of_subnets<T>(
    subnets: &Result<Selected<ec2::Subnet>, Error>,
    question: impl AsyncFnOnce(&[ec2::Subnet]) -> Result<T, Error>,
) -> Answer<T> {
    match subnets {
        Ok(subnets) => {
            let subnets: Vec<ec2::Subnet> = subnets.iter().map(|(subnet, _)| subnet.clone()).collect();
            answer(question(&subnets).await)
        }
        Err(error) => Answer::Unseen(why(error)),
    }
}

fn eks_cluster(found: eks::Cluster) -> EksCluster {
    EksCluster {
        version: found.version,
        authentication_mode: found.authentication_mode,
        zonal_shift: found.zonal_shift,
        issuer: found.oidc_issuer,
    }
}

fn subnet((found, classes): (ec2::Subnet, BTreeSet<String>)) -> Subnet {
    Subnet {
        id: found.id.to_string(),
        zone: found.zone.to_string(),
        free_addresses: found.free_addresses,
        classes,
    }
}

fn security_group((found, classes): (ec2::SecurityGroup, BTreeSet<String>)) -> SecurityGroup {
    SecurityGroup { id: found.id.to_string(), tags: found.tags, classes }
}

fn reservation(found: ec2::CapacityReservation) -> Reservation {
    Reservation {
        id: found.id.to_string(),
        match_criteria: found.match_criteria,
        state: found.state,
        instance_type: found.instance_type.to_string(),
        zone: found.zone.to_string(),
        available: found.available,
    }
}

/// Roles of the classes, the controller's, and those bootstrap makes.
async fn roles(
    clients: &Clients,
    facts: &Facts,
    account: &Account,
) -> Result<BTreeMap<String, Option<Role>>, Error> {
    let mut names = BTreeSet::from([facts.names.node_role.clone(), facts.names.controller_role.clone()]);
    let classes = facts.cluster.node_classes.get().map(Objects::decoded).unwrap_or_default();
    let named = classes.iter().filter_map(|class| class.spec.role.as_deref());
    let own = account.pod_identity.get().ok().and_then(Option::as_deref);
    let own = own.or(facts.cluster.annotated_role().ok().flatten());
    names.extend(named.chain(own).map(|role| role.rsplit('/').next().unwrap_or(role).to_owned()));
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
    let created_at = role.created_at;
    Ok(Role { arn: role.arn.to_string(), path: role.path, trust: role.trust, boundary, policies, created_at })
}

/// The configured queue, and the ones bootstrap and the Terraform module make.
async fn queues(clients: &Clients, facts: &Facts) -> Result<BTreeMap<String, Option<Queue>>, Error> {
    let mut names = BTreeSet::from([facts.names.queue.clone(), format!("Karpenter-{}", facts.cluster_name)]);
    if let Ok(Some(configured)) = facts.cluster.setting("INTERRUPTION_QUEUE") {
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

async fn queue(clients: &Clients, url: &karpenter_aws_api::id::QueueUrl) -> Result<Queue, Error> {
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
            found.push(AccessEntry {
                principal: entry.principal.to_string(),
                kind: entry.kind,
                created_at: entry.created_at,
            });
        }
    }
    Ok(found)
}

/// The role of the controller's service account, by Pod Identity.
async fn pod_identity(clients: &Clients, facts: &Facts) -> Result<Option<String>, Error> {
    let (namespace, account) = facts.cluster.service_account();
    let found = clients.eks.find_pod_identity_associations(&facts.cluster_name, namespace, account).await?;
    Ok(found.first().map(|association| association.role.to_string()))
}

/// Asks whether IAM knows the cluster's issuer, if the controller takes its role on by web identity.
async fn identity_provider(clients: &Clients, facts: &Facts, account: &Account) -> Answer<Option<bool>> {
    let role = match facts.cluster.annotated_role() {
        Ok(Some(role)) => role,
        Ok(None) => return Answer::Seen(None),
        Err(unseen) => return Answer::Unseen(unseen.0),
    };
    let issuer = match account.eks.get() {
        Ok(eks) => eks.as_ref().and_then(|eks| eks.issuer.as_deref()),
        Err(unseen) => return Answer::Unseen(unseen.0),
    };
    let provider = issuer.and_then(|issuer| provider_arn(role, issuer));
    let Some(provider) = provider else { return Answer::Seen(None) };
    answer(ask_for_provider(clients, role, &provider).await)
}

/// `arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC`, in the account of the role.
fn provider_arn(role: &str, issuer: &str) -> Option<Arn> {
    let (account, _) = role.split_once(":role/")?;
    Some(format!("{account}:oidc-provider/{}", issuer.trim_start_matches("https://")).as_str().into())
}

async fn ask_for_provider(clients: &Clients, role: &str, provider: &Arn) -> Result<Option<bool>, Error> {
    // The providers of another account are not ours to ask for.
    let own = clients.sts.get_caller_identity().await?.account;
    if !role.contains(&format!("::{own}:")) {
        return Ok(None);
    }
    Ok(Some(optional(clients.iam.get_open_id_connect_provider(provider).await)?.is_some()))
}
