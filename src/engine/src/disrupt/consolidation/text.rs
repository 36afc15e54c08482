//! Name of a command without an id in events (spec disruption 3.15).

use karpenter_model::{Command, Price};

/// `replace: [n1] -> [1 replacement] (savings: $0.12)`, or the form for one node of several.
pub(crate) fn candidate_event(command: &Command) -> String {
    let decision = command.decision().as_str();
    let names: Vec<&str> = command.candidates.iter().map(|one| one.target.node.as_str()).collect();
    let new = match command.replacements.len() {
        0 => String::new(),
        1 => " -> [1 replacement]".to_owned(),
        many => format!(" -> [{many} replacements]"),
    };
    format!("{decision}: [{}]{new} (savings: {})", names.join(", "), dollars(command.savings))
}

/// `replace: [n1] (part of 3-node consolidation) (savings: $0.12)`.
pub(crate) fn member_event(command: &Command, node: &str) -> String {
    let (decision, many) = (command.decision().as_str(), command.candidates.len());
    format!(
        "{decision}: [{node}] (part of {many}-node consolidation) (savings: {})",
        dollars(command.savings)
    )
}

/// A price with two decimals, rounded to the nearest.
fn dollars(price: Price) -> String {
    let cents = (i128::from(price.nanos()) + 5_000_000).div_euclid(10_000_000);
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}${}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_two_decimals() {
        for (nanos, text) in [
            (0, "$0.00"),
            (4_999_999, "$0.00"),
            (5_000_000, "$0.01"),
            (1_239_000_000, "$1.24"),
            (-30_000_000, "-$0.03"),
        ] {
            assert_eq!(dollars(Price::from_nanos(nanos)), text);
        }
    }
}
