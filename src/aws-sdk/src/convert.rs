//! Small conversions every service needs: numbers, instants, and the words that name a query in errors.

use aws_smithy_types::DateTime;
use jiff::Timestamp;

use karpenter_aws_api::Filter;

/// Counts are never negative in a well-formed answer; a negative one counts as none.
pub(super) fn count(value: Option<i32>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok())
}

/// Converts to the `i32` that EC2 wants; values beyond it are refused by EC2's own range checks.
pub(super) fn small(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

pub(super) fn instant(value: Option<&DateTime>) -> Option<Timestamp> {
    let value = value?;
    Timestamp::new(value.secs(), i32::try_from(value.subsec_nanos()).ok()?).ok()
}

/// Instants EC2 sends as text, such as an image's creation date.
pub(super) fn instant_text(value: Option<&str>) -> Option<Timestamp> {
    value.and_then(|text| text.parse().ok())
}

pub(super) fn text(value: Option<&str>) -> Option<String> {
    value.filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// Names a query in an error: its ids, or its filters, or that it asked for everything.
pub(super) fn describe<T: AsRef<str>>(ids: &[T], filters: &[Filter]) -> String {
    const SHOWN: usize = 3;
    let mut words: Vec<String> = ids.iter().take(SHOWN).map(|id| id.as_ref().to_owned()).collect();
    if ids.len() > SHOWN {
        words.push(format!("and {} more", ids.len() - SHOWN));
    }
    words.extend(filters.iter().map(|filter| format!("{}={}", filter.name, filter.values.join("|"))));
    if words.is_empty() { "all".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_named_by_their_ids_or_filters() {
        assert_eq!(describe::<&str>(&[], &[]), "all");
        assert_eq!(describe(&["a", "b", "c", "d", "e"], &[]), "a, b, c, and 2 more");
        assert_eq!(describe::<&str>(&[], &[Filter::new("state", ["x", "y"])]), "state=x|y");
    }

    #[test]
    fn instants_keep_their_nanoseconds() {
        let time = DateTime::from_secs_and_nanos(1_700_000_000, 5);
        assert_eq!(instant(Some(&time)), Timestamp::new(1_700_000_000, 5).ok());
        assert_eq!(
            instant_text(Some("2024-05-01T10:00:00.000Z")).map(|at| at.to_string()).as_deref(),
            Some("2024-05-01T10:00:00Z")
        );
        assert_eq!(instant_text(Some("yesterday")), None);
    }
}
