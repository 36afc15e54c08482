//! Which known word a word was probably meant to be.

/// The known word that differs from `written` by at most two letters, fewer for short words; `None` when it is known itself
/// or nothing is near.
pub(super) fn near<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if written.len() < 6 { 1 } else { 2 };
    let mut nearest: Option<(usize, &str)> = None;
    for word in known {
        let apart = distance(written, word);
        if apart == 0 {
            return None;
        }
        if apart <= most && nearest.is_none_or(|(least, _)| apart < least) {
            nearest = Some((apart, word));
        }
    }
    nearest.map(|(_, word)| word)
}

/// Letters to insert, remove or replace; letters that differ in case only count as one.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (index, against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *against);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_letter_or_two_wrong_are_near() {
        let known = ["weight", "limits", "karpenter.sh/capacity-type"];
        for (written, expected) in [
            ("weigth", Some("weight")),
            ("limit", Some("limits")),
            ("karpenter.sh/capacitytype", Some("karpenter.sh/capacity-type")),
            ("weight", None),
            ("replicas", None),
        ] {
            assert_eq!(near(written, known), expected, "{written}");
        }
    }
}
