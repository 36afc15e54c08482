//! Nodes that had to be bought back: a node went because others had room for its pods, and soon after one was launched
//! for pods of the same workloads. The room was there in the arrangement that was planned; the scheduler takes pods as they
//! come and may choose another, in which a large pod no longer fits anywhere.
//!
//! The new node looks as superfluous as the old one did. It stays for the window of the anti-flap brake, and for twice as
//! long each time the same happens to it again.
//!
//! Bounded: a removal is forgotten after the window, a node after it could have stayed twice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::{later, since};
use karpenter_model::{ClaimName, Command, DisruptionReason, OwnerUid, Snapshot};

/// The wait doubles so often at most: four hours with the usual window.
const DOUBLINGS: u32 = 4;

/// Removals whose pods may still come back, and the nodes that were bought for some.
#[derive(Debug, Clone, Default)]
pub(super) struct BoughtBack {
    /// Oldest first.
    removals: VecDeque<Removal>,
    /// Claims that commands launched in place of nodes, and when: those are no surprise.
    replacements: BTreeMap<ClaimName, Timestamp>,
    nodes: BTreeMap<ClaimName, Stay>,
}

/// Nodes that went without a replacement.
#[derive(Debug, Clone)]
struct Removal {
    at: Timestamp,
    workloads: BTreeSet<OwnerUid>,
    /// The longest that one of them had to stay itself.
    stayed: Duration,
}

/// Time for which a node stays.
#[derive(Debug, Clone, Copy)]
struct Stay {
    wait: Duration,
    until: Timestamp,
}

impl BoughtBack {
    /// A command has started, which creates `replacements`.
    pub(super) fn started(&mut self, command: &Command, replacements: &[ClaimName], now: Timestamp) {
        self.replacements.extend(replacements.iter().map(|claim| (claim.clone(), now)));
        // Only a removal that relied on room of other nodes can turn out to have been wrong about it.
        if command.reason != DisruptionReason::Underutilized || !replacements.is_empty() {
            return;
        }
        let candidates = command.candidates.iter();
        let workloads: BTreeSet<OwnerUid> =
            candidates.clone().flat_map(|candidate| candidate.workloads.iter().cloned()).collect();
        if !workloads.is_empty() {
            let stays = candidates.filter_map(|candidate| self.nodes.get(&candidate.target.claim));
            let stayed = stays.map(|stay| stay.wait).max().unwrap_or_default();
            self.removals.push_back(Removal { at: now, workloads, stayed });
        }
    }

    /// Finds the nodes that were bought back, and forgets what no longer matters. A `window` of zero finds none.
    pub(super) fn look(&mut self, snapshot: &Snapshot, window: Duration) {
        let now = snapshot.now;
        let recent = |at: Timestamp| since(at, now) < window;
        self.removals.retain(|removal| recent(removal.at));
        self.replacements.retain(|_, at| recent(*at));
        self.nodes.retain(|_, stay| since(stay.until, now) < stay.wait);
        let Some(oldest) = self.removals.front().map(|removal| removal.at) else { return };
        for node in &snapshot.nodes {
            let Some(claim) = node.claim.as_deref().filter(|claim| claim.created_at > oldest) else {
                continue;
            };
            if self.nodes.contains_key(&claim.name) || self.replacements.contains_key(&claim.name) {
                continue;
            }
            let came_back = |removal: &&Removal| {
                let mut owners = node.pods.iter().filter_map(|pod| pod.owner_uid.as_ref());
                claim.created_at > removal.at && owners.any(|owner| removal.workloads.contains(owner))
            };
            let stayed = self.removals.iter().filter(came_back).map(|removal| removal.stayed).max();
            if let Some(stayed) = stayed {
                let longest = window.saturating_mul(1 << DOUBLINGS);
                let wait = stayed.saturating_mul(2).clamp(window, longest);
                let until = later(claim.created_at, wait);
                self.nodes.insert(claim.name.clone(), Stay { wait, until });
            }
        }
    }

    /// Returns the instant until which the node of `claim` stays, if it was bought back.
    pub(super) fn until(&self, claim: &ClaimName, now: Timestamp) -> Option<Timestamp> {
        self.nodes.get(claim).map(|stay| stay.until).filter(|until| now < *until)
    }

    /// Instants at which nodes need not stay any longer.
    pub(super) fn instants(&self) -> impl Iterator<Item = Timestamp> {
        self.nodes.values().map(|stay| stay.until)
    }
}
