//! Identity over the SDK.

mod documents;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_iam::types;

use self::documents::decode;
use super::call::{Call, each_page};
use super::convert::{count, instant};
use super::meter::{Meter, measured};
use karpenter_aws_api::iam::{
    AttachedPolicy, Iam, InstanceProfile, InstanceProfileSpec, OidcProvider, Policy, PolicySpec,
    PolicyVersion, Role, RoleSpec,
};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Result, Tags};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_iam::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_iam, config, meter))
    }
}

/// Sends a request whose answer says nothing but "done".
macro_rules! done {
    ($call:expr, $request:expr) => {{
        let call = $call;
        $request.send().await.map(|_| ()).map_err(|failure| call.failed(failure))
    }};
}

/// Sends a request and gives its answer.
macro_rules! answer {
    ($call:expr, $request:expr) => {
        $request.send().await.map_err(|failure| $call.failed(failure))?
    };
}

#[async_trait]
impl Iam for Client {
    async fn create_role(&self, spec: &RoleSpec) -> Result<Role> {
        let call = Call::new("CreateRole", &spec.name);
        let request = self
            .0
            .create_role()
            .role_name(&spec.name)
            .path(&spec.path)
            .description(&spec.description)
            .assume_role_policy_document(&spec.trust)
            .set_permissions_boundary(spec.permissions_boundary.as_ref().map(|arn| arn.as_str().to_owned()))
            .set_tags(tags_to_sdk(&call, &spec.tags)?);
        let answer = answer!(call, request);
        role(&call, call.field(answer.role, "Role")?)
    }

    async fn get_role(&self, name: &str) -> Result<Role> {
        let call = Call::new("GetRole", name);
        let answer = answer!(call, self.0.get_role().role_name(name));
        role(&call, call.field(answer.role, "Role")?)
    }

    async fn update_assume_role_policy(&self, role: &str, document: &str) -> Result<()> {
        let request = self.0.update_assume_role_policy().role_name(role).policy_document(document);
        done!(Call::new("UpdateAssumeRolePolicy", role), request)
    }

    async fn put_role_permissions_boundary(&self, role: &str, boundary: &Arn) -> Result<()> {
        let request =
            self.0.put_role_permissions_boundary().role_name(role).permissions_boundary(boundary.as_str());
        done!(Call::new("PutRolePermissionsBoundary", role), request)
    }

    async fn delete_role_permissions_boundary(&self, role: &str) -> Result<()> {
        let request = self.0.delete_role_permissions_boundary().role_name(role);
        done!(Call::new("DeleteRolePermissionsBoundary", role), request)
    }

    async fn delete_role(&self, role: &str) -> Result<()> {
        done!(Call::new("DeleteRole", role), self.0.delete_role().role_name(role))
    }

    async fn tag_role(&self, role: &str, tags: &Tags) -> Result<()> {
        let call = Call::new("TagRole", role);
        let tags = tags_to_sdk(&call, tags)?;
        done!(call, self.0.tag_role().role_name(role).set_tags(tags))
    }

    async fn untag_role(&self, role: &str, keys: &[String]) -> Result<()> {
        let request = self.0.untag_role().role_name(role).set_tag_keys(Some(keys.to_vec()));
        done!(Call::new("UntagRole", role), request)
    }

    async fn list_attached_role_policies(&self, role: &str) -> Result<Vec<AttachedPolicy>> {
        let call = Call::new("ListAttachedRolePolicies", role);
        let mut policies = Vec::new();
        let request = self.0.list_attached_role_policies().role_name(role);
        each_page!(call, request.into_paginator(), marker, |page| {
            for policy in page.attached_policies.unwrap_or_default() {
                policies.push(AttachedPolicy {
                    name: call.field(policy.policy_name, "PolicyName")?,
                    arn: call.field(policy.policy_arn, "PolicyArn")?.into(),
                });
            }
        });
        Ok(policies)
    }

    async fn attach_role_policy(&self, role: &str, policy: &Arn) -> Result<()> {
        let request = self.0.attach_role_policy().role_name(role).policy_arn(policy.as_str());
        done!(Call::new("AttachRolePolicy", format!("{role}: {policy}")), request)
    }

    async fn detach_role_policy(&self, role: &str, policy: &Arn) -> Result<()> {
        let request = self.0.detach_role_policy().role_name(role).policy_arn(policy.as_str());
        done!(Call::new("DetachRolePolicy", format!("{role}: {policy}")), request)
    }

    async fn list_role_policies(&self, role: &str) -> Result<Vec<String>> {
        let call = Call::new("ListRolePolicies", role);
        let mut names = Vec::new();
        let request = self.0.list_role_policies().role_name(role);
        each_page!(call, request.into_paginator(), marker, |page| {
            names.extend(page.policy_names);
        });
        Ok(names)
    }

    async fn get_role_policy(&self, role: &str, policy: &str) -> Result<String> {
        let call = Call::new("GetRolePolicy", format!("{role}: {policy}"));
        let answer = answer!(call, self.0.get_role_policy().role_name(role).policy_name(policy));
        decode(&answer.policy_document)
            .ok_or_else(|| call.invalid("the document is not percent-encoded text"))
    }

    async fn delete_role_policy(&self, role: &str, policy: &str) -> Result<()> {
        let request = self.0.delete_role_policy().role_name(role).policy_name(policy);
        done!(Call::new("DeleteRolePolicy", format!("{role}: {policy}")), request)
    }

    async fn create_service_linked_role(&self, service: &str) -> Result<Role> {
        let call = Call::new("CreateServiceLinkedRole", service);
        let answer = answer!(call, self.0.create_service_linked_role().aws_service_name(service));
        role(&call, call.field(answer.role, "Role")?)
    }

    async fn create_policy(&self, spec: &PolicySpec) -> Result<Policy> {
        let call = Call::new("CreatePolicy", &spec.name);
        let request = self
            .0
            .create_policy()
            .policy_name(&spec.name)
            .path(&spec.path)
            .description(&spec.description)
            .policy_document(&spec.document)
            .set_tags(tags_to_sdk(&call, &spec.tags)?);
        let answer = answer!(call, request);
        policy_from_sdk(&call, call.field(answer.policy, "Policy")?)
    }

    async fn get_policy(&self, policy: &Arn) -> Result<Policy> {
        let call = Call::new("GetPolicy", policy.as_str());
        let answer = answer!(call, self.0.get_policy().policy_arn(policy.as_str()));
        policy_from_sdk(&call, call.field(answer.policy, "Policy")?)
    }

    async fn delete_policy(&self, policy: &Arn) -> Result<()> {
        let request = self.0.delete_policy().policy_arn(policy.as_str());
        done!(Call::new("DeletePolicy", policy.as_str()), request)
    }

    async fn list_policy_versions(&self, policy: &Arn) -> Result<Vec<PolicyVersion>> {
        let call = Call::new("ListPolicyVersions", policy.as_str());
        let mut versions = Vec::new();
        let request = self.0.list_policy_versions().policy_arn(policy.as_str());
        each_page!(call, request.into_paginator(), marker, |page| {
            for found in page.versions.unwrap_or_default() {
                versions.push(version(&call, found)?);
            }
        });
        Ok(versions)
    }

    async fn get_policy_version(&self, policy: &Arn, version: &str) -> Result<String> {
        let call = Call::new("GetPolicyVersion", format!("{policy} {version}"));
        let request = self.0.get_policy_version().policy_arn(policy.as_str()).version_id(version);
        let answer = answer!(call, request);
        let document = answer.policy_version.and_then(|version| version.document);
        decode(&call.field(document, "PolicyVersion.Document")?)
            .ok_or_else(|| call.invalid("the document is not percent-encoded text"))
    }

    async fn create_policy_version(&self, policy: &Arn, document: &str) -> Result<PolicyVersion> {
        let call = Call::new("CreatePolicyVersion", policy.as_str());
        let request = self
            .0
            .create_policy_version()
            .policy_arn(policy.as_str())
            .policy_document(document)
            .set_as_default(true);
        let answer = answer!(call, request);
        version(&call, call.field(answer.policy_version, "PolicyVersion")?)
    }

    async fn delete_policy_version(&self, policy: &Arn, version: &str) -> Result<()> {
        let request = self.0.delete_policy_version().policy_arn(policy.as_str()).version_id(version);
        done!(Call::new("DeletePolicyVersion", format!("{policy} {version}")), request)
    }

    async fn tag_policy(&self, policy: &Arn, tags: &Tags) -> Result<()> {
        let call = Call::new("TagPolicy", policy.as_str());
        let tags = tags_to_sdk(&call, tags)?;
        done!(call, self.0.tag_policy().policy_arn(policy.as_str()).set_tags(tags))
    }

    async fn untag_policy(&self, policy: &Arn, keys: &[String]) -> Result<()> {
        let request = self.0.untag_policy().policy_arn(policy.as_str()).set_tag_keys(Some(keys.to_vec()));
        done!(Call::new("UntagPolicy", policy.as_str()), request)
    }

    async fn create_instance_profile(&self, spec: &InstanceProfileSpec) -> Result<InstanceProfile> {
        let call = Call::new("CreateInstanceProfile", &spec.name);
        let request = self
            .0
            .create_instance_profile()
            .instance_profile_name(&spec.name)
            .path(&spec.path)
            .set_tags(tags_to_sdk(&call, &spec.tags)?);
        let answer = answer!(call, request);
        profile_from_sdk(&call, call.field(answer.instance_profile, "InstanceProfile")?)
    }

    async fn get_instance_profile(&self, profile: &str) -> Result<InstanceProfile> {
        let call = Call::new("GetInstanceProfile", profile);
        let answer = answer!(call, self.0.get_instance_profile().instance_profile_name(profile));
        profile_from_sdk(&call, call.field(answer.instance_profile, "InstanceProfile")?)
    }

    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>> {
        let call = Call::new("ListInstanceProfiles", path_prefix);
        let mut profiles = Vec::new();
        let request = self.0.list_instance_profiles().path_prefix(path_prefix);
        each_page!(call, request.into_paginator(), marker, |page| {
            for profile in page.instance_profiles {
                profiles.push(profile_from_sdk(&call, profile)?);
            }
        });
        // An endpoint that ignores the prefix must not show a collector profiles of others.
        profiles.retain(|profile| profile.path.starts_with(path_prefix));
        Ok(profiles)
    }

    async fn list_instance_profiles_for_role(&self, role: &str) -> Result<Vec<InstanceProfile>> {
        let call = Call::new("ListInstanceProfilesForRole", role);
        let mut profiles = Vec::new();
        let request = self.0.list_instance_profiles_for_role().role_name(role);
        each_page!(call, request.into_paginator(), marker, |page| {
            for profile in page.instance_profiles {
                profiles.push(profile_from_sdk(&call, profile)?);
            }
        });
        Ok(profiles)
    }

    async fn add_role_to_instance_profile(&self, profile: &str, role: &str) -> Result<()> {
        let request = self.0.add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
        done!(Call::new("AddRoleToInstanceProfile", format!("{profile}: role {role}")), request)
    }

    async fn remove_role_from_instance_profile(&self, profile: &str, role: &str) -> Result<()> {
        let request =
            self.0.remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
        done!(Call::new("RemoveRoleFromInstanceProfile", format!("{profile}: role {role}")), request)
    }

    async fn tag_instance_profile(&self, profile: &str, tags: &Tags) -> Result<()> {
        let call = Call::new("TagInstanceProfile", profile);
        let tags = tags_to_sdk(&call, tags)?;
        done!(call, self.0.tag_instance_profile().instance_profile_name(profile).set_tags(tags))
    }

    async fn delete_instance_profile(&self, profile: &str) -> Result<()> {
        let request = self.0.delete_instance_profile().instance_profile_name(profile);
        done!(Call::new("DeleteInstanceProfile", profile), request)
    }

    async fn get_open_id_connect_provider(&self, provider: &Arn) -> Result<OidcProvider> {
        let call = Call::new("GetOpenIDConnectProvider", provider.as_str());
        let request = self.0.get_open_id_connect_provider();
        let answer = answer!(call, request.open_id_connect_provider_arn(provider.as_str()));
        Ok(OidcProvider {
            url: call.field(answer.url, "Url")?,
            client_ids: answer.client_id_list.unwrap_or_default(),
        })
    }
}

fn tags_to_sdk(call: &Call, tags: &Tags) -> Result<Option<Vec<types::Tag>>> {
    let tags = tags
        .iter()
        .map(|(key, value)| types::Tag::builder().key(key).value(value).build())
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|failure| call.invalid(failure.to_string()))?;
    Ok(Some(tags).filter(|tags| !tags.is_empty()))
}

fn tags_from_sdk(tags: Option<Vec<types::Tag>>) -> Tags {
    tags.unwrap_or_default().into_iter().map(|tag| (tag.key, tag.value)).collect()
}

fn role(call: &Call, role: types::Role) -> Result<Role> {
    let trust = call.field(role.assume_role_policy_document, "AssumeRolePolicyDocument")?;
    Ok(Role {
        name: call.text(role.role_name, "RoleName")?,
        arn: call.text(role.arn, "Arn")?.into(),
        path: call.text(role.path, "Path")?,
        trust: decode(&trust).ok_or_else(|| call.invalid("the trust policy is not percent-encoded text"))?,
        permissions_boundary: role
            .permissions_boundary
            .and_then(|boundary| boundary.permissions_boundary_arn)
            .map(Arn::from),
        created_at: instant(Some(&role.create_date)),
        tags: tags_from_sdk(role.tags),
    })
}

fn policy_from_sdk(call: &Call, policy: types::Policy) -> Result<Policy> {
    Ok(Policy {
        name: call.field(policy.policy_name, "PolicyName")?,
        arn: call.field(policy.arn, "Arn")?.into(),
        path: call.field(policy.path, "Path")?,
        default_version: call.field(policy.default_version_id, "DefaultVersionId")?,
        attachments: count(policy.attachment_count).unwrap_or(0),
        tags: tags_from_sdk(policy.tags),
    })
}

fn version(call: &Call, version: types::PolicyVersion) -> Result<PolicyVersion> {
    Ok(PolicyVersion {
        id: call.field(version.version_id, "VersionId")?,
        is_default: version.is_default_version,
        created_at: call.field(instant(version.create_date.as_ref()), "CreateDate")?,
    })
}

fn profile_from_sdk(call: &Call, profile: types::InstanceProfile) -> Result<InstanceProfile> {
    Ok(InstanceProfile {
        name: call.text(profile.instance_profile_name, "InstanceProfileName")?,
        arn: call.text(profile.arn, "Arn")?.into(),
        path: call.text(profile.path, "Path")?,
        role: profile.roles.into_iter().next().map(|role| role.role_name),
        created_at: call.field(instant(Some(&profile.create_date)), "CreateDate")?,
        tags: tags_from_sdk(profile.tags),
    })
}
