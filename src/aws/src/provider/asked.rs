//! Which launches may have been asked for before, so that a machine has to be looked for first.
//!
//! EC2 answers a repeated token with the machine of the first time, which covers everything else. It is no help where a
//! predecessor of this process may have got further than the first attempt, or where an answer was lost and the same
//! request cannot be made again, because an offering or a subnet has been used up since.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_cloud::LaunchRequest;
use karpenter_model::{ClaimUid, Clock};

use crate::calls::cache::{TtlCache, later};

/// How far apart the clocks may be that say when a claim was made and when this process began.
const CLOCK_SKEW: Duration = Duration::from_mins(1);
/// How long a launch is remembered whose answer was not heard; claims that get nowhere are given up sooner.
const UNHEARD: Duration = Duration::from_hours(1);

/// What was asked for, as far as it matters.
pub(super) struct Asked {
    clock: Arc<dyn Clock>,
    /// When this process launched for the first time: claims from before may have been another's.
    since: OnceLock<Timestamp>,
    /// Launches whose answer has not been heard.
    unheard: TtlCache<ClaimUid, ()>,
}

impl Asked {
    /// Nothing has been asked for yet.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { since: OnceLock::new(), unheard: TtlCache::new(Arc::clone(&clock), UNHEARD), clock }
    }

    /// Whether a machine may be there that EC2 would not find by the token of this request.
    pub(super) fn before(&self, request: &LaunchRequest) -> bool {
        let since = *self.since.get_or_init(|| self.clock.now());
        request.attempt > 0
            || request.created_at < later(since, CLOCK_SKEW)
            || self.unheard.get(&request.uid).is_some()
    }

    /// To be said before asking: the caller may stop listening at any moment.
    pub(super) fn now(&self, request: &LaunchRequest) {
        self.unheard.put(request.uid.clone(), ());
    }

    /// EC2 has answered with the result.
    pub(super) fn heard(&self, request: &LaunchRequest) {
        self.unheard.remove(&request.uid);
    }
}
