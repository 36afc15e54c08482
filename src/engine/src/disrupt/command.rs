//! The command a method proposes for its candidates: what it saves, which nominations are its own, and when it may
//! start. Whether it should be proposed at all is the business of the method.

mod from_reservation;
mod from_template;
pub(super) mod slot;

use std::collections::BTreeSet;

use karpenter_model::{
    Command, DisruptionReason, Launch, Method, Nomination, PodKey, Price, Reason, Snapshot,
};

use crate::disrupt::brake::Held;
use crate::disrupt::candidate::Candidate;
pub(crate) use from_reservation::from_reservation;
pub(crate) use from_template::from_template;

/// Reason why there is no command for a node.
pub(crate) enum Stays {
    /// For now, and it was looked at.
    Because(Reason),
    /// A brake is on.
    Held(Held),
    /// No simulation was left for it.
    NotReached,
}

/// The command of `method` that removes `candidates` and launches `replacements`. Drift and repair may start at
/// once, the others after their second look.
pub(crate) fn command(
    method: Method,
    candidates: &[Candidate<'_>],
    replacements: Vec<Launch>,
    mut nominations: Vec<Nomination>,
    snapshot: &Snapshot,
) -> Command {
    // Simulations place pods of earlier commands and pods that wait too; those nominations are not part of this one.
    let own: BTreeSet<&PodKey> = candidates.iter().flat_map(Candidate::moving).map(|pod| &pod.key).collect();
    nominations.retain(|nomination| own.contains(&nomination.pod));
    let reason = method.reason();
    let not_before = match reason {
        DisruptionReason::Drifted | DisruptionReason::Unhealthy => snapshot.now,
        DisruptionReason::Empty | DisruptionReason::Underutilized => {
            snapshot.now + snapshot.settings.disruption.second_look
        }
    };
    Command {
        method,
        reason,
        candidates: candidates.iter().map(Candidate::disrupted).collect(),
        savings: price(candidates).saturating_sub(least(&replacements)),
        replacements,
        terminate_first: false,
        nominations,
        not_before,
        repair: None,
    }
}

/// Returns the price of `candidates` together; those of unknown price count zero.
pub(crate) fn price(candidates: &[Candidate<'_>]) -> Price {
    candidates.iter().map(|candidate| candidate.price).sum()
}

/// Returns the lowest price that `launches` can have.
pub(crate) fn least(launches: &[Launch]) -> Price {
    launches.iter().filter_map(|launch| launch.cheapest.as_ref()).map(|cheapest| cheapest.price).sum()
}
