//! Number of the launch attempt of each claim.

use std::collections::BTreeMap;

use karpenter_model::{Claim, ClaimName, ClaimUid};

use super::View;

/// Attempts whose token is spent, per claim; claims at their first attempt have no entry.
pub(super) type Attempts = BTreeMap<ClaimUid, u32>;

impl View {
    /// The attempt the next launch of the claim belongs to, from 0.
    pub(crate) fn launch_attempt(&self, claim: &ClaimUid) -> u32 {
        self.lock().attempts.get(claim).copied().unwrap_or_default()
    }

    /// Notes that the token of the present attempt is of no more use. Claims that are gone leave nothing behind.
    pub(crate) fn launch_attempt_spent(&self, name: &ClaimName, claim: &ClaimUid) {
        let mut inner = self.lock();
        if inner.cluster.get::<Claim>(name).is_none_or(|known| known.model.uid != *claim) {
            return;
        }
        let attempt = inner.attempts.entry(claim.clone()).or_default();
        *attempt = attempt.saturating_add(1);
    }
}
