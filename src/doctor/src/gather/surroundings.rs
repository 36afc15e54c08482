//! What stands around the cluster: routes, endpoints, encryption, keys, quotas.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_client::ec2::Subnet;
use karpenter_aws_client::error::optional;
use karpenter_aws_client::id::VpcId;
use karpenter_aws_client::survey::RouteTable;
use karpenter_aws_client::{Clients, Error};

use crate::facts::{Account, Answer, Endpoint, Volumes};

/// Codes of the quotas on vCPUs of standard instances (families A, C, D, H, I, M, R, T, Z).
const VCPUS: [(&str, &str); 2] = [("on-demand", "L-1216C47A"), ("spot", "L-34B43A08")];
/// AWS's own keys, which nobody can change and everybody of the account may use.
const OWN_KEYS: &str = "alias/aws/";

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

/// Keys of the account's own that encrypt queues, or volumes without being asked.
fn own_keys(account: &Account) -> BTreeSet<String> {
    let queues = account.queues.get().into_iter().flat_map(BTreeMap::values).flatten();
    let of_queues = queues.filter_map(|queue| queue.kms_key.clone());
    let volumes = account.volumes.get().into_iter().filter(|volumes| volumes.encrypted);
    let of_volumes = volumes.map(|volumes| volumes.key.clone());
    of_queues.chain(of_volumes).filter(|key| !key.contains(OWN_KEYS)).collect()
}

/// The policy of each key that `account` names. One that may not be read hides no other.
pub(super) async fn keys(clients: &Clients, account: &Account) -> BTreeMap<String, Answer<String>> {
    let mut policies = BTreeMap::new();
    for key in own_keys(account) {
        let policy = clients.survey.key_policy(&key).await.into();
        policies.insert(key, policy);
    }
    policies
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
