//! Commands that wait for their second look.

use jiff::Timestamp;
use karpenter_model::Command;

/// Commands by the order they were proposed in.
#[derive(Debug, Default)]
pub(super) struct Proposals(Vec<Command>);

impl Proposals {
    /// Sorts the commands of a decision: returns those that may start at once and keeps the others.
    pub(super) fn sort(&mut self, commands: Vec<Command>, now: Timestamp) -> Vec<Command> {
        let (at_once, later): (Vec<_>, Vec<_>) =
            commands.into_iter().partition(|command| command.not_before <= now);
        self.0.extend(later);
        at_once
    }

    /// Takes out those whose second look is due.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Command> {
        let (due, later) =
            std::mem::take(&mut self.0).into_iter().partition(|command| command.not_before <= now);
        self.0 = later;
        due
    }

    /// Returns the instant at which the next second look is due.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.iter().map(|command| command.not_before).min()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Command] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::{DisruptionReason, Method, Price};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn command(not_before: i64) -> Command {
        Command {
            repair: None,
            method: Method::Emptiness,
            reason: DisruptionReason::Empty,
            candidates: Vec::new(),
            replacements: Vec::new(),
            nominations: Vec::new(),
            savings: Price::ZERO,
            terminate_first: false,
            not_before: at(not_before),
        }
    }

    #[test]
    fn each_command_waits_for_its_own_time() {
        let mut proposals = Proposals::default();
        let at_once = proposals.sort(vec![command(25), command(10), command(20)], at(10));
        assert_eq!(at_once, [command(10)]);
        assert_eq!(proposals.next(), Some(at(20)));
        assert_eq!(proposals.due(at(19)), []);
        assert_eq!(proposals.due(at(20)), [command(20)]);
        assert_eq!(proposals.all(), [command(25)]);
        assert_eq!(proposals.due(at(99)), [command(25)]);
        assert_eq!(proposals.next(), None);
    }
}
