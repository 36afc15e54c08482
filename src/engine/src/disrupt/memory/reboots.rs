//! Reboots of the last day: a node that two of them did not repair is replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{ClaimName, Command};

/// Number of reboots of one claim within [`SPAN`] after which its node is replaced.
const MOST: usize = 2;
/// Time for which a reboot counts.
const SPAN: Duration = Duration::from_hours(24);

/// Instants of the reboots of each claim, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Reboots(BTreeMap<ClaimName, Vec<Timestamp>>);

impl Reboots {
    /// `command` has started.
    pub(super) fn started(&mut self, command: &Command, now: Timestamp) {
        if command.is_reboot() {
            for candidate in &command.candidates {
                self.0.entry(candidate.target.claim.clone()).or_default().push(now);
            }
        }
    }

    /// Drops what no longer counts.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, reboots| {
            reboots.retain(|at| since(*at, now) < SPAN);
            !reboots.is_empty()
        });
    }

    /// Returns whether the node of `claim` was rebooted often enough.
    pub(super) fn are_used_up(&self, claim: &ClaimName) -> bool {
        self.0.get(claim).is_some_and(|reboots| reboots.len() >= MOST)
    }

    /// Instants at which a reboot stops to count.
    pub(super) fn instants(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().flatten().filter_map(|at| at.checked_add(SPAN).ok())
    }
}
