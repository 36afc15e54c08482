//! Instances as EC2 describes them: found by tag, read by id, ended, named (spec aws-provider 5.11).
//!
//! Reading, ending and naming are asked for one by one and done for many at once, see [`crate::calls::batch`].

mod calls;
pub mod drift;
mod ending;
pub mod provider_id;
pub mod registration;
pub mod repair;
pub mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_aws_api::ec2::{Ec2, Instance, InstanceQuery, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Error, Filter, Result, Tags};
use karpenter_cloud::{Read, Termination};
use karpenter_model::Clock;
use karpenter_model::clock::later;
use karpenter_model::names::label;
use parking_lot::Mutex;

use self::calls::{Calls, Tagged};
use self::ending::Ending;
use crate::calls::observer::Observer;
use crate::network::zone_names::ZoneNames;
use crate::tags;

/// Longest time until EC2 shows an instance it has just launched.
const SETTLING: Duration = Duration::from_mins(5);

/// The instances of one cluster.
pub struct Instances {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    cluster: String,
    observer: Arc<dyn Observer>,
    zones: Arc<ZoneNames>,
    calls: Calls,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    described: BTreeMap<InstanceId, Instance>,
    /// Launched by us lately: a "not found" about these is EC2 catching up, not an answer.
    launched: BTreeMap<InstanceId, Timestamp>,
    ending: Ending,
}

impl Instances {
    /// The instances that carry this cluster's tags; the names of their zones are noted.
    pub fn new(
        ec2: Arc<dyn Ec2>,
        clock: Arc<dyn Clock>,
        cluster: &str,
        observer: Arc<dyn Observer>,
        zones: Arc<ZoneNames>,
    ) -> Self {
        let calls = Calls::new(&ec2, cluster, &observer);
        Self { ec2, clock, cluster: cluster.to_owned(), observer, zones, calls, known: Mutex::default() }
    }

    /// Remembers that an instance has just been launched.
    pub fn launched(&self, id: &InstanceId) {
        let now = self.clock.now();
        let mut known = self.known.lock();
        known.launched.retain(|_, at| later(*at, SETTLING) > now);
        known.launched.insert(id.clone(), now);
    }

    /// Every instance of the cluster that is not terminated.
    ///
    /// # Errors
    /// When the listing is not complete.
    pub async fn list(&self) -> Result<Vec<Instance>> {
        let query = InstanceQuery {
            ids: Vec::new(),
            filters: vec![
                Filter::tag_key(label::NODE_POOL),
                Filter::tag_key(label::aws::EC2_NODE_CLASS),
                Filter::tag(tags::CLUSTER_NAME, &self.cluster),
                // EC2 describes an instance for about an hour after it was terminated.
                Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
            ],
        };
        let instances = self.ec2.describe_instances(&query).await?;
        self.zones.learn(instances.iter().map(|one| (one.zone_id.as_ref(), &one.zone)));
        let mut known = self.known.lock();
        // Replaced and not merged: what the list lacks has ended, and must not be answered from memory.
        known.described = instances.iter().map(|one| (one.id.clone(), one.clone())).collect();
        Ok(instances)
    }

    /// The instance that was launched for a claim and is in one of `states`; the oldest when there are several.
    ///
    /// # Errors
    /// When EC2 gives no usable answer.
    pub async fn of_claim(&self, claim: &str, states: &[InstanceState]) -> Result<Option<Instance>> {
        let found = self.calls.by_claim.ask(claim.to_owned()).await?;
        let own = found.into_iter().filter(|one| states.contains(&one.state));
        Ok(own.min_by(|a, b| a.launched_at.cmp(&b.launched_at).then_with(|| a.id.cmp(&b.id))))
    }

    fn last_described(&self, id: &InstanceId) -> Option<Instance> {
        self.known.lock().described.get(id).cloned()
    }

    /// One instance; `None` when it is gone.
    ///
    /// # Errors
    /// When EC2 gives no usable answer; an instance launched too recently to be shown counts as such.
    pub async fn get(&self, id: &InstanceId, read: Read) -> Result<Option<Instance>> {
        if read == Read::Cached
            && let Some(instance) = self.last_described(id)
        {
            return Ok(Some(instance));
        }
        // A machine that is terminating is asked about again and again, on behalf of its Node.
        match self.progress(id).await? {
            Some(Termination::AlreadyGone) => return Ok(None),
            Some(Termination::Started) => {
                if let Some(described) = self.known.lock().ending.described(id) {
                    return Ok(Some(described));
                }
            }
            None => {}
        }
        let found = match self.calls.by_id.ask(id.clone()).await {
            Ok(found) => Some(found).filter(|one| one.state != InstanceState::Terminated),
            Err(error) if error.is_not_found() => {
                self.absent(id)?;
                None
            }
            Err(error) => return Err(error),
        };
        let mut known = self.known.lock();
        if let Some(instance) = &found {
            known.described.insert(id.clone(), instance.clone());
        } else {
            known.described.remove(id);
            known.launched.remove(id);
        }
        Ok(found)
    }

    /// Reboots an instance. Not done for many at once: repair begins one command per pass.
    ///
    /// # Errors
    /// `NotFound` when the instance is gone, and what EC2 answers for one that does not run.
    pub async fn reboot(&self, id: &InstanceId) -> Result<()> {
        // RebootInstances succeeds for a terminated instance and does nothing (its page of the EC2 API
        // reference), so a machine that is gone has to be found first.
        if self.get(id, Read::Consistent).await?.is_none() {
            let code = "InvalidInstanceID.NotFound";
            return Err(Error::answered("RebootInstances", id.as_str(), code, "it is gone"));
        }
        self.ec2.reboot_instances(std::slice::from_ref(id)).await
    }

    /// Checks that an instance that EC2 does not show is gone: one launched moments ago may not be visible yet.
    fn absent(&self, id: &InstanceId) -> Result<()> {
        let now = self.clock.now();
        if self.known.lock().launched.get(id).is_some_and(|at| later(*at, SETTLING) > now) {
            let message = "the instance was launched moments ago and is not visible yet";
            return Err(Error::transient("DescribeInstances", id.as_str(), message));
        }
        Ok(())
    }

    /// Writes names into an instance's tags. A tag that is there already stays: users rename instances.
    ///
    /// # Errors
    /// `NotFound` when the instance is gone.
    pub async fn tag(&self, id: &InstanceId, claim: &str, node: &str) -> Result<bool> {
        let instance = self.get(id, Read::Consistent).await?;
        let Some(instance) = instance.filter(|one| one.state != InstanceState::ShuttingDown) else {
            return Err(Error::answered(
                "CreateTags",
                id.as_str(),
                "InvalidInstanceID.NotFound",
                "it is gone",
            ));
        };
        let wanted = [(tags::NODE_CLAIM, claim), (tags::CLUSTER_NAME, &self.cluster), (tags::NAME, node)];
        let missing: Tags = wanted
            .into_iter()
            .filter(|(key, _)| !instance.tags.contains_key(*key))
            // A class and its users may leave no room for the name, which only people read: EC2 would refuse all of them.
            .take(tags::room(&instance.tags))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        self.calls.tag.ask(Tagged { tags: missing, id: id.clone() }).await?;
        // The description that is remembered lacks the new tags.
        self.known.lock().described.remove(id);
        Ok(true)
    }
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instances").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
