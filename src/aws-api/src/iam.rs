//! Identity: roles, managed policies and instance profiles (spec aws-operations 1.1 to 1.10, spec aws-provider 8).
//!
//! Documents are JSON text, decoded: IAM percent-encodes them on the way out, the backend undoes that.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::id::Arn;
use crate::{Result, Tags};

/// The IAM calls of this product. Names are without path; policies go by ARN.
#[async_trait]
pub trait Iam: Send + Sync + Debug {
    // Roles

    /// `CreateRole`. A taken name is [`crate::Kind::AlreadyExists`].
    async fn create_role(&self, spec: &RoleSpec) -> Result<Role>;

    /// `GetRole`.
    async fn get_role(&self, role: &str) -> Result<Role>;

    /// `UpdateAssumeRolePolicy`.
    async fn update_assume_role_policy(&self, role: &str, document: &str) -> Result<()>;

    /// `PutRolePermissionsBoundary`: sets or replaces it.
    async fn put_role_permissions_boundary(&self, role: &str, boundary: &Arn) -> Result<()>;

    /// `DeleteRolePermissionsBoundary`.
    async fn delete_role_permissions_boundary(&self, role: &str) -> Result<()>;

    /// `DeleteRole`. Policies, attached or of its own, or instance profiles make it a [`crate::Kind::Conflict`].
    async fn delete_role(&self, role: &str) -> Result<()>;

    /// `TagRole`.
    async fn tag_role(&self, role: &str, tags: &Tags) -> Result<()>;

    /// `UntagRole`.
    async fn untag_role(&self, role: &str, keys: &[String]) -> Result<()>;

    /// `ListAttachedRolePolicies`.
    async fn list_attached_role_policies(&self, role: &str) -> Result<Vec<AttachedPolicy>>;

    /// `AttachRolePolicy`. Attaching twice is fine.
    async fn attach_role_policy(&self, role: &str, policy: &Arn) -> Result<()>;

    /// `DetachRolePolicy`. Not attached is [`crate::Kind::NotFound`].
    async fn detach_role_policy(&self, role: &str, policy: &Arn) -> Result<()>;

    /// `ListRolePolicies`: names of the policies that stand in the role itself.
    async fn list_role_policies(&self, role: &str) -> Result<Vec<String>>;

    /// `GetRolePolicy`: the document of one of them, JSON. A name the role does not have is
    /// [`crate::Kind::NotFound`].
    async fn get_role_policy(&self, role: &str, policy: &str) -> Result<String>;

    /// `DeleteRolePolicy`. A name the role does not have is [`crate::Kind::NotFound`].
    async fn delete_role_policy(&self, role: &str, policy: &str) -> Result<()>;

    /// `CreateServiceLinkedRole`, for example for `spot.amazonaws.com`. Taken is `AlreadyExists`.
    async fn create_service_linked_role(&self, service: &str) -> Result<Role>;

    // Managed policies

    /// `CreatePolicy`. A taken name is [`crate::Kind::AlreadyExists`].
    async fn create_policy(&self, spec: &PolicySpec) -> Result<Policy>;

    /// `GetPolicy`.
    async fn get_policy(&self, policy: &Arn) -> Result<Policy>;

    /// `DeletePolicy`. Attachments or versions other than the default make it a [`crate::Kind::Conflict`].
    async fn delete_policy(&self, policy: &Arn) -> Result<()>;

    /// `ListPolicyVersions`.
    async fn list_policy_versions(&self, policy: &Arn) -> Result<Vec<PolicyVersion>>;

    /// `GetPolicyVersion`: the document.
    async fn get_policy_version(&self, policy: &Arn, version: &str) -> Result<String>;

    /// `CreatePolicyVersion` as the new default. A sixth version is [`crate::Kind::LimitExceeded`].
    async fn create_policy_version(&self, policy: &Arn, document: &str) -> Result<PolicyVersion>;

    /// `DeletePolicyVersion`. The default one is a [`crate::Kind::Conflict`].
    async fn delete_policy_version(&self, policy: &Arn, version: &str) -> Result<()>;

    /// `TagPolicy`.
    async fn tag_policy(&self, policy: &Arn, tags: &Tags) -> Result<()>;

    /// `UntagPolicy`.
    async fn untag_policy(&self, policy: &Arn, keys: &[String]) -> Result<()>;

    // Instance profiles

    /// `CreateInstanceProfile`. A taken name is [`crate::Kind::AlreadyExists`].
    async fn create_instance_profile(&self, spec: &InstanceProfileSpec) -> Result<InstanceProfile>;

    /// `GetInstanceProfile`.
    async fn get_instance_profile(&self, profile: &str) -> Result<InstanceProfile>;

    /// `ListInstanceProfiles` under a path. Tags are not part of this answer and come back empty.
    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>>;

    /// `ListInstanceProfilesForRole`. Tags come back empty.
    async fn list_instance_profiles_for_role(&self, role: &str) -> Result<Vec<InstanceProfile>>;

    /// `AddRoleToInstanceProfile`. A second role is [`crate::Kind::LimitExceeded`].
    async fn add_role_to_instance_profile(&self, profile: &str, role: &str) -> Result<()>;

    /// `RemoveRoleFromInstanceProfile`.
    async fn remove_role_from_instance_profile(&self, profile: &str, role: &str) -> Result<()>;

    /// `TagInstanceProfile`.
    async fn tag_instance_profile(&self, profile: &str, tags: &Tags) -> Result<()>;

    /// `DeleteInstanceProfile`. A profile that still has its role is a [`crate::Kind::Conflict`].
    async fn delete_instance_profile(&self, profile: &str) -> Result<()>;

    // Identity providers

    /// `GetOpenIDConnectProvider`: whom roles assumed by web identity may trust.
    async fn get_open_id_connect_provider(&self, provider: &Arn) -> Result<OidcProvider>;
}

/// A role to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSpec {
    /// Up to 64 characters.
    pub name: String,
    /// Begins and ends with `/`.
    pub path: String,
    /// Shown in the console.
    pub description: String,
    /// Trust policy, JSON.
    pub trust: String,
    /// Upper limit of what the role's policies may grant.
    pub permissions_boundary: Option<Arn>,
    pub tags: Tags,
}

/// A role that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Name without path.
    pub name: String,
    /// ARN, with path.
    pub arn: Arn,
    /// Begins and ends with `/`.
    pub path: String,
    /// Trust policy, JSON, decoded.
    pub trust: String,
    /// Boundary, if any.
    pub permissions_boundary: Option<Arn>,
    /// Time of its creation; `None` where IAM gives none. A role that is made again under its name has another instant.
    pub created_at: Option<Timestamp>,
    pub tags: Tags,
}

/// A managed policy attached to a role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttachedPolicy {
    /// Name without path.
    pub name: String,
    pub arn: Arn,
}

/// A managed policy to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// Up to 128 characters.
    pub name: String,
    /// Begins and ends with `/`.
    pub path: String,
    /// Cannot be changed later.
    pub description: String,
    /// JSON; at most 6,144 characters without white space.
    pub document: String,
    pub tags: Tags,
}

/// A managed policy that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Name without path.
    pub name: String,
    pub arn: Arn,
    /// Begins and ends with `/`.
    pub path: String,
    /// Version in force, for example `v1`.
    pub default_version: String,
    /// Identities it is attached to.
    pub attachments: u32,
    pub tags: Tags,
}

/// One version of a managed policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// `v3`
    pub id: String,
    /// Version is in force.
    pub is_default: bool,
    /// Time of its creation.
    pub created_at: Timestamp,
}

/// An instance profile to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceProfileSpec {
    /// Up to 128 characters of `[\w+=,.@-]`.
    pub name: String,
    /// Begins and ends with `/`.
    pub path: String,
    pub tags: Tags,
}

/// An instance profile that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceProfile {
    /// Name without path.
    pub name: String,
    pub arn: Arn,
    /// Begins and ends with `/`.
    pub path: String,
    /// Name of its role; IAM allows one.
    pub role: Option<String>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Tags; empty in listings.
    pub tags: Tags,
}

/// An identity provider for roles assumed by web identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcProvider {
    /// The issuer: host and path, as IAM returns it without `https://`.
    pub url: String,
    /// Audiences it is trusted for; `sts.amazonaws.com` for service accounts.
    pub client_ids: Vec<String>,
}
