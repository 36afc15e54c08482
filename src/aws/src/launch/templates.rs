//! Launch templates that exist: created when first needed, kept while in use, deleted afterwards
//! (spec aws-provider 5.5).
//!
//! A template's name is a hash of its contents, so "already exists" is success and nothing has to be looked up.
//! However many launches need a template that is missing, one of them makes it and the others wait: creation is a
//! mutating call with a small quota. Unused templates are deleted after ten minutes; those a predecessor left are
//! adopted by tag and deleted too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture, Shared};
use jiff::Timestamp;
use karpenter_aws_api::ec2::{Ec2, LaunchTemplateQuery, LaunchTemplateSpec};
use karpenter_aws_api::error::optional;
use karpenter_aws_api::{Filter, Kind, Result};
use karpenter_model::Clock;
use karpenter_model::clock::later;
use karpenter_model::names::label;
use parking_lot::Mutex;

use super::template::NAME_PREFIX;
use crate::tags::CLUSTER_NAME;

/// Time that a template outlives its last use.
pub(crate) const KEEP: Duration = Duration::from_mins(10);

/// Known templates.
pub struct Templates {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    cluster: String,
    known: Mutex<BTreeMap<String, Arc<Template>>>,
    adopted: AtomicBool,
}

/// A template that exists as far as we know, or is being made. One that was lost and made again is another one, though
/// of the same name.
pub struct Template {
    /// A hash of what is in it.
    pub name: String,
    made: Shared<BoxFuture<'static, Result<()>>>,
    until: Mutex<Timestamp>,
}

impl Template {
    fn new(name: &str, made: BoxFuture<'static, Result<()>>, until: Timestamp) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), made: made.shared(), until: Mutex::new(until) })
    }

    fn until(&self) -> Timestamp {
        *self.until.lock()
    }

    fn keep(&self, until: Timestamp) {
        *self.until.lock() = until;
    }
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template")
            .field("name", &self.name)
            .field("until", &self.until())
            .finish_non_exhaustive()
    }
}

impl Templates {
    /// Creates it with nothing known.
    pub fn new(ec2: Arc<dyn Ec2>, clock: Arc<dyn Clock>, cluster: &str) -> Self {
        Self {
            ec2,
            clock,
            cluster: cluster.to_owned(),
            known: Mutex::default(),
            adopted: AtomicBool::new(false),
        }
    }

    /// Makes sure a template exists and stays for a while.
    ///
    /// # Errors
    /// When it cannot be made. That is the answer for all callers that were waiting; a later caller tries
    /// again.
    pub async fn ensure(&self, spec: &LaunchTemplateSpec) -> Result<Arc<Template>> {
        let template = self.wanted(spec);
        template.made.clone().await.inspect_err(|_| self.lost(&template))?;
        template.keep(later(self.clock.now(), KEEP));
        Ok(template)
    }

    /// Forgets a template that another client deleted. Nothing happens where it has been made again since.
    pub fn lost(&self, template: &Arc<Template>) {
        let mut known = self.known.lock();
        if known.get(&template.name).is_some_and(|known| Arc::ptr_eq(known, template)) {
            known.remove(&template.name);
        }
    }

    /// Adopts every template of this cluster, so that leftovers of a predecessor expire as well. Once that has
    /// succeeded there is nothing more to adopt, and nothing is asked. Returns how many templates were found.
    ///
    /// # Errors
    /// When templates cannot be listed; to be tried again.
    pub async fn adopt(&self) -> Result<usize> {
        if self.adopted.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let query = LaunchTemplateQuery {
            names: Vec::new(),
            filters: vec![Filter::tag(CLUSTER_NAME, &self.cluster)],
        };
        let templates = self.ec2.describe_launch_templates(&query).await?;
        // Other tools may tag theirs with the cluster; these must not be deleted.
        let ours: Vec<_> = templates.into_iter().filter(|one| one.name.starts_with(NAME_PREFIX)).collect();
        let (count, until) = (ours.len(), later(self.clock.now(), KEEP));
        for template in ours {
            let adopted = || Template::new(&template.name, future::ready(Ok(())).boxed(), until);
            // A template that a launch is making meanwhile stays the one that other launches wait for.
            self.known.lock().entry(template.name.clone()).or_insert_with(adopted);
        }
        self.adopted.store(true, Ordering::Relaxed);
        Ok(count)
    }

    /// Deletes templates that no launch has used for [`KEEP`]. One that cannot be deleted is tried again next
    /// time.
    pub async fn sweep(&self) -> usize {
        let now = self.clock.now();
        let expired: Vec<_> = self.known.lock().values().filter(|one| one.until() <= now).cloned().collect();
        let mut deleted = 0;
        for template in expired {
            // Forgotten first: a launch that needs it meanwhile creates it again instead of losing it.
            self.lost(&template);
            match optional(self.ec2.delete_launch_template(&template.name).await) {
                Ok(_) => deleted += 1,
                Err(error) => {
                    tracing::warn!(template = %template.name, error = %error, "failed to delete launch template");
                    self.known.lock().entry(template.name.clone()).or_insert(template);
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
            vec![Filter::tag(CLUSTER_NAME, &self.cluster), Filter::tag(label::aws::EC2_NODE_CLASS, class)];
        let query = LaunchTemplateQuery { names: Vec::new(), filters };
        let mut outcome = Ok(());
        for template in self.ec2.describe_launch_templates(&query).await? {
            self.known.lock().remove(&template.name);
            let deleted = optional(self.ec2.delete_launch_template(&template.name).await);
            outcome = outcome.and(deleted.map(drop));
        }
        outcome
    }

    /// The template of this content; the caller must wait until it is made. One whose time is over may be in the
    /// middle of its deletion, so another takes its place.
    fn wanted(&self, spec: &LaunchTemplateSpec) -> Arc<Template> {
        let now = self.clock.now();
        let mut known = self.known.lock();
        match known.get(&spec.name) {
            Some(template) if template.until() > now => Arc::clone(template),
            _ => {
                let made = make(Arc::clone(&self.ec2), spec.clone()).boxed();
                let template = Template::new(&spec.name, made, later(now, KEEP));
                known.insert(spec.name.clone(), Arc::clone(&template));
                template
            }
        }
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

async fn make(ec2: Arc<dyn Ec2>, spec: LaunchTemplateSpec) -> Result<()> {
    match ec2.create_launch_template(&spec).await {
        Ok(_) => tracing::debug!(template = %spec.name, "created launch template"),
        // The name is a hash of the content, so the template that exists is the same.
        Err(error) if error.kind == Kind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
