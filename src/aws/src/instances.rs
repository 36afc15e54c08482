//! Instances as EC2 describes them: found by tag, read by id, ended, named (spec aws-provider 5.11).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::labels;
use karpenter_aws_client::ec2::{Ec2, Instance, InstanceQuery, InstanceState};
use karpenter_aws_client::id::InstanceId;
use karpenter_aws_client::{Error, Filter, Result, Tags};
use karpenter_cloud::{Read, Termination};
use karpenter_model::Clock;

use crate::cache::later;
use crate::network::zone_names::ZoneNames;
use crate::observer::Observer;
use crate::tags;

/// How long EC2 may take to know an instance it has just launched.
const SETTLING: Duration = Duration::from_mins(5);
/// How long an instance may take to end before nobody asks for it any more.
const ENDING: Duration = Duration::from_hours(1);

/// The instances of one cluster.
pub struct Instances {
    ec2: Arc<dyn Ec2>,
    clock: Arc<dyn Clock>,
    cluster: String,
    observer: Arc<dyn Observer>,
    zones: Arc<ZoneNames>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    described: BTreeMap<InstanceId, Instance>,
    /// Launched by us lately: a "not found" about these is EC2 catching up, not an answer.
    launched: BTreeMap<InstanceId, Timestamp>,
    /// Ended by us lately, as they were.
    ending: BTreeMap<InstanceId, (Timestamp, Instance)>,
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
        Self { ec2, clock, cluster: cluster.to_owned(), observer, zones, known: Mutex::default() }
    }

    /// Remembers that an instance has just been launched.
    pub fn launched(&self, id: &InstanceId) {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
                Filter::tag_key(labels::NODEPOOL),
                Filter::tag_key(labels::aws::EC2_NODE_CLASS),
                Filter::tag(tags::CLUSTER_NAME, &self.cluster),
                Filter::new("instance-state-name", InstanceState::ALIVE.map(InstanceState::as_str)),
            ],
        };
        let instances = self.ec2.describe_instances(&query).await?;
        self.zones.learn(instances.iter().map(|one| (one.zone_id.as_ref(), &one.zone)));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.described = instances.iter().map(|one| (one.id.clone(), one.clone())).collect();
        Ok(instances)
    }

    /// The running instance of a claim, if there is one; the oldest when there are several.
    pub async fn of_claim(&self, claim: &str) -> Result<Option<Instance>> {
        let living = [InstanceState::Pending, InstanceState::Running];
        let query = InstanceQuery {
            ids: Vec::new(),
            filters: vec![
                Filter::tag(tags::NODE_CLAIM, claim),
                Filter::tag(tags::CLUSTER_NAME, &self.cluster),
                Filter::new("instance-state-name", living.map(InstanceState::as_str)),
            ],
        };
        let found = self.ec2.describe_instances(&query).await?;
        let mut living: Vec<_> = found.into_iter().filter(|one| living.contains(&one.state)).collect();
        living.sort_by(|a, b| a.launched_at.cmp(&b.launched_at).then_with(|| a.id.cmp(&b.id)));
        Ok(living.into_iter().next())
    }

    /// What an instance was that we have ended; asked for once, when it is gone.
    pub fn take_ended(&self, id: &InstanceId) -> Option<Instance> {
        let ending = self.known.lock().unwrap_or_else(PoisonError::into_inner).ending.remove(id);
        ending.map(|(_, instance)| instance)
    }

    fn ending(&self, instance: &Instance) {
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.ending.retain(|_, (at, _)| later(*at, ENDING) > now);
        known.ending.entry(instance.id.clone()).or_insert_with(|| (now, instance.clone()));
    }

    fn last_described(&self, id: &InstanceId) -> Option<Instance> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).described.get(id).cloned()
    }

    /// One instance; `None` when it is gone.
    ///
    /// # Errors
    /// When EC2 cannot say, which includes an instance launched so recently that it may not know it yet.
    pub async fn get(&self, id: &InstanceId, read: Read) -> Result<Option<Instance>> {
        if read == Read::Cached
            && let Some(instance) = self.last_described(id)
        {
            return Ok(Some(instance));
        }
        let query = InstanceQuery { ids: vec![id.clone()], filters: Vec::new() };
        let found = match self.ec2.describe_instances(&query).await {
            Ok(found) => found.into_iter().find(|one| one.id == *id),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let now = self.clock.now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(instance) if instance.state != InstanceState::Terminated => {
                known.described.insert(id.clone(), instance.clone());
                Ok(Some(instance))
            }
            None if known.launched.get(id).is_some_and(|at| later(*at, SETTLING) > now) => {
                let message = "the instance was launched moments ago and is not visible yet";
                Err(Error::transient("DescribeInstances", id.as_str(), message))
            }
            Some(_) | None => {
                known.described.remove(id);
                known.launched.remove(id);
                Ok(None)
            }
        }
    }

    /// Ends an instance.
    pub async fn terminate(&self, id: &InstanceId) -> Result<Termination> {
        let Some(instance) = self.get(id, Read::Consistent).await? else {
            return Ok(Termination::AlreadyGone);
        };
        if instance.state == InstanceState::ShuttingDown {
            self.ending(&instance);
            return Ok(Termination::Started);
        }
        let answer = self.ec2.terminate_instances(std::slice::from_ref(id)).await;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).described.remove(id);
        match answer {
            Ok(changes) => {
                let ending = |state| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
                if changes.iter().any(|change| change.id == *id && ending(change.current)) {
                    self.ending(&instance);
                    return Ok(Termination::Started);
                }
                self.failed(&instance);
                Err(Error::transient("TerminateInstances", id.as_str(), "the instance is not shutting down"))
            }
            Err(error) if error.is_not_found() => Ok(Termination::AlreadyGone),
            Err(error) => {
                self.failed(&instance);
                Err(error)
            }
        }
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
        let wanted = [(tags::NAME, node), (tags::NODE_CLAIM, claim), (tags::CLUSTER_NAME, &self.cluster)];
        let missing: Tags = wanted
            .into_iter()
            .filter(|(key, _)| !instance.tags.contains_key(*key))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if missing.is_empty() {
            return Ok(false);
        }
        self.ec2.create_tags(&[id.to_string()], &missing).await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).described.remove(id);
        Ok(true)
    }

    fn failed(&self, instance: &Instance) {
        let zone_id = instance.zone_id.as_ref().map(ToString::to_string).unwrap_or_default();
        self.observer.termination_failed(instance.zone.as_str(), &zone_id);
    }
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instances").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}
