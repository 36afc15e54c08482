//! Queries that only a diagnosis makes: how the account encrypts, routes and limits, and what a role may do (spec
//! aws-operations 1.14, 7.3).
//!
//! The calls are of several services, but of one caller: `karpenter doctor`, with the rights of its user.
//! The controller never makes them, so they are no part of its permissions; `karpenter bootstrap` makes one, to tell
//! private subnets from others.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;

use crate::Result;
use crate::id::{Arn, SubnetId, VpcId};

/// The calls of a diagnosis. None changes anything.
#[async_trait]
pub trait Survey: Send + Sync + Debug {
    /// `ec2:GetEbsEncryptionByDefault` and `ec2:GetEbsDefaultKmsKeyId`.
    async fn volume_encryption(&self) -> Result<VolumeEncryption>;

    /// `ec2:DescribeVpcEndpoints` of one VPC.
    async fn vpc_endpoints(&self, vpc: &VpcId) -> Result<Vec<VpcEndpoint>>;

    /// `ec2:DescribeRouteTables` of one VPC.
    async fn route_tables(&self, vpc: &VpcId) -> Result<Vec<RouteTable>>;

    /// `kms:DescribeKey` and `kms:GetKeyPolicy` of a key by its ARN, its id or an alias. Policies are given out by ARN
    /// and id only, and named `default`, which is the only one keys have.
    async fn key(&self, key: &str) -> Result<Key>;

    /// `servicequotas:GetServiceQuota`: the whole part of the value in force. A service or code that does not exist
    /// is [`crate::Kind::NotFound`].
    async fn quota(&self, service: &str, code: &str) -> Result<u64>;

    /// `iam:GetAccountSummary`: usage and quotas of IAM by AWS's names, such as `InstanceProfilesQuota`.
    async fn identity_limits(&self) -> Result<BTreeMap<String, u64>>;

    /// `iam:SimulatePrincipalPolicy`: what IAM would say to each action of `request`, in their order.
    async fn simulate(&self, request: &Simulation) -> Result<Vec<SimulatedDecision>>;
}

/// Encryption of new volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeEncryption {
    /// Volumes are encrypted even if the launch does not ask for it.
    pub by_default: bool,
    /// Key for volumes whose launch names none: an alias, an id or an ARN. `alias/aws/ebs` is AWS's own.
    pub key: String,
}

/// A key of KMS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// `arn:aws:kms:eu-west-1:123456789012:key/...`
    pub arn: String,
    /// Key policy, as JSON.
    pub policy: String,
}

/// A way from a VPC to a service of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VpcEndpoint {
    /// `vpce-...`
    pub id: String,
    pub vpc: VpcId,
    /// `com.amazonaws.eu-west-1.sqs`
    pub service: String,
    /// `available`, `pending`, `failed`, ... in lower case.
    pub state: String,
    /// Interface endpoint: the service's usual names lead to it. A gateway endpoint needs none and has `None`.
    pub private_names: Option<bool>,
}

/// Routes of the packets of subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable {
    /// `rtb-...`
    pub id: String,
    pub vpc: VpcId,
    /// Holds for every subnet of the VPC that no table names.
    pub is_main: bool,
    /// Subnets that name this table.
    pub subnets: Vec<SubnetId>,
    /// There is a way to other networks: an IPv4 or IPv6 default route or one for a list of prefixes, to whatever:
    /// internet gateway, NAT, transit gateway.
    pub leads_out: bool,
    /// The default route goes to an internet gateway: subnets with this table are public.
    pub is_public: bool,
}

/// Question to IAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// Role whose policies count.
    pub principal: Arn,
    /// `ec2:CreateFleet`, ...
    pub actions: Vec<String>,
    /// One resource for all actions; `*` when any will do.
    pub resource: String,
    /// Condition keys and their text values.
    pub context: BTreeMap<String, String>,
}

/// Decision of IAM on one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedDecision {
    pub action: String,
    /// All policies taken together allow it.
    pub is_allowed: bool,
    /// Decision of the permissions boundary, if the role has one.
    pub by_boundary: Option<bool>,
    /// Decision of the service control policies, if the account is in an organisation.
    pub by_organization: Option<bool>,
}
