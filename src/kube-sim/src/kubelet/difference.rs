//! Differences of a machine from what its type, its image and its user data promise: the world where the model of it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use karpenter_model::taint::Taint;
use karpenter_model::{Quantity, Resources};

/// Differences of one machine from what is foreseen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Changes of what the hardware has, by resource: reservations are taken off afterwards.
    pub hardware: BTreeMap<String, Change>,
    /// Changes of what the node offers to pods, by resource.
    pub room: BTreeMap<String, Change>,
    /// Labels that another controller of the cluster sets on the Node, and keeps there.
    pub labels: BTreeMap<String, String>,
    /// Labels that it takes off, and keeps off.
    pub without_labels: BTreeSet<String>,
    /// Taints the kubelet registers with besides those of the user data.
    pub taints: Vec<Taint>,
    /// Volumes that the node attaches at most, as its driver states it; none is stated by default.
    pub volumes: Option<u32>,
    /// Additional time until the Node is registered.
    pub joins_later: Duration,
    /// Additional time until the Node is ready.
    pub ready_later: Duration,
    /// The Node stops being ready from time to time.
    pub flaps: Option<Flaps>,
}

/// Interruptions of a Node's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flaps {
    /// Time from one to the next.
    pub every: Duration,
    /// Time for which it is not ready each time.
    pub lasts: Duration,
}

/// More or less of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// By this amount.
    By(Quantity),
    /// By this many hundredths of what there would be.
    Percent(i32),
}

impl FromStr for Change {
    type Err = String;

    /// `-10%`, `-500m`, `2Gi`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no change of an amount; write it as -10%, -500m or 2Gi");
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(Self::Percent).map_err(|_| wrong()),
            None => text.parse().map(Self::By).map_err(|_| wrong()),
        }
    }
}

impl Change {
    fn of(self, name: &str, amount: Quantity) -> Quantity {
        let by = match self {
            Self::By(by) => by,
            Self::Percent(percent) => Quantity::from_nanos(amount.nanos() * i128::from(percent) / 100),
        };
        // Kubelets report whole bytes and thousandths of a core.
        let smallest = if name == "cpu" { Quantity::from_millis(1) } else { Quantity::ONE };
        let changed = amount.saturating_add(by).max(Quantity::ZERO);
        Quantity::from_nanos(changed.nanos() - changed.nanos() % smallest.nanos())
    }
}

/// The amounts after some changes.
pub(super) fn changed(mut amounts: Resources, changes: &BTreeMap<String, Change>) -> Resources {
    for (name, change) in changes {
        amounts.set(name, change.of(name, amounts.amount(name)));
    }
    amounts
}

impl Flaps {
    /// Returns whether a Node is ready this long after its registration, and the time for which that stays so.
    pub(super) fn at(self, since: Duration) -> (bool, Duration) {
        let every = self.every.max(Duration::from_secs(1));
        let up = every.saturating_sub(self.lasts);
        let phase =
            Duration::from_millis(u64::try_from(since.as_millis() % every.as_millis()).unwrap_or_default());
        let until = if phase < up { up } else { every };
        (phase < up, until.saturating_sub(phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_change_by_shares_and_by_amounts_and_are_never_negative() {
        let amounts = || {
            let quantity = |text: &str| text.parse::<Quantity>().expect("a quantity");
            [("cpu", "3920m"), ("memory", "1Gi"), ("pods", "58")]
                .into_iter()
                .fold(Resources::new(), |all, (name, text)| all.with(name, quantity(text)))
        };
        for (name, change, left) in [
            ("cpu", "-500m", "3420m"),
            ("cpu", "-50%", "1960m"),
            ("memory", "-10%", "966367641"),
            ("memory", "1Gi", "2Gi"),
            ("pods", "-3", "55"),
            ("memory", "-2Gi", "0"),
            ("example.com/device", "2", "2"),
        ] {
            let changes = [(name.to_owned(), change.parse().expect("a change"))].into();
            let left: Quantity = left.parse().expect("a quantity");
            assert_eq!(changed(amounts(), &changes).amount(name), left, "{name} {change}");
        }
        assert!("a tenth".parse::<Change>().is_err());
    }

    #[test]
    fn a_node_that_flaps_is_down_at_the_end_of_each_period() {
        let flaps = Flaps { every: Duration::from_mins(5), lasts: Duration::from_secs(30) };
        let at = |seconds| flaps.at(Duration::from_secs(seconds));
        assert_eq!(at(0), (true, Duration::from_secs(270)));
        assert_eq!(at(270), (false, Duration::from_secs(30)));
        assert_eq!(at(899), (false, Duration::from_secs(1)));
        assert_eq!(at(900), (true, Duration::from_secs(270)));
    }
}
