//! A running disruption command, from its first write to its last (spec disruption 3.15).
//!
//! The caller calls [`Running::look`] for the next action, takes it, and reports the result; between two looks it
//! may wait as long as it likes. Whatever the answers are, these hold:
//! - replacements are created only after every candidate that stays in the command has been tainted;
//! - a candidate is deleted only after every replacement has been initialized, and at most once;
//! - a candidate that disappears by itself holds up none of the others;
//! - the command ends: done, or rolled back at the latest when its time is over. A look at which everything is
//!   ready counts as success however late it is.
//!
//! Nothing of it is persisted. A restarted process takes back the taints of commands it has no record of, and
//! replacements that are being launched become ordinary nodes, which the next decision counts on.

mod deadline;
mod leftover;
mod takes_over;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::ClaimName;
use karpenter_model::clock::since;
use karpenter_model::plan::command::{Candidate, Command};

pub use deadline::deadline;
pub use leftover::{Leftover, leftover};
pub use takes_over::takes_over;
use text::waiting_for_readiness;
pub use text::{CommandId, launching, part, short, terminating, text};

use crate::step::Event;

/// Delay of the next look at replacements that are coming up, and of the next try of deletions that failed.
pub const POLL: Duration = Duration::from_secs(1);

/// Time a command may take with this number of machines in commands, its own among them: a cluster that replaces thousands
/// at once is not fast.
pub fn timeout(queued: usize) -> Duration {
    const EACH: Duration = Duration::from_millis(80);
    let all = EACH.saturating_mul(u32::try_from(queued).unwrap_or(u32::MAX));
    // Bounds and share of each machine are those of the reference (spec disruption 3.17).
    all.clamp(Duration::from_mins(10), Duration::from_hours(1))
}

/// A command that was started, and how far it has come.
#[derive(Debug, Clone)]
pub struct Running {
    command: Command,
    started: Timestamp,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Candidates are to be tainted and marked.
    Mark,
    /// No new pod can come any more; is it still right?
    Confirm,
    /// Replacements are to be created.
    Create,
    /// Replacements come up, then candidates are deleted.
    Wait {
        replacements: BTreeMap<ClaimName, Progress>,
        deleted: BTreeSet<ClaimName>,
        /// Deletions were asked for, and some failed.
        tried: bool,
    },
    Over(Failure),
}

/// Facts about the machines of a command.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The instant.
    pub now: Timestamp,
    /// Candidates whose claim is gone or being deleted.
    pub leaving: BTreeSet<ClaimName>,
    /// State of each replacement; one that is left out is missing.
    pub replacements: BTreeMap<ClaimName, Replacement>,
    /// Machines in commands, this one's included.
    pub queued: usize,
}

/// State of one replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Neither the API server nor the index has it.
    Missing,
    /// It has no machine yet.
    Launching,
    /// Its machine was launched and is on its way, or has come up and cannot take the pods it is for.
    Joining,
    /// Ready to take pods.
    Initialized,
    /// Its claim is being deleted and never had a machine.
    GivenUp,
    /// Its claim is being deleted, its machine with it.
    Failed,
}

impl Replacement {
    /// Returns the progress of the replacement.
    fn progress(self) -> Progress {
        match self {
            Self::Missing | Self::Launching | Self::GivenUp => Progress::Created,
            Self::Joining | Self::Failed => Progress::Launched,
            Self::Initialized => Progress::Initialized,
        }
    }

    fn is_gone(self) -> bool {
        matches!(self, Self::Missing | Self::GivenUp | Self::Failed)
    }
}

/// Progress of a replacement. Never unlearned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Created,
    Launched,
    Initialized,
}

/// Next action of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Taint and mark every candidate, side by side; then [`Running::marked`].
    Mark,
    /// Look at the cluster again; then [`Running::confirmed`] or [`Running::rejected`].
    Confirm,
    /// Create every replacement, then mark the candidates for deletion and nominate; then [`Running::created`] or
    /// [`Running::not_created`].
    Create,
    /// Delete these claims, side by side; then [`Running::deleted`].
    Delete(Vec<ClaimName>),
    /// Look again after this long.
    Wait(Duration),
    /// All candidates are being removed. Those that left by themselves did not wait for what takes their
    /// place, so it may not have come up.
    Done {
        /// Every replacement was seen initialized.
        came_up: bool,
    },
    /// Take back what was done to the candidates that are [`Running::left`]; replacements stay.
    RollBack(Failure),
}

/// One look: events for people, and the next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Events to publish.
    pub events: Vec<Event>,
    /// Action to take.
    pub next: Next,
}

/// Reason why a command was rolled back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A candidate could not be tainted or marked.
    #[error("cannot mark nodeclaim {}", list(.0))]
    NotMarked(BTreeSet<ClaimName>),
    /// The decision no longer holds.
    #[error("no longer wanted, {0}")]
    Rejected(String),
    /// A replacement could not be created.
    #[error("cannot create replacement, {0}")]
    NotCreated(String),
    /// A replacement was given up before it had a machine: there was no capacity, or its class was not ready.
    #[error("replacement `{0}` could not be launched")]
    NotLaunched(ClaimName),
    /// A replacement was deleted before the candidates were.
    #[error("replacement `{0}` was deleted")]
    ReplacementGone(ClaimName),
    /// It took too long.
    #[error("not ready after {}s", .0.as_secs())]
    TimedOut(Duration),
}

fn list(claims: &BTreeSet<ClaimName>) -> String {
    claims.iter().map(|claim| format!("`{claim}`")).collect::<Vec<_>>().join(", ")
}

impl Failure {
    /// Returns whether it is a change of mind and nothing went wrong.
    pub fn is_change_of_mind(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// Returns whether replacements had been created, so that some may have failed.
    pub fn is_late(&self) -> bool {
        match self {
            Self::NotLaunched(_) | Self::ReplacementGone(_) | Self::TimedOut(_) => true,
            Self::NotMarked(_) | Self::Rejected(_) | Self::NotCreated(_) => false,
        }
    }

    /// Returns whether the cause is machines that were launched and did not come up. A lack of capacity says nothing
    /// about the next machine.
    pub fn blames_machines(&self) -> bool {
        self.is_late() && !matches!(self, Self::NotLaunched(_))
    }
}

impl Running {
    /// A command that starts at `now`.
    pub fn new(command: Command, now: Timestamp) -> Self {
        Self { command, started: now, stage: Stage::Mark }
    }

    /// The command, without candidates that were dropped on the way.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Candidates that would have to be taken back now: those that were not deleted by us.
    pub fn left(&self) -> impl Iterator<Item = &Candidate> {
        let deleted = match &self.stage {
            Stage::Wait { deleted, .. } => Some(deleted),
            Stage::Mark | Stage::Confirm | Stage::Create | Stage::Over(_) => None,
        };
        self.command
            .candidates
            .iter()
            .filter(move |candidate| deleted.is_none_or(|deleted| !deleted.contains(&candidate.target.claim)))
    }

    /// Replacements that have not been seen initialized, those never created among them.
    pub fn missing_replacements(&self) -> usize {
        match &self.stage {
            Stage::Wait { replacements, .. } => {
                replacements.values().filter(|progress| **progress < Progress::Initialized).count()
            }
            Stage::Mark | Stage::Confirm | Stage::Create | Stage::Over(_) => self.command.replacements.len(),
        }
    }

    /// Takes in `facts`; returns the events to publish and the next action.
    pub fn look(&mut self, facts: &Facts) -> Look {
        let quiet = |next| Look { events: Vec::new(), next };
        match &mut self.stage {
            Stage::Mark => quiet(Next::Mark),
            Stage::Confirm => quiet(Next::Confirm),
            Stage::Create => quiet(Next::Create),
            Stage::Over(failure) => quiet(Next::RollBack(failure.clone())),
            Stage::Wait { replacements, deleted, tried } => {
                let claims = self.command.candidates.iter().map(|candidate| &candidate.target.claim);
                let left: Vec<ClaimName> = claims
                    .filter(|claim| !deleted.contains(*claim) && !facts.leaving.contains(*claim))
                    .cloned()
                    .collect();
                // Candidates that went by themselves count as removed.
                if left.is_empty() {
                    let came_up = replacements.values().all(|progress| *progress == Progress::Initialized);
                    return quiet(Next::Done { came_up });
                }
                let mut events = Vec::new();
                for (name, progress) in &mut *replacements {
                    let state = facts.replacements.get(name).copied().unwrap_or(Replacement::Missing);
                    if *progress < Progress::Initialized && !state.is_gone() {
                        events.push(launching(name, self.command.reason));
                    }
                    // What was initialized once stays so (spec disruption 3.15): a Node that is not ready for
                    // a moment must not hold up the rest.
                    *progress = state.progress().max(*progress);
                    if state.is_gone() {
                        let failure = match progress {
                            Progress::Created => Failure::NotLaunched(name.clone()),
                            Progress::Launched | Progress::Initialized => {
                                Failure::ReplacementGone(name.clone())
                            }
                        };
                        return Look { events, next: Next::RollBack(failure) };
                    }
                    if *progress < Progress::Initialized {
                        events.push(waiting_for_readiness(name));
                    }
                }
                let limit = timeout(facts.queued);
                let over = since(self.started, facts.now) > limit;
                let ready = replacements.values().all(|progress| *progress == Progress::Initialized);
                let next = match (ready, over) {
                    // Late, and deletions have failed. A first try of the deletions is made however late everything is ready.
                    (true, true) if *tried => Next::RollBack(Failure::TimedOut(limit)),
                    (true, _) => Next::Delete(left),
                    (false, true) => Next::RollBack(Failure::TimedOut(limit)),
                    (false, false) => Next::Wait(POLL),
                };
                Look { events, next }
            }
        }
    }

    /// Records the candidates that could not be marked; a claim that was gone counts as marked. Returns the candidates
    /// that are no longer part of the command and are to be taken back: a command that only deletes continues without
    /// them, one with replacements for all of them does not.
    #[must_use]
    pub fn marked(&mut self, failed: BTreeSet<ClaimName>) -> Vec<Candidate> {
        let (kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(&mut self.command.candidates)
            .into_iter()
            .partition(|candidate| !failed.contains(&candidate.target.claim));
        if dropped.is_empty() || (self.command.replacements.is_empty() && !kept.is_empty()) {
            self.command.candidates = kept;
            self.command.nominations.retain(|nomination| {
                !dropped.iter().any(|candidate| candidate.pods.contains(&nomination.pod))
            });
            self.stage = Stage::Confirm;
            return dropped;
        }
        // All of them again, also those that were marked: `left` lists what a rollback takes back.
        self.command.candidates = kept.into_iter().chain(dropped).collect();
        self.stage = Stage::Over(Failure::NotMarked(failed));
        Vec::new()
    }

    /// Records the part of the command that still holds. Returns the candidates that are no longer part of it and are to be
    /// taken back.
    #[must_use]
    pub fn confirmed(&mut self, now: Command) -> Vec<Candidate> {
        let kept: BTreeSet<_> = now.nodes().cloned().collect();
        let before = std::mem::replace(&mut self.command, now);
        self.stage = Stage::Create;
        before.candidates.into_iter().filter(|candidate| !kept.contains(&candidate.target.id)).collect()
    }

    /// Records that the command no longer holds.
    pub fn rejected(&mut self, why: impl Into<String>) {
        self.stage = Stage::Over(Failure::Rejected(why.into()));
    }

    /// Records that every replacement was created, under these names.
    pub fn created(&mut self, names: impl IntoIterator<Item = ClaimName>) {
        let replacements = names.into_iter().map(|name| (name, Progress::Created)).collect();
        self.stage = Stage::Wait { replacements, deleted: BTreeSet::new(), tried: false };
    }

    /// Records that some replacement could not be created.
    pub fn not_created(&mut self, why: impl Into<String>) {
        self.stage = Stage::Over(Failure::NotCreated(why.into()));
    }

    /// Records the deletions that were accepted; the others are requested again at the next look.
    pub fn deleted(&mut self, claims: impl IntoIterator<Item = ClaimName>) {
        if let Stage::Wait { deleted, tried, .. } = &mut self.stage {
            deleted.extend(claims);
            *tried = true;
        }
    }
}

#[cfg(test)]
mod tests;
