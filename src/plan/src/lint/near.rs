//! Search for the known word that a word was probably meant to be.

/// The known word that differs from `written` by at most two letters, fewer for short words; `None` when it is known itself
/// or nothing is near.
pub fn near<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if written.len() < 6 { 1 } else { 2 };
    let mut nearest: Option<(usize, &str)> = None;
    for word in known {
        let apart = strsim::levenshtein(written, word);
        if apart == 0 {
            return None;
        }
        if apart <= most && nearest.is_none_or(|(least, _)| apart < least) {
            nearest = Some((apart, word));
        }
    }
    nearest.map(|(_, word)| word)
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
