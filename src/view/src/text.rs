//! Money, amounts and times, written in little room.
//!
//! Rounded for the eye only: what is added up is exact.

use jiff::Timestamp;
use karpenter_model::resources::{EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use karpenter_model::{Price, Quantity};

/// Hours of a month as AWS counts them: 365 days of 24 hours, divided by 12.
const HOURS_OF_A_MONTH: i128 = 730;
const NANO: i128 = 1_000_000_000;

/// Dollars per hour without the sign: four decimals below ten, two below a thousand, none above.
pub(crate) fn per_hour(price: Price) -> String {
    let nanos = i128::from(price.nanos());
    let decimals = match nanos {
        ..10_000_000_000 => 4,
        10_000_000_000..1_000_000_000_000 => 2,
        _ => 0,
    };
    grouped(nanos, decimals)
}

/// Dollars per month without the sign: two decimals below a thousand, none above.
pub(crate) fn per_month(price: Price) -> String {
    let nanos = i128::from(price.nanos()) * HOURS_OF_A_MONTH;
    let decimals = if nanos < 1000 * NANO { 2 } else { 0 };
    grouped(nanos, decimals)
}

/// Dollars that were spent, without the sign, to the cent.
pub(crate) fn sum(spent: Price) -> String {
    grouped(i128::from(spent.nanos()), 2)
}

/// `nanos` billionths, rounded to `decimals`, with a comma before every three digits.
fn grouped(nanos: i128, decimals: u32) -> String {
    let (whole, fraction) = rounded(nanos, decimals);
    let digits = whole.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if decimals > 0 {
        text.push_str(&format!(".{fraction:0width$}", width = decimals as usize));
    }
    text
}

/// The parts of `nanos` billionths before and after the point, rounded half up to `decimals`.
fn rounded(nanos: i128, decimals: u32) -> (i128, i128) {
    let step = NANO / 10_i128.pow(decimals);
    let steps = (nanos + step / 2) / step;
    (steps / 10_i128.pow(decimals), steps % 10_i128.pow(decimals))
}

/// An amount of `resource` in at most six characters: bytes in powers of 1024, everything else plain.
pub(crate) fn amount(resource: &str, quantity: Quantity) -> String {
    let bytes =
        resource == MEMORY || resource == EPHEMERAL_STORAGE || resource.starts_with(HUGE_PAGES_PREFIX);
    let mut nanos = quantity.nanos();
    if !bytes {
        return short(nanos);
    }
    for unit in ["", "Ki", "Mi", "Gi", "Ti"] {
        if nanos < 1000 * NANO {
            return format!("{}{unit}", short(nanos));
        }
        nanos /= 1024;
    }
    format!("{}Pi", short(nanos))
}

/// Returns the requested part of the allocatable amount: two amounts of `resource`, the second one a dash
/// when there is none.
pub(crate) fn part_of(resource: &str, requested: Quantity, allocatable: Quantity) -> String {
    let whole = if allocatable.is_zero() { "-".to_owned() } else { amount(resource, allocatable) };
    format!("{}/{whole}", amount(resource, requested))
}

/// Three digits that count, no zeros at the end.
fn short(nanos: i128) -> String {
    let decimals = match nanos {
        ..10_000_000_000 => 2,
        10_000_000_000..100_000_000_000 => 1,
        _ => 0,
    };
    let (whole, fraction) = rounded(nanos, decimals);
    if fraction == 0 {
        return whole.to_string();
    }
    let fraction = format!("{fraction:0width$}", width = decimals as usize);
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// Returns the requested share of `allocatable`, in percent; `None` when there is nothing to take from.
pub(crate) fn percent(requested: Quantity, allocatable: Quantity) -> Option<i64> {
    per_mille(requested, allocatable).map(|share| (share + 5) / 10)
}

/// Returns the requested share of `allocatable` in thousandths; `None` when there is nothing to take from.
pub(crate) fn per_mille(requested: Quantity, allocatable: Quantity) -> Option<i64> {
    let (part, whole) = (requested.nanos(), allocatable.nanos());
    if whole <= 0 {
        return None;
    }
    i64::try_from(part.saturating_mul(1000) / whole).ok()
}

/// The time from `since` to `now` in one unit.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `text` in at most `width` characters; an ellipsis shows that something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// `text` in lines of at most `width` characters, broken between words where that is possible.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word = word.to_owned();
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            while word.chars().count() > width.max(1) {
                let head: String = word.chars().take(width.max(1)).collect();
                word = word.chars().skip(width.max(1)).collect();
                lines.push(head);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_rounded_for_the_eye() {
        let table = [
            ("0", "0.0000", "0.00"),
            ("0.096", "0.0960", "70.08"),
            ("0.01234567", "0.0123", "9.01"),
            ("9.99995", "10.0000", "7,300"),
            ("32.7726", "32.77", "23,924"),
            ("1234.5", "1,235", "901,185"),
        ];
        for (price, hour, month) in table {
            let price: Price = price.parse().unwrap();
            assert_eq!((per_hour(price).as_str(), per_month(price).as_str()), (hour, month));
        }
    }

    #[test]
    fn amounts_keep_three_digits() {
        let table = [
            ("cpu", "3920m", "3.92"),
            ("cpu", "4", "4"),
            ("cpu", "15890m", "15.9"),
            ("cpu", "4000", "4000"),
            ("memory", "16134520Ki", "15.4Gi"),
            ("memory", "1000Mi", "0.98Gi"),
            ("memory", "12Ti", "12Ti"),
            ("memory", "0", "0"),
            ("nvidia.com/gpu", "8", "8"),
            ("hugepages-2Mi", "1Gi", "1Gi"),
        ];
        for (resource, quantity, text) in table {
            assert_eq!(amount(resource, quantity.parse().unwrap()), text, "{resource} {quantity}");
        }
    }

    #[test]
    fn shares_are_in_percent_and_of_nothing_there_is_none() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(percent(quantity("3920m"), quantity("4")), Some(98));
        assert_eq!(percent(quantity("6"), quantity("4")), Some(150));
        assert_eq!(percent(quantity("1"), Quantity::ZERO), None);
    }

    #[test]
    fn ages_have_one_unit() {
        let table = [(-5, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (172_800, "2d")];
        for (seconds, text) in table {
            let now = Timestamp::from_second(1_000_000 + seconds).unwrap();
            assert_eq!(age(Timestamp::from_second(1_000_000).unwrap(), now), text);
        }
    }

    #[test]
    fn long_texts_are_cut_or_broken_between_words() {
        assert_eq!(
            (cut("abc", 3), cut("abcd", 3), cut("abc", 0)),
            ("abc".into(), "ab…".into(), String::new())
        );
        assert_eq!(wrapped("a bc def\n\nghijk", 4), ["a bc", "def", "", "ghij", "k"]);
    }
}
