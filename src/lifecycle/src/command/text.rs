//! Texts about a command, in logs and events (spec disruption 3.15 and 7).

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use karpenter_model::names::reason;
use karpenter_model::plan::command::{Candidate, Command};
use karpenter_model::{ClaimName, DisruptionReason, Price};

use crate::step::{About, Event};

/// Identifies a command in the log of one process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(String);

impl CommandId {
    /// The id of the command with this number in a process, started at `now`.
    pub fn new(now: Timestamp, number: u64) -> Self {
        Self(format!("{:x}-{number}", now.as_millisecond()))
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The whole command in one line:
/// `<reason>/<id>: <delete|replace>: nodepools=[a, b]: [n1, n2] -> [1 replacement] (savings: $0.12)`.
pub fn text(id: &CommandId, command: &Command) -> String {
    let reason = command.reason.to_string().to_lowercase();
    let pools: BTreeSet<&str> = command.candidates.iter().map(|one| one.pool.as_str()).collect();
    let pools = pools.into_iter().collect::<Vec<_>>().join(", ");
    let nodes: Vec<&str> = command.candidates.iter().map(|one| one.target.node.as_str()).collect();
    let (decision, nodes, new) = (command.decision().as_str(), nodes.join(", "), replacements(command));
    let savings = cents(command.savings);
    format!("{reason}/{id}: {decision}: nodepools=[{pools}]: [{nodes}]{new} (savings: {savings})")
}

/// The command before it has an id: `<delete|replace>: [n1, n2] -> [1 replacement]`.
pub fn short(command: &Command) -> String {
    let nodes: Vec<&str> = command.candidates.iter().map(|one| one.target.node.as_str()).collect();
    format!("{}: [{}]{}", command.decision().as_str(), nodes.join(", "), replacements(command))
}

/// The command as one of its machines hears of it: `<delete|replace>: [n1] (part of 2-node consolidation)`.
pub fn part(command: &Command, candidate: &Candidate) -> String {
    match command.candidates.len() {
        1 => short(command),
        nodes => {
            let (decision, node) = (command.decision().as_str(), &candidate.target.node);
            format!("{decision}: [{node}] (part of {nodes}-node consolidation)")
        }
    }
}

fn replacements(command: &Command) -> String {
    match command.replacements.len() {
        0 => String::new(),
        1 => " -> [1 replacement]".to_owned(),
        more => format!(" -> [{more} replacements]"),
    }
}

/// Dollars with two decimals, rounded half away from zero.
fn cents(price: Price) -> String {
    let cents = (price.nanos().unsigned_abs() + 5_000_000) / 10_000_000;
    let sign = if price.nanos() < 0 && cents > 0 { "-" } else { "" };
    format!("{sign}${}.{:02}", cents / 100, cents % 100)
}

/// A replacement is on its way.
pub fn launching(replacement: &ClaimName, reason: DisruptionReason) -> Event {
    let message = format!("Launching NodeClaim: {reason}");
    Event::new(About::Claim(replacement.clone()), reason::DISRUPTION_LAUNCHING, message)
        .on(reason.to_string())
}

/// A replacement cannot take pods yet.
pub(crate) fn waiting_for_readiness(replacement: &ClaimName) -> Event {
    let message = "Waiting on readiness to continue disruption";
    Event::new(About::Claim(replacement.clone()), reason::DISRUPTION_WAITING_READINESS, message)
}

/// The deletion of a candidate was accepted.
pub fn terminating(candidate: &Candidate, reason: DisruptionReason) -> [Event; 2] {
    let event = |about, kind| {
        let message = format!("Disrupting {kind}: {reason}");
        Event::new(about, reason::DISRUPTION_TERMINATING, message).on(reason.to_string())
    };
    [
        event(About::Node(candidate.target.node.clone()), "Node"),
        event(About::Claim(candidate.target.claim.clone()), "NodeClaim"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::command;
    use super::*;

    fn id() -> CommandId {
        CommandId::new(Timestamp::from_millisecond(255).unwrap(), 7)
    }

    #[test]
    fn the_line_names_everything_and_replacements_only_when_there_are_any() {
        let mut command = command(2, 0);
        command.savings = "0.125".parse().unwrap();
        assert_eq!(
            text(&id(), &command),
            "underutilized/ff-7: delete: nodepools=[web]: [node-0, node-1] (savings: $0.13)"
        );
        command.candidates[1].pool = "api".into();
        command.replacements = super::super::tests::command(0, 1).replacements;
        assert_eq!(
            text(&id(), &command),
            "underutilized/ff-7: replace: nodepools=[api, web]: [node-0, node-1] -> [1 replacement] \
             (savings: $0.13)"
        );
        command.replacements = super::super::tests::command(0, 2).replacements;
        assert!(text(&id(), &command).contains(" -> [2 replacements] "));
    }

    #[test]
    fn before_it_has_an_id_each_machine_hears_its_part() {
        let (one, two) = (command(1, 1), command(2, 0));
        assert_eq!(short(&one), "replace: [node-0] -> [1 replacement]");
        assert_eq!(short(&two), "delete: [node-0, node-1]");
        assert_eq!(part(&one, &one.candidates[0]), short(&one));
        assert_eq!(part(&two, &two.candidates[1]), "delete: [node-1] (part of 2-node consolidation)");
    }

    #[test]
    fn events_say_what_happens_to_whom_and_why() {
        let told = |event: Event| (event.reason, event.message, event.topic);
        let replacement: ClaimName = "new-0".into();
        let underutilized = || Some("Underutilized".to_owned());
        assert_eq!(
            told(launching(&replacement, DisruptionReason::Underutilized)),
            ("DisruptionLaunching", "Launching NodeClaim: Underutilized".to_owned(), underutilized())
        );
        let text = "Waiting on readiness to continue disruption";
        assert_eq!(
            told(waiting_for_readiness(&replacement)),
            ("DisruptionWaitingReadiness", text.to_owned(), None)
        );
        let one = command(1, 0);
        assert_eq!(
            terminating(&one.candidates[0], DisruptionReason::Underutilized).map(told),
            ["Node", "NodeClaim"].map(|kind| {
                let message = format!("Disrupting {kind}: Underutilized");
                ("DisruptionTerminating", message, underutilized())
            })
        );
    }

    #[test]
    fn savings_have_two_decimals_and_losses_a_sign() {
        let table = [
            ("0", "$0.00"),
            ("0.004", "$0.00"),
            ("0.005", "$0.01"),
            ("12.345", "$12.35"),
            ("-0.5", "-$0.50"),
            ("-0.004", "$0.00"),
        ];
        for (price, shown) in table {
            assert_eq!(cents(price.parse().unwrap()), shown, "{price}");
        }
    }
}
