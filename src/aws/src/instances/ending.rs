//! Machines being terminated: one call ends many of them, and they are then described together.
//!
//! A question about a machine that is ending gets the answer of the last look at all of them; the first one
//! that comes when that is old takes the next look. "Gone" stays true, so it does not matter how old it is.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use karpenter_aws_api::ec2::{Instance, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Error, Kind, Result};
use karpenter_cloud::{Read, Termination};
use karpenter_model::clock::later;

use super::Instances;

/// Time a machine may take to end before it is terminated once more.
const ENDING: Duration = Duration::from_hours(1);
/// Largest age of a look. Less than the time after which claims and nodes ask again
/// (`karpenter_lifecycle::claim::finalize::TERMINATING_POLL`): one that ends alone is looked at each time.
const LOOK: Duration = Duration::from_secs(4);

/// Instances that were terminated lately.
#[derive(Debug, Default)]
pub(super) struct Ending {
    machines: BTreeMap<InstanceId, Machine>,
    looked_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Machine {
    since: Timestamp,
    /// Last description, until [`Ending::take`] returns it.
    instance: Option<Instance>,
    gone: bool,
}

impl Ending {
    /// Its termination has begun.
    fn began(&mut self, id: &InstanceId, instance: Option<Instance>, now: Timestamp) {
        self.machines.retain(|_, machine| later(machine.since, ENDING) > now);
        // It was described before it was terminated, and must not read as running until the next look.
        let instance = instance.map(|described| Instance { state: InstanceState::ShuttingDown, ..described });
        self.machines.entry(id.clone()).or_insert(Machine { since: now, instance, gone: false });
    }

    /// Machines to look at, if it is time to.
    fn due(&mut self, now: Timestamp) -> Vec<InstanceId> {
        self.machines.retain(|_, machine| later(machine.since, ENDING) > now);
        if self.looked_at.is_some_and(|at| later(at, LOOK) > now) {
            return Vec::new();
        }
        // Before the calls are made: those that ask meanwhile wait for the answers of this look instead of
        // looking themselves.
        self.looked_at = Some(now);
        let there = self.machines.iter().filter(|(_, machine)| !machine.gone);
        there.map(|(id, _)| id.clone()).collect()
    }

    fn seen(&mut self, id: &InstanceId, found: Option<Instance>) {
        let Some(machine) = self.machines.get_mut(id) else { return };
        let state = found.as_ref().map(|instance| instance.state);
        // The state before the end holds more than EC2 still shows.
        machine.instance = machine.instance.take().or(found);
        match state {
            Some(InstanceState::ShuttingDown) => {}
            Some(InstanceState::Terminated) | None => machine.gone = true,
            Some(
                InstanceState::Pending
                | InstanceState::Running
                | InstanceState::Stopping
                | InstanceState::Stopped,
            ) => {
                // Not ending after all: the next question terminates it again.
                self.machines.remove(id);
            }
        }
    }

    fn progress(&self, id: &InstanceId) -> Option<Termination> {
        let gone =
            |machine: &Machine| if machine.gone { Termination::AlreadyGone } else { Termination::Started };
        self.machines.get(id).map(gone)
    }

    /// Description of a machine that is terminating.
    pub(super) fn described(&self, id: &InstanceId) -> Option<Instance> {
        self.machines.get(id).filter(|machine| !machine.gone)?.instance.clone()
    }

    /// Last description of a machine that is gone; returned once.
    pub(super) fn take(&mut self, id: &InstanceId) -> Option<Instance> {
        self.machines.get_mut(id).filter(|machine| machine.gone)?.instance.take()
    }
}

impl Instances {
    /// Ends an instance, or returns the progress of its end.
    ///
    /// # Errors
    /// When EC2 refuses, or gives no usable answer.
    pub async fn terminate(&self, id: &InstanceId) -> Result<Termination> {
        if let Some(progress) = self.progress(id).await? {
            return Ok(progress);
        }
        match self.calls.end.ask(id.clone()).await {
            Ok(InstanceState::ShuttingDown) => {
                let now = self.clock.now();
                let mut known = self.known.lock();
                let instance = known.described.remove(id);
                known.ending.began(id, instance, now);
                Ok(Termination::Started)
            }
            Ok(InstanceState::Terminated) => Ok(self.gone(id)),
            Ok(_) => {
                let message = "the instance is not shutting down";
                self.refused(id, Error::transient("TerminateInstances", id.as_str(), message))
            }
            // EC2 does not show a machine at once after its launch, so "not found" is believed only after
            // that time.
            Err(error) if error.is_not_found() => self.absent(id).map(|()| self.gone(id)),
            // EC2 asks IAM first, and what no longer exists has no tags that a policy could allow it by.
            Err(error) if matches!(error.kind, Kind::Denied | Kind::Invalid | Kind::Conflict) => {
                match self.get(id, Read::Consistent).await {
                    Ok(None) => Ok(self.gone(id)),
                    Ok(Some(_)) | Err(_) => self.refused(id, error),
                }
            }
            Err(error) => self.refused(id, error),
        }
    }

    /// Last description of an instance that was terminated; returned once, when it is gone.
    pub(crate) fn take_ended(&self, id: &InstanceId) -> Option<Instance> {
        self.known.lock().ending.take(id)
    }

    /// Progress of a termination that has begun, as of the last look; `None` when it has not.
    pub(super) async fn progress(&self, id: &InstanceId) -> Result<Option<Termination>> {
        let due = {
            let mut known = self.known.lock();
            if known.ending.progress(id).is_none() {
                return Ok(None);
            }
            known.ending.due(self.clock.now())
        };
        let looks = due.iter().map(|one| async move { (one, self.calls.by_id.ask(one.clone()).await) });
        let looks = join_all(looks).await;
        let mut known = self.known.lock();
        let mut failed = None;
        for (one, look) in looks {
            match look {
                Ok(instance) => known.ending.seen(one, Some(instance)),
                Err(error) if error.is_not_found() => known.ending.seen(one, None),
                // The others may have a newer answer, and are asked about again.
                Err(error) if one == id => failed = Some(error),
                Err(_) => {}
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(known.ending.progress(id)),
        }
    }

    /// Remembers that it is gone: its Node and its claim both ask.
    fn gone(&self, id: &InstanceId) -> Termination {
        let now = self.clock.now();
        let mut known = self.known.lock();
        known.described.remove(id);
        known.ending.began(id, None, now);
        known.ending.seen(id, None);
        Termination::AlreadyGone
    }

    fn refused(&self, id: &InstanceId, error: Error) -> Result<Termination> {
        // The state of the instance is not known: it may be ending.
        let described = self.known.lock().described.remove(id);
        let zone = described.as_ref().map(|one| one.zone.as_str()).unwrap_or_default();
        let zone_id = described.as_ref().and_then(|one| one.zone_id.as_ref()).map(ToString::to_string);
        self.observer.termination_failed(zone, &zone_id.unwrap_or_default());
        Err(error)
    }
}
