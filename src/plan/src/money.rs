//! Money as people read it, the same in every form of a plan: rounded half up, with separated thousands, and with the word
//! for a saving or for a cost where a sign could be misread.
//!
//! Rounded for the eye only: what is added up, and what tools read, is exact.

use karpenter_model::Price;

/// Hours of a month, as AWS counts them.
const HOURS: i64 = 730;

/// Whole dollars per month of a price per hour.
pub(crate) fn monthly(price: Price) -> String {
    dollars(Price::from_nanos(price.nanos().saturating_mul(HOURS)), 0)
}

/// Describes the hourly savings of a removal, as the end of a sentence: `saves $0.4000 per hour`, `costs $0.1000 more per
/// hour`.
pub(crate) fn saved(savings: Option<Price>) -> String {
    let Some(savings) = savings else {
        return "saves -, because the price of a node is not known".to_owned();
    };
    if savings < Price::ZERO {
        return format!("costs {} more per hour", hourly(opposite(savings)));
    }
    format!("saves {} per hour", hourly(savings))
}

/// A change with its sign: `+$0.2400`, `-$0.4000`.
pub(crate) fn change(change: Price, write: impl Fn(Price) -> String) -> String {
    if change < Price::ZERO { format!("-{}", write(opposite(change))) } else { format!("+{}", write(change)) }
}

/// Dollars per hour with four decimals, which tell the cheapest offerings apart.
pub(crate) fn hourly(price: Price) -> String {
    dollars(price, 4)
}

/// Writes a price that may not be known: then it is `-`, and never nothing.
pub(crate) fn known(price: Option<Price>) -> String {
    known_as(price, hourly)
}

/// Writes a price that may not be known in this form, or `-`.
pub(crate) fn known_as(price: Option<Price>, write: impl Fn(Price) -> String) -> String {
    price.map_or_else(|| "-".to_owned(), write)
}

/// Writes dollars with this number of decimals.
pub(crate) fn dollars(price: Price, decimals: u32) -> String {
    let scale = 10_i64.pow(decimals);
    let unit = 1_000_000_000 / scale;
    let rounded = (price.nanos().saturating_abs().saturating_add(unit / 2)) / unit;
    let whole = (rounded / scale).to_string();
    let grouped: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    let sign = if price < Price::ZERO { "-" } else { "" };
    let fraction = match usize::try_from(decimals) {
        Ok(0) | Err(_) => String::new(),
        Ok(width) => format!(".{:0width$}", rounded % scale),
    };
    format!("{sign}${}{fraction}", grouped.join(","))
}

fn opposite(price: Price) -> Price {
    Price::ZERO.saturating_sub(price)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(nanos: i64) -> Price {
        Price::from_nanos(nanos)
    }

    #[test]
    fn money_is_rounded_and_its_thousands_are_apart() {
        assert_eq!(dollars(price(1_234_567_500_000), 2), "$1,234.57");
        assert_eq!(hourly(price(96_000_000)), "$0.0960");
        assert_eq!((known(Some(price(0))), known(None)), ("$0.0000".to_owned(), "-".to_owned()));
        assert_eq!(dollars(price(730_400_000_000), 0), "$730");
        assert_eq!(change(price(-1_500_000_000), |price| dollars(price, 2)), "-$1.50");
        assert_eq!(change(price(0), hourly), "+$0.0000");
    }

    #[test]
    fn what_is_saved_and_what_costs_more_are_said_in_words() {
        assert_eq!(saved(Some(price(400_000_000))), "saves $0.4000 per hour");
        assert_eq!(saved(Some(price(33_333_333))), "saves $0.0333 per hour");
        assert_eq!(saved(Some(price(-1_500_000_000))), "costs $1.5000 more per hour");
    }
}
