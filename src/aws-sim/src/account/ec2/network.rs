//! The VPC: one private subnet per zone, a node security group, and addresses that run out.

use std::collections::BTreeMap;

use super::capacity::Refusal;
use super::filters::matches;
use crate::options::Options;
use karpenter_aws_api::ec2::{
    AvailabilityZone, LaunchTemplateData, SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery, Vpc,
    VpcQuery,
};
use karpenter_aws_api::id::{SecurityGroupId, SubnetId, VpcId, Zone};
use karpenter_aws_api::{Error, Result, Tags};
use karpenter_model::names::zone_id;

/// The network of the account.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) zones: Vec<AvailabilityZone>,
    pub(crate) vpcs: BTreeMap<VpcId, Vpc>,
    pub(crate) subnets: BTreeMap<SubnetId, Subnet>,
    pub(crate) groups: BTreeMap<SecurityGroupId, SecurityGroup>,
    /// Addresses given out so far, for names that never repeat.
    given: u32,
}

const VPC: &str = "vpc-0a0a0a0a0a0a0a0a0";
const NODE_GROUP: &str = "sg-0a0a0a0a0a0a0a0a0";

impl Network {
    pub(super) fn new(options: &Options, zones: &[Zone]) -> Self {
        let discovery = Tags::from([("karpenter.sh/discovery".to_owned(), options.cluster.clone())]);
        let zones: Vec<AvailabilityZone> = zones
            .iter()
            .zip(1..)
            .map(|(name, number)| AvailabilityZone {
                name: name.clone(),
                id: zone_id(&options.region, number).into(),
                kind: "availability-zone".to_owned(),
                state: "available".to_owned(),
            })
            .collect();
        let subnets = zones
            .iter()
            .zip(0_u32..)
            .map(|(zone, number)| {
                let subnet = Subnet {
                    id: format!("subnet-{:017x}", number + 0x0a).into(),
                    vpc: VPC.into(),
                    zone: zone.name.clone(),
                    zone_id: Some(zone.id.clone()),
                    free_addresses: options.addresses_per_subnet,
                    cidr: format!("10.0.{}.0/18", number * 64),
                    public_by_default: false,
                    tags: discovery.clone(),
                };
                (subnet.id.clone(), subnet)
            })
            .collect();
        let mut group_tags = discovery.clone();
        group_tags.insert(format!("kubernetes.io/cluster/{}", options.cluster), "owned".to_owned());
        let group = SecurityGroup {
            id: NODE_GROUP.into(),
            name: format!("eks-cluster-sg-{}", options.cluster),
            vpc: Some(VPC.into()),
            tags: group_tags,
        };
        let vpc = Vpc { id: VPC.into(), cidr: "10.0.0.0/16".into(), is_default: false, tags: Tags::new() };
        Self {
            zones,
            vpcs: BTreeMap::from([(vpc.id.clone(), vpc)]),
            subnets,
            groups: BTreeMap::from([(group.id.clone(), group)]),
            given: 0,
        }
    }

    /// Takes addresses out of a subnet; the primary one of the instance.
    pub(super) fn reserve(&mut self, subnet: &SubnetId, addresses: u32) -> Result<String, Refusal> {
        let found = self.subnets.get_mut(subnet);
        match found.filter(|subnet| subnet.free_addresses >= addresses) {
            None => {
                let text = format!(
                    "There are not enough free addresses in subnet '{subnet}' to satisfy the requested number of instances."
                );
                Err(("InsufficientFreeAddressesInSubnet", text))
            }
            Some(subnet) => {
                subnet.free_addresses -= addresses;
                self.given += 1;
                let [_, b, c, d] = self.given.to_be_bytes();
                Ok(format!("10.{b}.{c}.{d}"))
            }
        }
    }

    pub(super) fn give_back(&mut self, subnet: &SubnetId, addresses: u32) {
        if let Some(subnet) = self.subnets.get_mut(subnet) {
            subnet.free_addresses = subnet.free_addresses.saturating_add(addresses);
        }
    }

    /// Security groups of the first interface; they must exist and be of the subnet's VPC.
    pub(super) fn groups_for(
        &self,
        data: &LaunchTemplateData,
        subnet: &Subnet,
    ) -> Result<Vec<SecurityGroupId>, Refusal> {
        let wanted =
            data.network_interfaces.first().map(|first| first.security_groups.clone()).unwrap_or_default();
        for id in &wanted {
            let group = self.groups.get(id).ok_or_else(|| {
                ("InvalidGroup.NotFound", format!("The security group '{id}' does not exist"))
            })?;
            if group.vpc.as_ref() != Some(&subnet.vpc) {
                let text =
                    format!("Security group {id} and subnet {} belong to different networks.", subnet.id);
                return Err(("InvalidParameter", text));
            }
        }
        if wanted.is_empty() {
            let default = self.groups.values().find(|group| group.vpc.as_ref() == Some(&subnet.vpc));
            return Ok(default.map(|group| group.id.clone()).into_iter().collect());
        }
        Ok(wanted)
    }

    pub(super) fn vpcs(&self, query: &VpcQuery) -> Result<Vec<Vpc>> {
        known("DescribeVpcs", "InvalidVpcID.NotFound", &query.ids, |id| self.vpcs.contains_key(id))?;
        let mut found = Vec::new();
        for vpc in self.vpcs.values() {
            let fits = matches("DescribeVpcs", &query.filters, &vpc.tags, |name| match name {
                "vpc-id" => Some(vec![vpc.id.to_string()]),
                "is-default" | "isDefault" => Some(vec![vpc.is_default.to_string()]),
                _ => None,
            })?;
            if fits && (query.ids.is_empty() || query.ids.contains(&vpc.id)) {
                found.push(vpc.clone());
            }
        }
        Ok(found)
    }

    pub(super) fn subnets(&self, query: &SubnetQuery) -> Result<Vec<Subnet>> {
        known("DescribeSubnets", "InvalidSubnetID.NotFound", &query.ids, |id| self.subnets.contains_key(id))?;
        let mut found = Vec::new();
        for subnet in self.subnets.values() {
            let fits = matches("DescribeSubnets", &query.filters, &subnet.tags, |name| match name {
                "subnet-id" => Some(vec![subnet.id.to_string()]),
                "vpc-id" => Some(vec![subnet.vpc.to_string()]),
                "availability-zone" | "availabilityZone" => Some(vec![subnet.zone.to_string()]),
                "availability-zone-id" => Some(subnet.zone_id.iter().map(ToString::to_string).collect()),
                "state" => Some(vec!["available".to_owned()]),
                _ => None,
            })?;
            if fits && (query.ids.is_empty() || query.ids.contains(&subnet.id)) {
                found.push(subnet.clone());
            }
        }
        Ok(found)
    }

    pub(super) fn groups(&self, query: &SecurityGroupQuery) -> Result<Vec<SecurityGroup>> {
        let operation = "DescribeSecurityGroups";
        known(operation, "InvalidGroup.NotFound", &query.ids, |id| self.groups.contains_key(id))?;
        let mut found = Vec::new();
        for group in self.groups.values() {
            let fits = matches(operation, &query.filters, &group.tags, |name| match name {
                "group-id" => Some(vec![group.id.to_string()]),
                "group-name" => Some(vec![group.name.clone()]),
                "vpc-id" => Some(group.vpc.iter().map(ToString::to_string).collect()),
                _ => None,
            })?;
            if fits && (query.ids.is_empty() || query.ids.contains(&group.id)) {
                found.push(group.clone());
            }
        }
        Ok(found)
    }
}

fn known<T: AsRef<str>>(
    operation: &'static str,
    code: &str,
    ids: &[T],
    exists: impl Fn(&str) -> bool,
) -> Result<()> {
    match ids.iter().map(AsRef::as_ref).find(|id| !exists(id)) {
        None => Ok(()),
        Some(id) => Err(Error::answered(operation, id, code, format!("The ID '{id}' does not exist"))),
    }
}
