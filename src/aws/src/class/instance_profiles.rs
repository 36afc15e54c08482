//! Instance profiles: how a node gets its role (spec aws-provider 8).
//!
//! A profile is made for one `NodeClass` and one role and never changed: running nodes keep theirs until no
//! node uses it. Its name derives from `NodeClass` and role, so making it twice, or after a crash half way,
//! ends with the same one profile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::error::optional;
use karpenter_aws_api::iam::{Iam, InstanceProfile, InstanceProfileSpec};
use karpenter_aws_api::{Error, Kind, Result, Tags};
use karpenter_iam::is_name;
use karpenter_model::Clock;
use karpenter_model::names::label;

use crate::calls::cache::TtlCache;
use crate::tags;

/// Time for which an answer of IAM about a profile is reused (spec aws-provider 2.3).
const REFRESH: Duration = Duration::from_mins(15);
/// Time for which IAM is not asked again for a role that it does not have.
const ROLE_MISSING: Duration = Duration::from_mins(1);
/// Time for which a new or replaced profile is safe from clean-up: claims may still be about to use it.
const PROTECTED: Duration = Duration::from_hours(1);
const NAME_MAX: usize = 128;

/// Remembered state of a profile.
#[derive(Clone, Debug)]
struct Known {
    role: String,
    path: String,
}

/// Manages instance profiles.
#[derive(Debug)]
pub struct InstanceProfiles {
    iam: Arc<dyn Iam>,
    cluster: String,
    region: String,
    /// Profiles by name; only those that have a role.
    known: TtlCache<String, Known>,
    /// Roles that IAM reported missing; it is not asked again for a minute.
    missing_roles: TtlCache<String, Error>,
    protected: TtlCache<String, ()>,
}

impl InstanceProfiles {
    /// A manager for the profiles of one cluster.
    pub fn new(iam: Arc<dyn Iam>, clock: &Arc<dyn Clock>, cluster: &str, region: &str) -> Self {
        Self {
            iam,
            cluster: cluster.to_owned(),
            region: region.to_owned(),
            known: TtlCache::new(Arc::clone(clock), REFRESH),
            missing_roles: TtlCache::new(Arc::clone(clock), ROLE_MISSING),
            protected: TtlCache::new(Arc::clone(clock), PROTECTED),
        }
    }

    /// The profile nodes of this `NodeClass` get; made if there is none with the right role.
    ///
    /// # Errors
    /// When IAM cannot be asked or the role does not exist.
    pub async fn ensure(&self, class: &EC2NodeClass) -> Result<Option<String>> {
        if let Some(profile) = &class.spec.instance_profile {
            return Ok(Some(profile.clone()));
        }
        let Some(role) = class.spec.role.as_deref().map(bare_name) else { return Ok(None) };
        let current = class.status.as_ref().and_then(|status| status.instance_profile.clone());
        if let Some(current) = current {
            let known = self.known(&current).await?;
            // One that the class named itself before has the role perhaps, but ends when its owner ends it (aws#9028).
            let is_ours =
                |known: &Known| known.path == self.path_of(class) || current == self.legacy_name(class);
            if known.is_some_and(|known| known.role == role && is_ours(&known)) {
                return Ok(Some(current));
            }
            // Claims launched a moment ago may still start from the profile that is replaced.
            self.protected.put(current, ());
        }
        let name = self.name(class, role);
        if self.known(&name).await?.is_none_or(|known| known.role != role) {
            self.create(&name, role, class).await?;
        }
        self.protected.put(name.clone(), ());
        Ok(Some(name))
    }

    async fn known(&self, profile: &str) -> Result<Option<Known>> {
        let key = profile.to_owned();
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known));
        }
        let found = optional(self.iam.get_instance_profile(profile).await)?;
        // Only a complete profile is remembered; a missing one is about to be made.
        let known = found.and_then(|profile| Some(Known { role: profile.role?, path: profile.path }));
        if let Some(known) = &known {
            self.known.put(key, known.clone());
        }
        Ok(known)
    }

    async fn create(&self, name: &str, role: &str, class: &EC2NodeClass) -> Result<()> {
        if let Some(error) = self.missing_roles.get(&role.to_owned()) {
            return Err(error);
        }
        let spec = InstanceProfileSpec {
            name: name.to_owned(),
            path: self.path_of(class),
            tags: self.tags_of(class)?,
        };
        match self.iam.create_instance_profile(&spec).await {
            Ok(_) => tracing::info!(profile = %name, role, "created instance profile"),
            // Made by an earlier attempt, which may have ended before it attached the role.
            Err(error) if error.kind == Kind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match self.iam.add_role_to_instance_profile(name, role).await {
            Ok(()) => {}
            // Another client, perhaps we before a crash, has attached the role already.
            Err(error) if error.kind == Kind::LimitExceeded || error.kind == Kind::AlreadyExists => {}
            Err(error) => {
                // IAM answers `NoSuchEntity` for a missing profile as well; only the text names the kind.
                if error.is_not_found() && error.message.to_lowercase().contains("role") {
                    self.missing_roles.put(role.to_owned(), error.clone());
                }
                if let Err(cleanup) = self.delete(name).await {
                    tracing::warn!(profile = %name, error = %cleanup, "failed to delete half-made instance profile");
                }
                return Err(error);
            }
        }
        self.known.put(name.to_owned(), Known { role: role.to_owned(), path: spec.path });
        Ok(())
    }

    fn tags_of(&self, class: &EC2NodeClass) -> Result<Tags> {
        let mut all = tags::of_profile(&class.spec)
            .map_err(|error| Error::invalid("CreateInstanceProfile", class_name(class), error.to_string()))?;
        all.insert(tags::owned_key(&self.cluster), "owned".to_owned());
        all.insert(tags::CLUSTER_NAME.to_owned(), self.cluster.clone());
        all.insert(label::aws::EC2_NODE_CLASS.to_owned(), class_name(class).to_owned());
        all.insert(label::REGION.to_owned(), self.region.clone());
        Ok(all)
    }

    /// Deletes profiles of this cluster that no `NodeClass`, no claim and no recent change needs.
    ///
    /// # Errors
    /// When the profiles cannot be listed. A profile that cannot be deleted is left for the next time.
    pub async fn collect(&self, in_use: &BTreeSet<String>) -> Result<usize> {
        let mut deleted = 0;
        for profile in self.iam.list_instance_profiles(&self.path()).await? {
            if in_use.contains(&profile.name) || self.protected.get(&profile.name).is_some() {
                continue;
            }
            match self.delete(&profile.name).await {
                Ok(()) => deleted += 1,
                Err(error) => {
                    tracing::warn!(profile = %profile.name, error = %error, "failed to delete instance profile");
                }
            }
        }
        Ok(deleted)
    }

    /// Deletes every profile made for a `NodeClass` that is going away, and the one old releases made.
    ///
    /// # Errors
    /// The first failure, after trying all.
    pub async fn delete_of_class(&self, class: &EC2NodeClass) -> Result<()> {
        let mut names: Vec<String> = self
            .iam
            .list_instance_profiles(&self.path_of(class))
            .await?
            .into_iter()
            .map(|p| p.name)
            .collect();
        let legacy = self.legacy_name(class);
        // A name that IAM does not take was never given to a profile, and asking for it is an error.
        if is_name(&legacy, NAME_MAX) {
            names.push(legacy);
        }
        let mut outcome = Ok(());
        for name in names {
            // Not `?`: the other profiles are deleted all the same.
            outcome = outcome.and(self.delete(&name).await);
        }
        outcome
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let found: Option<InstanceProfile> = optional(self.iam.get_instance_profile(name).await)?;
        if let Some(profile) = found {
            if let Some(role) = &profile.role {
                // IAM refuses to delete a profile that has a role (`DeleteConflict`).
                optional(self.iam.remove_role_from_instance_profile(name, role).await)?;
            }
            optional(self.iam.delete_instance_profile(name).await)?;
        }
        self.known.remove(&name.to_owned());
        self.protected.remove(&name.to_owned());
        Ok(())
    }

    fn path(&self) -> String {
        format!("/karpenter/{}/{}/", self.region, self.cluster)
    }

    fn path_of(&self, class: &EC2NodeClass) -> String {
        format!("{}{}/", self.path(), class.metadata.uid.as_deref().unwrap_or_default())
    }

    /// Name without a path that releases with one profile per class gave it.
    fn legacy_name(&self, class: &EC2NodeClass) -> String {
        format!("{}_{}", self.cluster, fnv1(&[&self.region, class_name(class)]))
    }

    fn name(&self, class: &EC2NodeClass, role: &str) -> String {
        let uid = class.metadata.uid.as_deref().unwrap_or_default();
        format!("{}_{}", self.cluster, fnv1(&[&self.region, class_name(class), uid, role]))
    }
}

/// Profiles named by `NodeClasses` and claims.
pub fn in_use<'a>(
    classes: impl IntoIterator<Item = &'a EC2NodeClass>,
    claim_annotations: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
) -> BTreeSet<String> {
    let of_class = |class: &EC2NodeClass| class.status.as_ref()?.instance_profile.clone();
    let key = karpenter_model::names::annotation::aws::INSTANCE_PROFILE_NAME;
    let of_claim = |annotations: &BTreeMap<String, String>| annotations.get(key).cloned();
    classes
        .into_iter()
        .filter_map(of_class)
        .chain(claim_annotations.into_iter().filter_map(of_claim))
        .collect()
}

fn class_name(class: &EC2NodeClass) -> &str {
    class.metadata.name.as_deref().unwrap_or_default()
}

/// IAM names roles by the last segment of what a user may have written with a path.
pub(super) fn bare_name(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

/// FNV-1, 64 bits, of the parts joined.
fn fnv1(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_lose_their_path_and_names_are_checked() {
        assert_eq!(bare_name("/team/KarpenterNodeRole"), "KarpenterNodeRole");
        assert_eq!(bare_name("KarpenterNodeRole"), "KarpenterNodeRole");
        assert_eq!(
            bare_name("arn:aws-cn:iam::111122223333:role/team/KarpenterNodeRole"),
            "KarpenterNodeRole"
        );
        assert!(is_name("demo_123", NAME_MAX) && !is_name("", NAME_MAX) && !is_name("a b", NAME_MAX));
        assert!(!is_name(&"x".repeat(129), NAME_MAX));
        assert_eq!(fnv1(&[]), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn what_node_classes_and_claims_name_is_in_use() {
        let mut class = EC2NodeClass::new("a", Default::default());
        class.status.get_or_insert_default().instance_profile = Some("one".into());
        let key = karpenter_model::names::annotation::aws::INSTANCE_PROFILE_NAME.to_owned();
        let claim = [(key, "two".to_owned())].into();
        let names = in_use([&class], [&claim, &BTreeMap::new()]);
        assert_eq!(names, ["one".to_owned(), "two".to_owned()].into());
    }
}
