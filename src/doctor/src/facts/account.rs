//! Answers of the AWS account, reduced to what checks look at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use karpenter_aws_api::Tags;
use serde::{Deserialize, Serialize};

use super::Answer;

/// Answers of the AWS account.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Region that was asked.
    pub region: Answer<String>,
    /// The cluster; `None` when EKS does not know it.
    pub eks: Answer<Option<EksCluster>>,
    /// Subnets that EC2NodeClasses select; while there is no class, those with the discovery tag of the cluster.
    pub subnets: Answer<Vec<Subnet>>,
    /// Security groups, likewise.
    pub security_groups: Answer<Vec<SecurityGroup>>,
    /// Roles that EC2NodeClasses name, the controller's, and those that bootstrap makes; `None` when IAM does not know one.
    pub roles: Answer<BTreeMap<String, Option<Role>>>,
    /// True if the spot service-linked role exists.
    pub spot_role: Answer<bool>,
    /// Queues: the configured one and the one bootstrap makes; `None` when SQS does not know one.
    pub queues: Answer<BTreeMap<String, Option<Queue>>>,
    /// Principals that may join the cluster as nodes.
    pub access_entries: Answer<Vec<AccessEntry>>,
    /// ARN of the role that a Pod Identity association gives the controller.
    pub pod_identity: Answer<Option<String>>,
    /// True if IAM knows the cluster's issuer as an identity provider; `None` when the controller's role is not taken on by web
    /// identity, or belongs to another account.
    pub identity_provider: Answer<Option<bool>>,
    /// Use and quotas of IAM by AWS's names, such as `InstanceProfilesQuota`.
    pub identity_limits: Answer<BTreeMap<String, u64>>,
    /// Capacity reservations of the account.
    pub reservations: Answer<Vec<Reservation>>,
    /// Encryption of volumes when a launch does not give one.
    pub volumes: Answer<Volumes>,
    /// The keys that queues and volumes are encrypted with, by what they are named with there.
    pub keys: Answer<BTreeMap<String, Answer<Key>>>,
    /// Number of pods that the interfaces of an instance give addresses to, for the types that classes with `maxPods` get.
    pub pods_by_type: Answer<BTreeMap<String, u32>>,
    /// Subnets of those above from which no default route leads anywhere.
    pub closed_subnets: Answer<Vec<String>>,
    /// Endpoints in the VPCs of those subnets.
    pub endpoints: Answer<Vec<Endpoint>>,
    /// vCPUs that standard instances may have, by capacity type: `on-demand`, `spot`.
    pub vcpu_quotas: Answer<BTreeMap<String, u64>>,
    /// Decisions of IAM on what the controller's role must be able to do.
    pub rights: Answer<Vec<Right>>,
}

/// An EKS cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EksCluster {
    /// Kubernetes version, such as `1.33`.
    pub version: String,
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`; `None` when EKS does not say.
    pub authentication_mode: Option<String>,
    /// Registered with ARC zonal shift; `None` when EKS does not say.
    #[serde(default)]
    pub zonal_shift: Option<bool>,
    /// URL of the issuer of the service accounts' tokens; `None` when EKS does not say.
    #[serde(default)]
    pub issuer: Option<String>,
}

/// A subnet for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    /// IPv4 addresses left.
    pub free_addresses: u32,
    /// Names of the EC2NodeClasses that select it.
    #[serde(default)]
    pub classes: BTreeSet<String>,
}

/// A security group for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    pub tags: Tags,
    /// Names of the EC2NodeClasses that select it.
    #[serde(default)]
    pub classes: BTreeSet<String>,
}

/// A role of IAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// ARN with the path.
    #[serde(default)]
    pub arn: String,
    pub path: String,
    /// Trust document, as JSON.
    pub trust: String,
    /// ARN of its permissions boundary.
    pub boundary: Option<String>,
    /// Number of managed policies.
    pub policies: usize,
    /// Time of its creation, if known.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
}

/// A queue of SQS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    pub tags: Tags,
    /// The customer's key that encrypts it.
    pub kms_key: Option<String>,
    /// Rules that send to it.
    pub rules: Vec<String>,
}

/// An access entry of EKS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessEntry {
    /// ARN of the role, without its path.
    pub principal: String,
    /// `EC2_LINUX`, `EC2_WINDOWS`, `STANDARD`, ...
    pub kind: String,
    /// Time of its creation, if known.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: String,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `active`, `expired`, ...
    pub state: String,
    pub instance_type: String,
    pub zone: String,
    /// Instances that can still be launched into it.
    pub available: u32,
}

/// A key of KMS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Whatever it was asked for with: an ARN, an id or an alias.
    pub arn: String,
    /// Key policy, as JSON.
    pub policy: String,
}

/// Encryption of volumes when a launch does not give one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volumes {
    /// They are, even if the launch does not ask for it.
    pub encrypted: bool,
    /// The key; `alias/aws/ebs` is AWS's own.
    pub key: String,
}

/// A way from a VPC to a service of AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub id: String,
    /// `com.amazonaws.eu-west-1.sqs`
    pub service: String,
    /// `available`, `failed`, ...
    pub state: String,
    /// True if the service's usual names lead to it; `None` for gateways, which need no names.
    pub private_names: Option<bool>,
}

/// Decision of IAM on one thing that a role must be able to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Right {
    /// ARN of the role.
    pub role: String,
    /// `iam:PassRole`, ...
    pub action: String,
    /// An ARN, or `*`.
    pub resource: String,
    pub allowed: bool,
    /// Decision of the permissions boundary, if there is one.
    pub by_boundary: Option<bool>,
    /// Decision of the organisation's policies, if there is one.
    pub by_organization: Option<bool>,
}
