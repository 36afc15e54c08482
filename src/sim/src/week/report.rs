//! A week as a table: an hour a line.

use std::fmt;

use karpenter_model::Price;

use super::{Hour, Week};

impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "day hour   pods machines outdated     cost    bound  of bound")?;
        for (number, hour) in self.hours.iter().enumerate() {
            let Hour { pods, machines, outdated, cost, bound } = *hour;
            writeln!(
                f,
                "{:>3} {:>4} {pods:>6} {machines:>8} {outdated:>8} {:>8} {:>8} {:>9}",
                number / 24 + 1,
                number % 24,
                dollars(cost),
                dollars(bound),
                share(cost, bound)
            )?;
        }
        let (cost, bound) = self.total();
        writeln!(
            f,
            "in all {} for at least {} ({} of the bound), {} instances launched, {} interrupted; hash {}",
            dollars(cost),
            dollars(bound),
            share(cost, bound),
            self.launched,
            self.interrupted,
            self.hash
        )?;
        for violation in &self.violations {
            writeln!(f, "  {} s: {}: {}", violation.seconds, violation.rule, violation.what)?;
        }
        Ok(())
    }
}

/// Dollars and cents.
fn dollars(price: Price) -> String {
    let cents = price.nanos() / 10_000_000;
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// A price as a multiple of another one.
fn share(price: Price, of: Price) -> String {
    if of.nanos() == 0 {
        return "-".to_owned();
    }
    let hundredths = price.nanos().saturating_mul(100) / of.nanos();
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
