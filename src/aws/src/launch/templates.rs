//! Launch templates that exist: created when first needed, kept while in use, deleted afterwards
//! (spec aws-provider 5.5).
//!
//! A template's name is a hash of its contents, so "already exists" is success and nothing has to be looked up.
//! Unused templates are deleted after ten minutes; those a predecessor left are adopted by tag and deleted too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_aws_client::ec2::{Ec2, LaunchTemplateQuery, LaunchTemplateSpec};
use karpenter_aws_client::error::optional;
use karpenter_aws_client::{Filter, Kind, Result};
use karpenter_model::Clock;

use super::template::NAME_PREFIX;
use crate::cache::later;
use crate::tags::CLUSTER_NAME;

/// How long a template outlives its last use. Long enough that a burst of launches creates each template once,
/// since creation is a mutating call with a small quota.
pub const KEEP: Duration = Duration::from_mins(10);

/// The templates we know about.
pub struct Templates {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    cluster: String,
    known: Mutex<BTreeMap<String, Timestamp>>,
}

impl Templates {
    /// Nothing known yet.
    pub fn new(ec2: Arc<dyn Ec2>, clock: Arc<dyn Clock>, cluster: &str) -> Self {
        Self { ec2, clock, cluster: cluster.to_owned(), known: Mutex::default() }
    }

    /// Makes sure a template exists and stays for a while.
    pub async fn ensure(&self, spec: &LaunchTemplateSpec) -> Result<()> {
        if self.touch(&spec.name) {
            return Ok(());
        }
        match self.ec2.create_launch_template(spec).await {
            Ok(_) => tracing::debug!(template = %spec.name, "created launch template"),
            Err(error) if error.kind == Kind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        self.remember(&spec.name);
        Ok(())
    }

    /// Forgets a template without deleting it: somebody else did.
    pub fn forget(&self, name: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Adopts every template of this cluster, so that leftovers of a predecessor expire as well.
    pub async fn hydrate(&self) -> Result<usize> {
        let query = LaunchTemplateQuery {
            names: Vec::new(),
            filters: vec![Filter::tag(CLUSTER_NAME, &self.cluster)],
        };
        let templates = self.ec2.describe_launch_templates(&query).await?;
        let ours: Vec<_> = templates.iter().filter(|one| one.name.starts_with(NAME_PREFIX)).collect();
        for template in &ours {
            self.remember(&template.name);
        }
        Ok(ours.len())
    }

    /// Deletes templates nobody has used for [`KEEP`]. One that cannot be deleted is tried again next time.
    pub async fn sweep(&self) -> usize {
        let now = self.clock.now();
        let expired: Vec<String> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect()
        };
        let mut deleted = 0;
        for name in expired {
            // Forgotten first: a launch that wants it meanwhile creates it again instead of losing it.
            self.forget(&name);
            match optional(self.ec2.delete_launch_template(&name).await) {
                Ok(_) => deleted += 1,
                Err(error) => {
                    tracing::warn!(template = %name, error = %error, "failed to delete launch template");
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_insert(now);
                }
            }
        }
        deleted
    }

    /// Deletes every template of a `NodeClass` that is going away.
    ///
    /// # Errors
    /// The first failure, after trying all.
    pub async fn delete_of_class(&self, class: &str) -> Result<()> {
        let filters =
            vec![Filter::tag(CLUSTER_NAME, &self.cluster), Filter::tag(labels::aws::EC2_NODE_CLASS, class)];
        let query = LaunchTemplateQuery { names: Vec::new(), filters };
        let mut outcome = Ok(());
        for template in self.ec2.describe_launch_templates(&query).await? {
            self.forget(&template.name);
            let deleted = optional(self.ec2.delete_launch_template(&template.name).await);
            outcome = outcome.and(deleted.map(drop));
        }
        outcome
    }

    fn touch(&self, name: &str) -> bool {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(name) {
            Some(until) if *until > now => {
                *until = later(now, KEEP);
                true
            }
            _ => false,
        }
    }

    fn remember(&self, name: &str) {
        let until = later(self.clock.now(), KEEP);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), until);
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
