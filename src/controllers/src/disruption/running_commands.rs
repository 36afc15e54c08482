//! Registry of disruption commands in progress: the machines of each, and whether its replacements exist.
//!
//! A machine is in at most one command. The disruption loop reads the registry before it decides. The tasks that carry
//! commands out write it, and queue their outcomes for the memory of the engine. It ends with the process, as its commands do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_engine::disrupt::{Memory, Rejection};
use karpenter_lifecycle::command::Failure;
use karpenter_model::{ClaimName, Command, NodeId};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Identifies a command within one process; a later one is larger.
pub(super) type Number = u64;

/// The commands under way. Cheap to clone; shared.
#[derive(Clone, Default)]
pub(super) struct RunningCommands {
    commands: Arc<Mutex<Commands>>,
    placed: Arc<Notify>,
}

#[derive(Default)]
struct Commands {
    begun: Number,
    open: BTreeMap<Number, Open>,
    /// Outcomes that the memory of the engine has not recorded yet, oldest first.
    outcomes: Vec<CommandOutcome>,
}

/// Outcome of a command, queued until the next decision records it in the memory of the engine.
#[derive(Debug)]
pub(super) enum CommandOutcome {
    /// The command has started: its replacements exist under these names.
    Started(Command, Vec<ClaimName>, Timestamp),
    /// The command was carried out: its machines are being removed, and every replacement came up.
    Succeeded(Command),
    /// The command failed and was rolled back.
    RolledBack(Command, Failure, Timestamp),
    /// A second look rejected the command.
    Rejected(Command, Rejection, Timestamp),
}

impl CommandOutcome {
    fn record(self, memory: &mut Memory) {
        match self {
            Self::Started(command, replacements, at) => memory.started(&command, &replacements, at),
            Self::Succeeded(command) => memory.succeeded(&command),
            Self::RolledBack(command, failure, at) => {
                memory.rolled_back(&command, &failure.to_string(), at);
                // A lack of capacity proves nothing about the template, so it closes no health gate.
                if failure.blames_machines() {
                    memory.failed(&command, at);
                }
            }
            Self::Rejected(command, rejection, at) => memory.rejected(&command, &rejection, at),
        }
    }
}

struct Open {
    command: Command,
    /// Its replacements exist and its candidates are marked, so that every snapshot shows both.
    placed: bool,
}

impl RunningCommands {
    /// Takes in a command that starts now.
    pub(super) fn begin(&self, command: Command) -> Number {
        let mut commands = self.commands.lock();
        commands.begun += 1;
        let number = commands.begun;
        commands.open.insert(number, Open { command, placed: false });
        number
    }

    /// The command has lost candidates.
    pub(super) fn changed(&self, number: Number, command: &Command) {
        if let Some(open) = self.commands.lock().open.get_mut(&number) {
            open.command = command.clone();
        }
    }

    /// Snapshots show its replacements from now on.
    pub(super) fn placed(&self, number: Number) {
        if let Some(open) = self.commands.lock().open.get_mut(&number) {
            open.placed = true;
        }
        // Kept until the loop waits again; `notify_waiters` would be lost while it decides.
        self.placed.notify_one();
    }

    /// Adds a result for the next decision.
    pub(super) fn report(&self, outcome: CommandOutcome) {
        self.commands.lock().outcomes.push(outcome);
    }

    /// Records in `memory` the results it does not have yet.
    pub(super) fn record_outcomes(&self, memory: &mut Memory) {
        let outcomes = std::mem::take(&mut self.commands.lock().outcomes);
        for outcome in outcomes {
            outcome.record(memory);
        }
    }

    /// The command is over.
    pub(super) fn ended(&self, number: Number) {
        self.commands.lock().open.remove(&number);
    }

    /// Returns once a command was [`RunningCommands::placed`] for which no earlier call has returned.
    pub(super) async fn any_placed(&self) {
        self.placed.notified().await;
    }

    /// Machines of all commands.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        self.commands.lock().open.values().flat_map(|open| open.command.nodes().cloned()).collect()
    }

    /// The commands that every snapshot taken from now on shows.
    pub(super) fn shown(&self) -> BTreeSet<Number> {
        self.commands.lock().open.iter().filter(|(_, open)| open.placed).map(|(number, _)| *number).collect()
    }

    /// Commands that a snapshot may not show, in the order in which they began; it was taken after [`RunningCommands::shown`]
    /// was. What it shows all the same does not count twice: its nodes are leaving there.
    pub(super) fn unplaced(&self, shown: &BTreeSet<Number>) -> Vec<Command> {
        let commands = self.commands.lock();
        let unplaced = commands.open.iter().filter(|(number, _)| !shown.contains(number));
        unplaced.map(|(_, open)| open.command.clone()).collect()
    }

    /// Returns the number of machines in commands.
    pub(super) fn queued(&self) -> usize {
        self.commands.lock().open.values().map(|open| open.command.candidates.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::{DisruptionReason, Method, Price};

    use super::*;

    fn command() -> Command {
        Command {
            repair: None,
            method: Method::SingleNode,
            reason: DisruptionReason::Underutilized,
            candidates: Vec::new(),
            replacements: Vec::new(),
            nominations: Vec::new(),
            savings: Price::default(),
            terminate_first: false,
            not_before: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_command_that_takes_its_place_after_the_snapshot_is_still_told_of() {
        let commands = RunningCommands::default();
        let (before, after) = (commands.begin(command()), commands.begin(command()));
        commands.placed(before);
        let shown = commands.shown();
        // Here the snapshot is taken.
        commands.placed(after);
        commands.begin(command());
        assert_eq!(commands.unplaced(&shown).len(), 2, "that one, and one that has begun since");
        assert_eq!(commands.unplaced(&commands.shown()).len(), 1);
        commands.ended(after);
        assert_eq!(commands.unplaced(&shown).len(), 1);
    }
}
