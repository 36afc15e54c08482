//! Identity: roles, managed policies, instance profiles, with IAM's own error codes.

mod policies;
mod profiles;
mod roles;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Error, Partition, Result, Tags};

use self::policies::PolicyEntry;
use self::roles::RoleEntry;
use super::Account;
use crate::options::Options;
use crate::policy;
use karpenter_aws_api::iam::{
    AttachedPolicy, Iam, InstanceProfile, InstanceProfileSpec, OidcProvider, Policy, PolicySpec,
    PolicyVersion, Role, RoleSpec,
};

/// Policies AWS manages that exist in every account, with their path.
const AWS_MANAGED: [(&str, &str); 10] = [
    ("/", "AmazonEKSWorkerNodePolicy"),
    ("/", "AmazonEKS_CNI_Policy"),
    ("/", "AmazonEC2ContainerRegistryPullOnly"),
    ("/", "AmazonEC2ContainerRegistryReadOnly"),
    ("/", "AmazonSSMManagedInstanceCore"),
    ("/", "AmazonEKSClusterPolicy"),
    ("/", "AmazonEKSWorkerNodeMinimalPolicy"),
    ("/service-role/", "AmazonEBSCSIDriverPolicy"),
    ("/", "ReadOnlyAccess"),
    ("/", "AdministratorAccess"),
];

/// Roles, policies and profiles of the account.
#[derive(Debug)]
pub(super) struct Directory {
    partition: Partition,
    account: String,
    pub(super) roles: BTreeMap<String, RoleEntry>,
    pub(super) policies: BTreeMap<Arn, PolicyEntry>,
    pub(super) profiles: BTreeMap<String, InstanceProfile>,
    /// Identity providers by ARN.
    pub(super) providers: BTreeMap<Arn, OidcProvider>,
}

impl Directory {
    pub(super) fn new(options: &Options, partition: Partition, now: Timestamp) -> Self {
        let mut directory = Self {
            partition,
            account: options.account.clone(),
            roles: BTreeMap::new(),
            policies: BTreeMap::new(),
            profiles: BTreeMap::new(),
            providers: BTreeMap::new(),
        };
        for (path, name) in AWS_MANAGED {
            let arn = Arn::from(format!("arn:{}:iam::aws:policy{path}{name}", partition.arn_prefix()));
            directory.policies.insert(arn.clone(), PolicyEntry::aws_managed(arn, path, name, now));
        }
        if options.spot_service_linked_role {
            directory.create_service_linked("spot.amazonaws.com");
        }
        directory
    }

    /// The spot service-linked role exists, so that spot instances can be launched.
    pub(super) fn may_launch_spot(&self) -> bool {
        self.roles.contains_key("AWSServiceRoleForEC2Spot")
    }

    /// A role with this ARN exists in this account, or the ARN is of another account.
    pub(super) fn knows_principal(&self, arn: &Arn) -> bool {
        let own = format!("arn:{}:iam::{}:", self.partition.arn_prefix(), self.account);
        !arn.as_str().starts_with(&own) || self.roles.values().any(|entry| entry.role.arn == *arn)
    }

    fn arn(&self, kind: &str, path: &str, name: &str) -> Arn {
        format!("arn:{}:iam::{}:{kind}{path}{name}", self.partition.arn_prefix(), self.account).into()
    }
}

fn no_such_entity(operation: &'static str, kind: &str, name: &str) -> Error {
    let text = format!("The {kind} with name {name} cannot be found.");
    Error::answered(operation, name, "NoSuchEntity", text)
}

fn exists(operation: &'static str, kind: &str, name: &str) -> Error {
    let text = format!("{kind} with name {name} already exists.");
    Error::answered(operation, name, "EntityAlreadyExists", text)
}

fn check_name(operation: &'static str, name: &str, longest: usize) -> Result<()> {
    if !karpenter_iam::is_name(name, longest) {
        let text = format!("Value '{name}' failed to satisfy constraint: 1 to {longest} of [\\w+=,.@-]");
        return Err(Error::answered(operation, name, "ValidationError", text));
    }
    Ok(())
}

fn check_document(operation: &'static str, subject: &str, document: &str, longest: usize) -> Result<()> {
    if !policy::is_well_formed(document) {
        let text = "Syntax errors in policy.";
        return Err(Error::answered(operation, subject, "MalformedPolicyDocument", text));
    }
    if document.chars().filter(|c| !c.is_whitespace()).count() > longest {
        let text = format!("Cannot exceed quota for PolicySize: {longest}");
        return Err(Error::answered(operation, subject, "LimitExceeded", text));
    }
    Ok(())
}

/// Tags that remain after removing keys.
fn untag(tags: &mut Tags, keys: &[String]) {
    let keys: BTreeSet<&String> = keys.iter().collect();
    tags.retain(|key, _| !keys.contains(key));
}

#[async_trait]
impl Iam for Account {
    async fn create_role(&self, spec: &RoleSpec) -> Result<Role> {
        self.call("CreateRole", &spec.name, |state, now| state.directory.create_role(spec, now)).await
    }

    async fn get_role(&self, role: &str) -> Result<Role> {
        self.call("GetRole", role, |state, _| Ok(state.directory.role("GetRole", role)?.role.clone())).await
    }

    async fn update_assume_role_policy(&self, role: &str, document: &str) -> Result<()> {
        self.call("UpdateAssumeRolePolicy", role, |state, _| state.directory.update_trust(role, document))
            .await
    }

    async fn put_role_permissions_boundary(&self, role: &str, boundary: &Arn) -> Result<()> {
        self.call("PutRolePermissionsBoundary", role, |state, _| {
            state.directory.set_boundary("PutRolePermissionsBoundary", role, Some(boundary.clone()))
        })
        .await
    }

    async fn delete_role_permissions_boundary(&self, role: &str) -> Result<()> {
        self.call("DeleteRolePermissionsBoundary", role, |state, _| {
            state.directory.set_boundary("DeleteRolePermissionsBoundary", role, None)
        })
        .await
    }

    async fn delete_role(&self, role: &str) -> Result<()> {
        self.call("DeleteRole", role, |state, _| state.directory.delete_role(role)).await
    }

    async fn tag_role(&self, role: &str, tags: &Tags) -> Result<()> {
        self.call("TagRole", role, |state, _| {
            state.directory.role("TagRole", role)?.role.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn untag_role(&self, role: &str, keys: &[String]) -> Result<()> {
        self.call("UntagRole", role, |state, _| {
            untag(&mut state.directory.role("UntagRole", role)?.role.tags, keys);
            Ok(())
        })
        .await
    }

    async fn list_attached_role_policies(&self, role: &str) -> Result<Vec<AttachedPolicy>> {
        self.call("ListAttachedRolePolicies", role, |state, _| state.directory.attached(role)).await
    }

    async fn attach_role_policy(&self, role: &str, policy: &Arn) -> Result<()> {
        self.call("AttachRolePolicy", role, |state, _| state.directory.attach(role, policy)).await
    }

    async fn detach_role_policy(&self, role: &str, policy: &Arn) -> Result<()> {
        self.call("DetachRolePolicy", role, |state, _| state.directory.detach(role, policy)).await
    }

    async fn list_role_policies(&self, role: &str) -> Result<Vec<String>> {
        self.call("ListRolePolicies", role, |state, _| {
            Ok(state.directory.role("ListRolePolicies", role)?.inline.keys().cloned().collect())
        })
        .await
    }

    async fn get_role_policy(&self, role: &str, policy: &str) -> Result<String> {
        self.call("GetRolePolicy", role, |state, _| state.directory.inline(role, policy)).await
    }

    async fn delete_role_policy(&self, role: &str, policy: &str) -> Result<()> {
        self.call("DeleteRolePolicy", role, |state, _| state.directory.delete_inline(role, policy)).await
    }

    async fn create_service_linked_role(&self, service: &str) -> Result<Role> {
        self.call("CreateServiceLinkedRole", service, |state, _| {
            state.directory.create_service_linked(service).ok_or_else(|| {
                let text = format!(
                    "Service role name {} has been taken in this account, please try a different suffix.",
                    roles::service_linked_name(service)
                );
                Error::answered("CreateServiceLinkedRole", service, "InvalidInput", text)
            })
        })
        .await
    }

    async fn create_policy(&self, spec: &PolicySpec) -> Result<Policy> {
        self.call("CreatePolicy", &spec.name, |state, now| state.directory.create_policy(spec, now)).await
    }

    async fn get_policy(&self, policy: &Arn) -> Result<Policy> {
        self.call("GetPolicy", policy.as_str(), |state, _| state.directory.describe_policy(policy)).await
    }

    async fn delete_policy(&self, policy: &Arn) -> Result<()> {
        self.call("DeletePolicy", policy.as_str(), |state, _| state.directory.delete_policy(policy)).await
    }

    async fn list_policy_versions(&self, policy: &Arn) -> Result<Vec<PolicyVersion>> {
        self.call("ListPolicyVersions", policy.as_str(), |state, _| {
            Ok(state.directory.policy("ListPolicyVersions", policy)?.versions())
        })
        .await
    }

    async fn get_policy_version(&self, policy: &Arn, version: &str) -> Result<String> {
        self.call("GetPolicyVersion", policy.as_str(), |state, _| {
            state.directory.policy("GetPolicyVersion", policy)?.document(version)
        })
        .await
    }

    async fn create_policy_version(&self, policy: &Arn, document: &str) -> Result<PolicyVersion> {
        self.call("CreatePolicyVersion", policy.as_str(), |state, now| {
            state.directory.policy("CreatePolicyVersion", policy)?.add_version(document, now)
        })
        .await
    }

    async fn delete_policy_version(&self, policy: &Arn, version: &str) -> Result<()> {
        self.call("DeletePolicyVersion", policy.as_str(), |state, _| {
            state.directory.policy("DeletePolicyVersion", policy)?.delete_version(version)
        })
        .await
    }

    async fn tag_policy(&self, policy: &Arn, tags: &Tags) -> Result<()> {
        self.call("TagPolicy", policy.as_str(), |state, _| {
            state.directory.policy("TagPolicy", policy)?.policy.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn untag_policy(&self, policy: &Arn, keys: &[String]) -> Result<()> {
        self.call("UntagPolicy", policy.as_str(), |state, _| {
            untag(&mut state.directory.policy("UntagPolicy", policy)?.policy.tags, keys);
            Ok(())
        })
        .await
    }

    async fn create_instance_profile(&self, spec: &InstanceProfileSpec) -> Result<InstanceProfile> {
        self.call("CreateInstanceProfile", &spec.name, |state, now| state.directory.create_profile(spec, now))
            .await
    }

    async fn get_instance_profile(&self, profile: &str) -> Result<InstanceProfile> {
        self.call("GetInstanceProfile", profile, |state, _| {
            state.directory.profile("GetInstanceProfile", profile).cloned()
        })
        .await
    }

    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>> {
        self.call("ListInstanceProfiles", path_prefix, |state, _| {
            Ok(state.directory.list_profiles(|profile| profile.path.starts_with(path_prefix)))
        })
        .await
    }

    async fn list_instance_profiles_for_role(&self, role: &str) -> Result<Vec<InstanceProfile>> {
        self.call("ListInstanceProfilesForRole", role, |state, _| {
            state.directory.role("ListInstanceProfilesForRole", role)?;
            Ok(state.directory.list_profiles(|profile| profile.role.as_deref() == Some(role)))
        })
        .await
    }

    async fn add_role_to_instance_profile(&self, profile: &str, role: &str) -> Result<()> {
        self.call("AddRoleToInstanceProfile", profile, |state, _| state.directory.add_role(profile, role))
            .await
    }

    async fn remove_role_from_instance_profile(&self, profile: &str, role: &str) -> Result<()> {
        self.call("RemoveRoleFromInstanceProfile", profile, |state, _| {
            state.directory.remove_role(profile, role)
        })
        .await
    }

    async fn tag_instance_profile(&self, profile: &str, tags: &Tags) -> Result<()> {
        self.call("TagInstanceProfile", profile, |state, _| {
            state.directory.profile("TagInstanceProfile", profile)?.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn delete_instance_profile(&self, profile: &str) -> Result<()> {
        self.call("DeleteInstanceProfile", profile, |state, _| state.directory.delete_profile(profile)).await
    }

    async fn get_open_id_connect_provider(&self, provider: &Arn) -> Result<OidcProvider> {
        self.call("GetOpenIDConnectProvider", provider.as_str(), |state, _| {
            state.directory.providers.get(provider).cloned().ok_or_else(|| {
                let text = format!("OpenIDConnect Provider not found for arn {provider}");
                Error::answered("GetOpenIDConnectProvider", provider.as_str(), "NoSuchEntity", text)
            })
        })
        .await
    }
}
