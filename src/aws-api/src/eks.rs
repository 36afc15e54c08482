//! The cluster: where its API server is, who may join, who may act (spec aws-operations 1.3, 1.6).

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::id::{Arn, AssociationId, SecurityGroupId, SubnetId, VpcId};
use crate::{Result, Tags};

/// The EKS calls of this product.
#[async_trait]
pub trait Eks: Send + Sync + Debug {
    /// `DescribeCluster`.
    async fn describe_cluster(&self, cluster: &str) -> Result<Cluster>;

    /// `DescribeAddon`. Not installed is [`crate::Kind::NotFound`].
    async fn describe_addon(&self, cluster: &str, addon: &str) -> Result<Addon>;

    /// `CreateAccessEntry`. A principal that has one is [`crate::Kind::Conflict`] with code
    /// `ResourceInUseException`, as AWS answers.
    async fn create_access_entry(&self, cluster: &str, spec: &AccessEntrySpec) -> Result<AccessEntry>;

    /// `DescribeAccessEntry`.
    async fn describe_access_entry(&self, cluster: &str, principal: &Arn) -> Result<AccessEntry>;

    /// `ListAccessEntries`: principal ARNs.
    async fn list_access_entries(&self, cluster: &str) -> Result<Vec<Arn>>;

    /// `DeleteAccessEntry`.
    async fn delete_access_entry(&self, cluster: &str, principal: &Arn) -> Result<()>;

    /// `CreatePodIdentityAssociation`. A service account that has one is `ResourceInUseException`.
    async fn create_pod_identity_association(
        &self,
        cluster: &str,
        spec: &PodIdentitySpec,
    ) -> Result<PodIdentityAssociation>;

    /// `ListPodIdentityAssociations` and `DescribePodIdentityAssociation` of each, for one service account.
    async fn find_pod_identity_associations(
        &self,
        cluster: &str,
        namespace: &str,
        service_account: &str,
    ) -> Result<Vec<PodIdentityAssociation>>;

    /// `UpdatePodIdentityAssociation`: another role.
    async fn update_pod_identity_association(
        &self,
        cluster: &str,
        association: &AssociationId,
        role: &Arn,
    ) -> Result<()>;

    /// `DeletePodIdentityAssociation`.
    async fn delete_pod_identity_association(&self, cluster: &str, association: &AssociationId)
    -> Result<()>;

    /// `TagResource` on an access entry, an association or a cluster.
    async fn tag_resource(&self, resource: &Arn, tags: &Tags) -> Result<()>;

    /// `UntagResource`.
    async fn untag_resource(&self, resource: &Arn, keys: &[String]) -> Result<()>;
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: String,
    pub arn: Arn,
    /// Kubernetes minor version, `1.33`.
    pub version: String,
    /// `CREATING`, `ACTIVE`, `UPDATING`, ...
    pub status: String,
    /// URL of the API server; absent while creating.
    pub endpoint: Option<String>,
    /// Base64 of the certificate authority; absent while creating.
    pub certificate_authority: Option<String>,
    /// `CONFIG_MAP`, `API` or `API_AND_CONFIG_MAP`; absent in very old clusters, which means `CONFIG_MAP`.
    pub authentication_mode: Option<String>,
    /// IPv4 range of services.
    pub service_ipv4_cidr: Option<String>,
    /// IPv6 range of services.
    pub service_ipv6_cidr: Option<String>,
    /// `ipv4` or `ipv6`.
    pub ip_family: Option<String>,
    /// VPC of the control plane.
    pub vpc: Option<VpcId>,
    /// Subnets of the control plane.
    pub subnets: Vec<SubnetId>,
    /// Additional security groups of the control plane.
    pub security_groups: Vec<SecurityGroupId>,
    /// Security group EKS made for nodes and control plane.
    pub cluster_security_group: Option<SecurityGroupId>,
    /// Registered with ARC zonal shift; absent where EKS does not say.
    pub zonal_shift: Option<bool>,
    /// EKS Auto Mode launches nodes of its own, beside whatever else does.
    pub auto_mode: bool,
    /// Issuer URL, for roles assumed by web identity.
    pub oidc_issuer: Option<String>,
    pub tags: Tags,
}

/// An add-on of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addon {
    /// `eks-pod-identity-agent`
    pub name: String,
    /// `ACTIVE`, `DEGRADED`, ...
    pub status: String,
    pub version: Option<String>,
}

/// An access entry to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntrySpec {
    /// Role ARN, with path.
    pub principal: Arn,
    /// `EC2_LINUX`, `EC2_WINDOWS`, `STANDARD`, ...
    pub kind: String,
    pub tags: Tags,
}

/// An access entry that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// ARN of the entry itself.
    pub arn: Arn,
    /// ARN of the role or user.
    pub principal: Arn,
    /// `EC2_LINUX`, ...
    pub kind: String,
    /// Kubernetes user name.
    pub username: Option<String>,
    pub groups: Vec<String>,
    /// Time of its creation; `None` where EKS gives none.
    pub created_at: Option<Timestamp>,
    pub tags: Tags,
}

/// An association to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentitySpec {
    /// Namespace of the service account.
    pub namespace: String,
    pub service_account: String,
    /// The role its pods get.
    pub role: Arn,
    pub tags: Tags,
}

/// An association that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentityAssociation {
    /// Id within the cluster.
    pub id: AssociationId,
    pub arn: Arn,
    /// Namespace of the service account.
    pub namespace: String,
    pub service_account: String,
    /// The role its pods get.
    pub role: Arn,
    pub tags: Tags,
}
