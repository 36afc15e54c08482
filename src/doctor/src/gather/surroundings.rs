//! Surroundings of the cluster: routes, endpoints, encryption, keys, quotas.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::ec2::{InstanceTypeQuery, Subnet};
use karpenter_aws_api::error::optional;
use karpenter_aws_api::id::VpcId;
use karpenter_aws_api::survey::RouteTable;
use karpenter_aws_api::{Clients, Error, Filter};

use super::permissions::answer;
use crate::facts::{Account, Answer, Cluster, Endpoint, Key, Objects, Unseen, Volumes};

/// Codes of the quotas on vCPUs of standard instances (families A, C, D, H, I, M, R, T, Z).
const VCPUS: [(&str, &str); 2] = [("on-demand", "L-1216C47A"), ("spot", "L-34B43A08")];
/// AWS's own keys, which cannot be changed and which all callers of the account may use.
const OWN_KEYS: &str = "alias/aws/";
/// Values that EC2 takes in one filter.
const VALUES_MAX: usize = 200;

/// The VPCs of subnets.
fn vpcs(subnets: &[Subnet]) -> BTreeSet<VpcId> {
    subnets.iter().map(|subnet| subnet.vpc.clone()).collect()
}

/// Subnets from which no default route leads anywhere.
pub(super) async fn closed_subnets(clients: &Clients, subnets: &[Subnet]) -> Result<Vec<String>, Error> {
    let mut closed = Vec::new();
    for vpc in vpcs(subnets) {
        let tables = clients.survey.route_tables(&vpc).await?;
        let leads_out = |subnet: &Subnet| {
            let named = |table: &&RouteTable| table.subnets.contains(&subnet.id);
            let table = tables.iter().find(named).or_else(|| tables.iter().find(|table| table.is_main));
            table.is_none_or(|table| table.leads_out)
        };
        let of_vpc = subnets.iter().filter(|subnet| subnet.vpc == vpc);
        closed.extend(of_vpc.filter(|subnet| !leads_out(subnet)).map(|subnet| subnet.id.to_string()));
    }
    Ok(closed)
}

/// Every endpoint of the subnets' VPCs.
pub(super) async fn endpoints(clients: &Clients, subnets: &[Subnet]) -> Result<Vec<Endpoint>, Error> {
    let mut endpoints = Vec::new();
    for vpc in vpcs(subnets) {
        endpoints.extend(clients.survey.vpc_endpoints(&vpc).await?.into_iter().map(|found| Endpoint {
            id: found.id,
            service: found.service,
            state: found.state,
            private_names: found.private_names,
        }));
    }
    Ok(endpoints)
}

pub(super) async fn volumes(clients: &Clients) -> Result<Volumes, Error> {
    let found = clients.survey.volume_encryption().await?;
    Ok(Volumes { encrypted: found.by_default, key: found.key })
}

/// Keys of the account's own that encrypt queues, or volumes: without being asked, or because a class says so.
fn own_keys(account: &Account, cluster: &Cluster) -> BTreeSet<String> {
    let queues = account.queues.get().into_iter().flat_map(BTreeMap::values).flatten();
    let of_queues = queues.filter_map(|queue| queue.kms_key.clone());
    let volumes = account.volumes.get().into_iter().filter(|volumes| volumes.encrypted);
    let of_volumes = volumes.map(|volumes| volumes.key.clone());
    let classes = cluster.node_classes.get().into_iter().flat_map(Objects::decoded);
    let of_classes = classes.flat_map(crate::checks::volume_keys).map(str::to_owned);
    of_queues.chain(of_volumes).chain(of_classes).filter(|key| !key.contains(OWN_KEYS)).collect()
}

/// Each key that account and classes name. One that may not be read hides no other.
pub(super) async fn keys(
    clients: &Clients,
    account: &Account,
    cluster: &Cluster,
) -> BTreeMap<String, Answer<Key>> {
    let mut keys = BTreeMap::new();
    for name in own_keys(account, cluster) {
        let found = clients.survey.key(&name).await;
        keys.insert(name, answer(found.map(|found| Key { arn: found.arn, policy: found.policy })));
    }
    keys
}

/// Pods that an instance has addresses for, by the rule of the VPC CNI: the first address of each interface is its own,
/// and two pods share the node's. Only for types that classes with `maxPods` have to do with.
pub(super) async fn pods_by_type(clients: &Clients, cluster: &Cluster) -> Answer<BTreeMap<String, u32>> {
    match crowded_types(cluster) {
        Ok(types) => answer(rooms(clients, types).await),
        Err(unseen) => Answer::Unseen(unseen.0),
    }
}

/// Types of the classes that say how many pods a node takes.
fn crowded_types(cluster: &Cluster) -> Result<BTreeSet<String>, Unseen> {
    let mut types = BTreeSet::new();
    for class in cluster.node_classes.if_asked()?.into_iter().flat_map(Objects::decoded) {
        if class.spec.kubelet.as_ref().is_some_and(|kubelet| kubelet.settings().max_pods.is_some()) {
            types.extend(cluster.types_of(class)?);
        }
    }
    Ok(types)
}

async fn rooms(clients: &Clients, types: BTreeSet<String>) -> Result<BTreeMap<String, u32>, Error> {
    let types: Vec<String> = types.into_iter().collect();
    let mut rooms = BTreeMap::new();
    for some in types.chunks(VALUES_MAX) {
        // By filter: a type that the region does not have is then left out instead of failing the question.
        let filter = Filter::new("instance-type", some.iter().map(String::as_str));
        let query = InstanceTypeQuery { filters: vec![filter], ..InstanceTypeQuery::default() };
        for found in clients.ec2.describe_instance_types(&query).await?.items {
            let addresses = found.ipv4_addresses_per_interface.saturating_sub(1);
            let room = found.maximum_network_interfaces.saturating_mul(addresses).saturating_add(2);
            rooms.insert(found.name.to_string(), room);
        }
    }
    Ok(rooms)
}

/// Quotas that Service Quotas knows in this region.
pub(super) async fn vcpu_quotas(clients: &Clients) -> Result<BTreeMap<String, u64>, Error> {
    let mut quotas = BTreeMap::new();
    for (capacity, code) in VCPUS {
        if let Some(value) = optional(clients.survey.quota("ec2", code).await)? {
            quotas.insert(capacity.to_owned(), value);
        }
    }
    Ok(quotas)
}
