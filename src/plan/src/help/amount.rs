//! Amounts of resources in the units people write.

use std::fmt;

use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
use karpenter_model::{Quantity, ResourceName};

/// An amount with the name of its resource: `95.7 cpu`, `12 GiB memory`, `1 nvidia.com/gpu`.
pub(super) struct Amount<'a>(pub(super) &'a ResourceName, pub(super) Quantity);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, amount) = self;
        write!(f, "{} {name}", Number(name, *amount))
    }
}

/// An amount without the name of its resource: cpu in cores and bytes in GiB, each with at most one decimal, rounded down.
pub(super) struct Number<'a>(pub(super) &'a ResourceName, pub(super) Quantity);

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, amount) = self;
        let (tenths, unit) = match name.as_str() {
            CPU => (amount.nanos() / 100_000_000, ""),
            MEMORY | EPHEMERAL_STORAGE => (tenths_of_gibibytes(amount.nanos()), " GiB"),
            _ => return write!(f, "{amount}"),
        };
        // Amounts below a tenth are written as they are.
        match (tenths / 10, tenths % 10) {
            (0, 0) => write!(f, "{amount}"),
            (whole, 0) => write!(f, "{whole}{unit}"),
            (whole, tenth) => write!(f, "{whole}.{tenth}{unit}"),
        }
    }
}

fn tenths_of_gibibytes(nanos: i128) -> i128 {
    (nanos / 1_000_000_000 * 10) >> 30
}

/// Rounds bytes up to what a person orders of a disk.
pub(super) fn whole_gibibytes(amount: Quantity) -> Quantity {
    const GIBIBYTE: i128 = 1_000_000_000 << 30;
    Quantity::from_nanos((amount.nanos() + GIBIBYTE - 1) / GIBIBYTE * GIBIBYTE)
}

/// Rounds down to what [`Number`] shows, so that an amount which is advised is one that was tried.
pub(super) fn shown(name: &ResourceName, amount: Quantity) -> Quantity {
    match name.as_str() {
        CPU => Quantity::from_nanos(amount.nanos() / 100_000_000 * 100_000_000),
        MEMORY | EPHEMERAL_STORAGE => {
            let tenths = tenths_of_gibibytes(amount.nanos());
            Quantity::from_bytes(i64::try_from((tenths << 30) / 10).unwrap_or(i64::MAX))
        }
        _ => amount,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_the_units_people_write() {
        for (name, amount, expected) in [
            (CPU, Quantity::from_millis(404_310), "404.3 cpu"),
            (CPU, Quantity::from_units(500), "500 cpu"),
            (CPU, Quantity::from_millis(50), "50m cpu"),
            (MEMORY, Quantity::from_bytes(3 << 29), "1.5 GiB memory"),
            (MEMORY, Quantity::from_bytes(7 << 30), "7 GiB memory"),
            ("nvidia.com/gpu", Quantity::ONE, "1 nvidia.com/gpu"),
        ] {
            let name: ResourceName = name.into();
            assert_eq!(Amount(&name, amount).to_string(), expected);
            assert!(shown(&name, amount) <= amount);
        }
    }
}
