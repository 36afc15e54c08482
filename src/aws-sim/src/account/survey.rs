//! Queries of a diagnosis: encryption, endpoints, routes, keys, quotas, and what IAM would say.
//!
//! A new account is one in which nothing is wrong: volumes are encrypted with AWS's own key if at all, subnets have
//! a way out, and no organisation denies anything.

use std::collections::BTreeMap;

use async_trait::async_trait;
use karpenter_aws_api::id::VpcId;
use karpenter_aws_api::{Error, Result};
use karpenter_iam::matches as glob;

use super::{Account, State};
use crate::policy;
use karpenter_aws_api::survey::{
    Key, RouteTable, SimulatedDecision, Simulation, Survey, VolumeEncryption, VpcEndpoint,
};

/// Tables that nothing but a diagnosis looks at.
#[derive(Debug)]
pub(super) struct Surroundings {
    encryption: VolumeEncryption,
    endpoints: Vec<VpcEndpoint>,
    routes: Vec<RouteTable>,
    /// Each key, by what it is asked for with.
    keys: BTreeMap<String, Key>,
    /// Quotas by service and code.
    quotas: BTreeMap<(String, String), u64>,
    /// IAM's quotas that differ from AWS's defaults.
    limits: BTreeMap<String, u64>,
    /// Patterns of actions that a service control policy denies; `None` outside an organisation.
    denied: Option<Vec<String>>,
}

impl Surroundings {
    /// Surroundings of VPCs.
    pub(super) fn new(vpcs: impl Iterator<Item = VpcId>) -> Self {
        let table = |vpc: VpcId| RouteTable {
            id: format!("rtb-{}", vpc.as_str().trim_start_matches("vpc-")),
            vpc,
            is_main: true,
            subnets: Vec::new(),
            leads_out: true,
            is_public: false,
        };
        let quota = |code: &str, value| (("ec2".to_owned(), code.to_owned()), value);
        Self {
            encryption: VolumeEncryption { by_default: false, key: "alias/aws/ebs".to_owned() },
            endpoints: Vec::new(),
            routes: vpcs.map(table).collect(),
            keys: BTreeMap::new(),
            quotas: BTreeMap::from([quota("L-1216C47A", 1152), quota("L-34B43A08", 1152)]),
            limits: BTreeMap::new(),
            denied: None,
        }
    }
}

/// Surroundings of the cluster.
impl Account {
    /// Sets the encryption of volumes from now on.
    pub fn set_volume_encryption(&self, encryption: VolumeEncryption) {
        self.truth(|state, _| state.surroundings.encryption = encryption);
    }

    /// Adds a VPC endpoint, or replaces the one with its id.
    pub fn put_vpc_endpoint(&self, endpoint: VpcEndpoint) {
        self.truth(|state, _| {
            state.surroundings.endpoints.retain(|found| found.id != endpoint.id);
            state.surroundings.endpoints.push(endpoint);
        });
    }

    /// Adds a route table, or replaces the one with its id.
    pub fn put_route_table(&self, table: RouteTable) {
        self.truth(|state, _| {
            state.surroundings.routes.retain(|found| found.id != table.id);
            state.surroundings.routes.push(table);
        });
    }

    /// Subnets of no other table have a default route, or not.
    pub fn set_way_out(&self, leads_out: bool) {
        self.truth(|state, _| {
            let main = state.surroundings.routes.iter_mut().filter(|table| table.is_main);
            main.for_each(|table| table.leads_out = leads_out);
        });
    }

    /// Adds a customer's key, or replaces its policy. `name` is what it is asked for with: its ARN, or an alias.
    pub fn put_key(&self, name: &str, key: Key) {
        self.truth(|state, _| state.surroundings.keys.insert(name.to_owned(), key));
    }

    /// Sets what Service Quotas reports. Launches are limited by [`Account::set_quotas`].
    pub fn set_reported_quota(&self, service: &str, code: &str, value: u64) {
        self.truth(|state, _| {
            state.surroundings.quotas.insert((service.to_owned(), code.to_owned()), value);
        });
    }

    /// Sets what IAM reports as one of its limits, such as `InstanceProfilesQuota`.
    pub fn set_identity_limit(&self, name: &str, value: u64) {
        self.truth(|state, _| state.surroundings.limits.insert(name.to_owned(), value));
    }

    /// The account is in an organisation that denies actions which match one of these patterns.
    pub fn deny_in_organization(&self, patterns: &[&str]) {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        self.truth(|state, _| state.surroundings.denied = Some(patterns));
    }
}

#[async_trait]
impl Survey for Account {
    async fn volume_encryption(&self) -> Result<VolumeEncryption> {
        self.call("GetEbsEncryptionByDefault", "region", |state, _| Ok(state.surroundings.encryption.clone()))
            .await
    }

    async fn vpc_endpoints(&self, vpc: &VpcId) -> Result<Vec<VpcEndpoint>> {
        self.call("DescribeVpcEndpoints", vpc.as_str(), |state, _| {
            Ok(state.surroundings.endpoints.iter().filter(|found| found.vpc == *vpc).cloned().collect())
        })
        .await
    }

    async fn route_tables(&self, vpc: &VpcId) -> Result<Vec<RouteTable>> {
        self.call("DescribeRouteTables", vpc.as_str(), |state, _| {
            Ok(state.surroundings.routes.iter().filter(|found| found.vpc == *vpc).cloned().collect())
        })
        .await
    }

    async fn key(&self, key: &str) -> Result<Key> {
        self.call("GetKeyPolicy", key, |state, _| {
            state.surroundings.keys.get(key).cloned().ok_or_else(|| {
                let text = format!("Key '{key}' does not exist");
                Error::answered("DescribeKey", key, "NotFoundException", text)
            })
        })
        .await
    }

    async fn quota(&self, service: &str, code: &str) -> Result<u64> {
        let subject = format!("{service}/{code}");
        let wanted = (service.to_owned(), code.to_owned());
        self.call("GetServiceQuota", &subject, |state, _| {
            state.surroundings.quotas.get(&wanted).copied().ok_or_else(|| {
                let text = "The request failed because the specified service or quota does not exist.";
                Error::answered("GetServiceQuota", &subject, "NoSuchResourceException", text)
            })
        })
        .await
    }

    async fn identity_limits(&self) -> Result<BTreeMap<String, u64>> {
        self.call("GetAccountSummary", "account", |state, _| Ok(limits(state))).await
    }

    async fn simulate(&self, request: &Simulation) -> Result<Vec<SimulatedDecision>> {
        self.call("SimulatePrincipalPolicy", request.principal.as_str(), |state, _| simulate(state, request))
            .await
    }
}

fn limits(state: &State) -> BTreeMap<String, u64> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut limits = BTreeMap::from([
        ("AttachedPoliciesPerRoleQuota".to_owned(), 10),
        ("InstanceProfiles".to_owned(), count(state.directory.profiles.len())),
        ("InstanceProfilesQuota".to_owned(), 1000),
        ("Roles".to_owned(), count(state.directory.roles.len())),
        ("RolesQuota".to_owned(), 1000),
    ]);
    limits.extend(state.surroundings.limits.clone());
    limits
}

fn simulate(state: &mut State, request: &Simulation) -> Result<Vec<SimulatedDecision>> {
    let (own, boundary) = state.directory.documents_of(&request.principal)?;
    let denied = state.surroundings.denied.as_ref();
    let verdict = |action: &String| {
        let asked = policy::Identity { action, resource: &request.resource, context: &request.context };
        let by_boundary = boundary.as_ref().map(|document| policy::grants([document.as_str()], asked));
        let by_organization = denied.map(|patterns| !patterns.iter().any(|pattern| glob(pattern, action)));
        let by_own = policy::grants(own.iter().map(String::as_str), asked);
        SimulatedDecision {
            action: action.clone(),
            is_allowed: by_own && by_boundary.unwrap_or(true) && by_organization.unwrap_or(true),
            by_boundary,
            by_organization,
        }
    };
    Ok(request.actions.iter().map(verdict).collect())
}
