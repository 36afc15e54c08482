//! What the AWS account says, reduced to what checks look at.

use std::collections::BTreeMap;

use karpenter_aws_client::Tags;
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
    /// Subnets with the discovery tag of the cluster.
    pub subnets: Answer<Vec<Subnet>>,
    /// Security groups with the discovery tag of the cluster.
    pub security_groups: Answer<Vec<SecurityGroup>>,
    /// Roles that EC2NodeClasses name and those that bootstrap makes; `None` when IAM does not know one.
    pub roles: Answer<BTreeMap<String, Option<Role>>>,
    /// Whether the spot service-linked role exists.
    pub spot_role: Answer<bool>,
    /// Queues: the configured one and the one bootstrap makes; `None` when SQS does not know one.
    pub queues: Answer<BTreeMap<String, Option<Queue>>>,
    /// Who may join the cluster as a node.
    pub access_entries: Answer<Vec<AccessEntry>>,
    /// Whether a Pod Identity association gives the controller its role.
    pub pod_identity: Answer<bool>,
    /// Number of instance profiles in the account.
    pub instance_profiles: Answer<usize>,
    /// Capacity reservations of the account.
    pub reservations: Answer<Vec<Reservation>>,
}

/// An EKS cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EksCluster {
    /// Kubernetes version, such as `1.33`.
    pub version: String,
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`; `None` when EKS does not say.
    pub authentication_mode: Option<String>,
}

/// A subnet for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    pub id: String,
    pub zone: String,
    /// IPv4 addresses left.
    pub free_addresses: u32,
}

/// A security group for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub id: String,
    pub tags: Tags,
}

/// A role of IAM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub path: String,
    /// JSON of who may take it.
    pub trust: String,
    /// ARN of its permissions boundary.
    pub boundary: Option<String>,
    /// Number of managed policies.
    pub policies: usize,
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
}

/// A capacity reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub id: String,
    /// `open` or `targeted`.
    pub match_criteria: String,
    /// `active`, `expired`, ...
    pub state: String,
}
