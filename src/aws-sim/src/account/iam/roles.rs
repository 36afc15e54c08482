//! Roles and what is attached to them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::policies::PolicyEntry;
use super::{Directory, check_document, check_name, exists, no_such_entity};
use karpenter_aws_api::iam::{AttachedPolicy, Role, RoleSpec};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Error, Result, Tags};

/// Managed policies a role may have; AWS's default quota.
const MAX_ATTACHED: usize = 10;
const SERVICE_PATH: &str = "/aws-service-role/";

#[derive(Debug)]
pub(crate) struct RoleEntry {
    pub(crate) role: Role,
    attached: BTreeSet<Arn>,
    /// Policies that stand in the role itself, by name.
    pub(crate) inline: BTreeMap<String, String>,
}

impl RoleEntry {
    fn new(role: Role) -> Self {
        Self { role, attached: BTreeSet::new(), inline: BTreeMap::new() }
    }
}

/// Name AWS gives the service-linked role of a service.
pub(super) fn service_linked_name(service: &str) -> String {
    match service {
        "spot.amazonaws.com" => "AWSServiceRoleForEC2Spot".to_owned(),
        "spotfleet.amazonaws.com" => "AWSServiceRoleForEC2SpotFleet".to_owned(),
        "ec2fleet.amazonaws.com" => "AWSServiceRoleForEC2Fleet".to_owned(),
        other => format!("AWSServiceRoleFor{}", other.split('.').next().unwrap_or(other)),
    }
}

impl Directory {
    pub(super) fn create_role(&mut self, spec: &RoleSpec, now: Timestamp) -> Result<Role> {
        check_name("CreateRole", &spec.name, 64)?;
        check_document("CreateRole", &spec.name, &spec.trust, 2048)?;
        if self.roles.contains_key(&spec.name) {
            return Err(exists("CreateRole", "Role", &spec.name));
        }
        let role = Role {
            name: spec.name.clone(),
            arn: self.arn("role", &spec.path, &spec.name),
            path: spec.path.clone(),
            trust: spec.trust.clone(),
            permissions_boundary: spec.permissions_boundary.clone(),
            created_at: Some(now),
            tags: spec.tags.clone(),
        };
        self.roles.insert(spec.name.clone(), RoleEntry::new(role.clone()));
        Ok(role)
    }

    /// `None` when it exists.
    pub(crate) fn create_service_linked(&mut self, service: &str) -> Option<Role> {
        let name = service_linked_name(service);
        if self.roles.contains_key(&name) {
            return None;
        }
        let path = format!("{SERVICE_PATH}{service}/");
        let role = Role {
            arn: self.arn("role", &path, &name),
            name: name.clone(),
            path,
            trust: format!(
                r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"Service":"{service}"}},"Action":"sts:AssumeRole"}}]}}"#
            ),
            permissions_boundary: None,
            created_at: None,
            tags: Tags::new(),
        };
        self.roles.insert(name, RoleEntry::new(role.clone()));
        Some(role)
    }

    pub(crate) fn role(&mut self, operation: &'static str, name: &str) -> Result<&mut RoleEntry> {
        self.roles.get_mut(name).ok_or_else(|| no_such_entity(operation, "role", name))
    }

    /// Documents in force of the role's policies, and of its boundary if it has one.
    pub(crate) fn documents_of(&self, role: &Arn) -> Result<(Vec<String>, Option<String>)> {
        let found = self.roles.values().find(|entry| entry.role.arn == *role).ok_or_else(|| {
            let name = role.as_str().rsplit('/').next().unwrap_or_default();
            no_such_entity("SimulatePrincipalPolicy", "role", name)
        })?;
        let in_force = |policy: &Arn| self.policies.get(policy).map(PolicyEntry::in_force);
        let own = found.attached.iter().filter_map(in_force).chain(found.inline.values().cloned()).collect();
        Ok((own, found.role.permissions_boundary.as_ref().and_then(in_force)))
    }

    pub(super) fn update_trust(&mut self, name: &str, document: &str) -> Result<()> {
        check_document("UpdateAssumeRolePolicy", name, document, 2048)?;
        let entry = self.role("UpdateAssumeRolePolicy", name)?;
        check_modifiable("UpdateAssumeRolePolicy", &entry.role)?;
        document.clone_into(&mut entry.role.trust);
        Ok(())
    }

    /// Sets the boundary, or removes it; removing one that is not there is an error in IAM too.
    pub(super) fn set_boundary(
        &mut self,
        operation: &'static str,
        name: &str,
        boundary: Option<Arn>,
    ) -> Result<()> {
        if let Some(policy) = boundary.as_ref().filter(|policy| !self.policies.contains_key(*policy)) {
            let text = format!("Scope ARN: {policy} does not exist or is not attachable.");
            return Err(Error::answered(operation, name, "NoSuchEntity", text));
        }
        let entry = self.role(operation, name)?;
        check_modifiable(operation, &entry.role)?;
        if boundary.is_none() && entry.role.permissions_boundary.is_none() {
            let text = format!("Role with name {name} does not have a permissions boundary.");
            return Err(Error::answered(operation, name, "NoSuchEntity", text));
        }
        entry.role.permissions_boundary = boundary;
        Ok(())
    }

    pub(super) fn delete_role(&mut self, name: &str) -> Result<()> {
        let conflict = |text: &str| Err(Error::answered("DeleteRole", name, "DeleteConflict", text));
        let in_profile = self.profiles.values().any(|profile| profile.role.as_deref() == Some(name));
        let entry = self.role("DeleteRole", name)?;
        check_modifiable("DeleteRole", &entry.role)?;
        if !entry.attached.is_empty() {
            return conflict("Cannot delete entity, must detach all policies first.");
        }
        if !entry.inline.is_empty() {
            return conflict("Cannot delete entity, must delete policies first.");
        }
        if in_profile {
            return conflict("Cannot delete entity, must remove roles from instance profile first.");
        }
        self.roles.remove(name);
        Ok(())
    }

    pub(super) fn attached(&mut self, role: &str) -> Result<Vec<AttachedPolicy>> {
        let entry = self.role("ListAttachedRolePolicies", role)?;
        let name = |arn: &Arn| arn.as_str().rsplit('/').next().unwrap_or_default().to_owned();
        Ok(entry.attached.iter().map(|arn| AttachedPolicy { name: name(arn), arn: arn.clone() }).collect())
    }

    pub(super) fn attach(&mut self, role: &str, policy: &Arn) -> Result<()> {
        self.role("AttachRolePolicy", role)?;
        if !self.policies.contains_key(policy) {
            let text = format!("Policy {policy} does not exist or is not attachable.");
            return Err(Error::answered("AttachRolePolicy", policy.as_str(), "NoSuchEntity", text));
        }
        let entry = self.role("AttachRolePolicy", role)?;
        check_modifiable("AttachRolePolicy", &entry.role)?;
        if !entry.attached.contains(policy) && entry.attached.len() >= MAX_ATTACHED {
            let text = format!("Cannot exceed quota for PoliciesPerRole: {MAX_ATTACHED}");
            return Err(Error::answered("AttachRolePolicy", role, "LimitExceeded", text));
        }
        entry.attached.insert(policy.clone());
        Ok(())
    }

    pub(super) fn detach(&mut self, role: &str, policy: &Arn) -> Result<()> {
        if self.role("DetachRolePolicy", role)?.attached.remove(policy) {
            return Ok(());
        }
        let text = format!("Policy {policy} was not found.");
        Err(Error::answered("DetachRolePolicy", policy.as_str(), "NoSuchEntity", text))
    }

    pub(super) fn inline(&mut self, role: &str, policy: &str) -> Result<String> {
        let found = self.role("GetRolePolicy", role)?.inline.get(policy).cloned();
        found.ok_or_else(|| no_such_entity("GetRolePolicy", "role policy", policy))
    }

    pub(super) fn delete_inline(&mut self, role: &str, policy: &str) -> Result<()> {
        let gone = self.role("DeleteRolePolicy", role)?.inline.remove(policy);
        gone.map(drop).ok_or_else(|| no_such_entity("DeleteRolePolicy", "role policy", policy))
    }

    pub(super) fn attachments(&self, policy: &Arn) -> u32 {
        let holders = self.roles.values().filter(|entry| entry.attached.contains(policy)).count();
        u32::try_from(holders).unwrap_or(u32::MAX)
    }
}

fn check_modifiable(operation: &'static str, role: &Role) -> Result<()> {
    if role.path.starts_with(SERVICE_PATH) {
        let text = format!("Cannot perform the operation on the protected role '{}'", role.name);
        return Err(Error::answered(operation, &role.name, "UnmodifiableEntity", text));
    }
    Ok(())
}
