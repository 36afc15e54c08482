//! Instance profiles: one role each.

use jiff::Timestamp;
use karpenter_aws_api::iam::{InstanceProfile, InstanceProfileSpec};
use karpenter_aws_api::{Error, Result, Tags};

use super::{Directory, check_name, exists, no_such_entity};

/// Profiles an account may have; AWS's default quota.
const MAX_PROFILES: usize = 1000;

impl Directory {
    pub(super) fn create_profile(
        &mut self,
        spec: &InstanceProfileSpec,
        now: Timestamp,
    ) -> Result<InstanceProfile> {
        check_name("CreateInstanceProfile", &spec.name, 128)?;
        if self.profiles.contains_key(&spec.name) {
            return Err(exists("CreateInstanceProfile", "Instance Profile", &spec.name));
        }
        if self.profiles.len() >= MAX_PROFILES {
            let text = format!("Cannot exceed quota for InstanceProfilesPerAccount: {MAX_PROFILES}");
            return Err(Error::answered("CreateInstanceProfile", &spec.name, "LimitExceeded", text));
        }
        let profile = InstanceProfile {
            name: spec.name.clone(),
            arn: self.arn("instance-profile", &spec.path, &spec.name),
            path: spec.path.clone(),
            role: None,
            created_at: now,
            tags: spec.tags.clone(),
        };
        self.profiles.insert(spec.name.clone(), profile.clone());
        Ok(profile)
    }

    pub(crate) fn profile(&mut self, operation: &'static str, name: &str) -> Result<&mut InstanceProfile> {
        self.profiles.get_mut(name).ok_or_else(|| {
            let text = format!("Instance Profile {name} cannot be found.");
            Error::answered(operation, name, "NoSuchEntity", text)
        })
    }

    /// Lists them without tags, as IAM does.
    pub(super) fn list_profiles(&self, keep: impl Fn(&InstanceProfile) -> bool) -> Vec<InstanceProfile> {
        self.profiles
            .values()
            .filter(|profile| keep(profile))
            .map(|profile| InstanceProfile { tags: Tags::new(), ..profile.clone() })
            .collect()
    }

    pub(super) fn add_role(&mut self, profile: &str, role: &str) -> Result<()> {
        self.profile("AddRoleToInstanceProfile", profile)?;
        if !self.roles.contains_key(role) {
            return Err(no_such_entity("AddRoleToInstanceProfile", "role", role));
        }
        let entry = self.profile("AddRoleToInstanceProfile", profile)?;
        if entry.role.is_some() {
            let text = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
            return Err(Error::answered("AddRoleToInstanceProfile", profile, "LimitExceeded", text));
        }
        entry.role = Some(role.to_owned());
        Ok(())
    }

    pub(super) fn remove_role(&mut self, profile: &str, role: &str) -> Result<()> {
        let entry = self.profile("RemoveRoleFromInstanceProfile", profile)?;
        if entry.role.as_deref() != Some(role) {
            return Err(no_such_entity("RemoveRoleFromInstanceProfile", "role", role));
        }
        entry.role = None;
        Ok(())
    }

    pub(super) fn delete_profile(&mut self, name: &str) -> Result<()> {
        if self.profile("DeleteInstanceProfile", name)?.role.is_some() {
            let text = "Cannot delete entity, must remove roles from instance profile first.";
            return Err(Error::answered("DeleteInstanceProfile", name, "DeleteConflict", text));
        }
        self.profiles.remove(name);
        Ok(())
    }
}
