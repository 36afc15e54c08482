//! Launches that may have been requested before, so that a machine has to be looked for first.
//!
//! EC2 answers a repeated token with the machine of the first time, which covers everything else. It is no help where a
//! predecessor of this process may have got further than the first attempt, or where an answer was lost and the same
//! request cannot be made again, because an offering or a subnet has been used up since. Nor is it where EC2 refuses the
//! request, for its rate or because the claim has changed since, and does not show a new machine at once. A claim whose status
//! could not be written asks like that, so what it was answered is kept, and answered again without asking EC2.
//!
//! A request whose answer was lost may have launched a machine that EC2 shows seconds later. Until then only its token leads
//! to that machine, so no refusal of a later request, be it for its rate or for its contents, makes the token another one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_cloud::{Instance, LaunchRequest};
use karpenter_model::clock::later;
use karpenter_model::{ClaimName, ClaimUid, Clock, ProviderId};

use crate::calls::cache::TtlCache;

/// Largest difference between the clocks that date the claim and the start of this process.
const CLOCK_SKEW: Duration = Duration::from_mins(1);
/// Time for which a launch without an answer is remembered; claims without progress are given up sooner.
const UNHEARD: Duration = Duration::from_hours(1);
/// EC2 shows a machine seconds after it was launched; after this long one that it does not show is not there.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);
/// Time for which an answer is kept: much longer than EC2 takes to show a new machine.
const ANSWERED: Duration = Duration::from_mins(10);

/// Launches that were asked of EC2, and what it answered, as far as it matters.
pub(super) struct LaunchLedger {
    clock: Arc<dyn Clock>,
    /// Time of the first launch by this process: claims from before may have been another's.
    since: OnceLock<Timestamp>,
    /// Launches without an answer so far, by claim.
    unheard: TtlCache<ClaimUid, Sent>,
    /// The machines of claims that may not have recorded them yet.
    answered: TtlCache<ClaimUid, Instance>,
    /// Machines by the name of their claim, until they end.
    machines: TtlCache<ClaimName, ProviderId>,
}

/// Claim and time of a request.
#[derive(Clone)]
struct Sent {
    claim: ClaimName,
    at: Timestamp,
}

impl LaunchLedger {
    /// Creates it with no request.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let answered = TtlCache::new(Arc::clone(&clock), ANSWERED);
        let machines = TtlCache::new(Arc::clone(&clock), ANSWERED);
        let unheard = TtlCache::new(Arc::clone(&clock), UNHEARD);
        Self { since: OnceLock::new(), unheard, answered, machines, clock }
    }

    /// Returns whether there may be a machine that EC2 would not find by the token of this request.
    pub(super) fn may_have_launched(&self, request: &LaunchRequest) -> bool {
        let earlier = self.of_a_predecessor(request);
        request.attempt > 0 || earlier.is_some() || self.unheard.get(&request.uid).is_some()
    }

    /// Time of a request with the same token that may have been carried out, if EC2 need not show its machine yet.
    pub(super) fn unsettled(&self, request: &LaunchRequest) -> Option<Timestamp> {
        let earlier = self.of_a_predecessor(request);
        let asked = self.unheard.get(&request.uid).map(|sent| sent.at).or(earlier)?;
        self.may_be_hidden(asked).then_some(asked)
    }

    /// Records a request. Called before it is sent: the caller may stop listening at any moment.
    pub(super) fn record_sent(&self, request: &LaunchRequest) {
        self.record_sent_at(request, self.clock.now());
    }

    /// The request that has not been answered is this old.
    pub(super) fn record_sent_at(&self, request: &LaunchRequest, at: Timestamp) {
        self.unheard.put(request.uid.clone(), Sent { claim: request.claim.clone(), at });
    }

    /// EC2 has answered with the result.
    pub(super) fn record_answer(&self, request: &LaunchRequest) {
        self.unheard.remove(&request.uid);
    }

    /// EC2 has launched this machine.
    pub(super) fn launched(&self, request: &LaunchRequest, machine: &Instance) {
        self.answered.put(request.uid.clone(), machine.clone());
        self.machines.put(request.claim.clone(), machine.provider_id.clone());
    }

    /// A machine ends, or has ended.
    pub(super) fn ended(&self, machine: &ProviderId) {
        self.machines.retain(|_, known| known != machine);
        self.answered.retain(|_, known| known.provider_id != *machine);
    }

    /// The machine that was launched for a claim of this name a short while ago, which EC2 may not show yet: its claim may
    /// be deleted before the id is written.
    pub(super) fn machine_of(&self, claim: &ClaimName) -> Option<ProviderId> {
        self.machines.get(claim)
    }

    /// Returns whether a machine that EC2 need not show yet may have been launched for a claim of this name.
    pub(super) fn may_be_launched(&self, claim: &ClaimName) -> bool {
        self.unheard.entries().iter().any(|(_, sent)| sent.claim == *claim && self.may_be_hidden(sent.at))
    }

    /// The machine that was launched for this claim a short while ago.
    pub(super) fn answered(&self, request: &LaunchRequest) -> Option<Instance> {
        self.answered.get(&request.uid)
    }

    /// Until when a predecessor of this process may have asked for this machine, if it may have.
    fn of_a_predecessor(&self, request: &LaunchRequest) -> Option<Timestamp> {
        let since = *self.since.get_or_init(|| self.clock.now());
        (request.created_at < later(since, CLOCK_SKEW)).then_some(since)
    }

    /// Returns whether EC2 need not show yet what was requested at that time.
    fn may_be_hidden(&self, asked: Timestamp) -> bool {
        self.clock.now() < later(asked, SHOWN_WITHIN)
    }
}
