//! Wildcards: `*` is any run of characters, `?` exactly one.

/// Returns whether `text` is of the form `pattern`: `*` is any run of characters, `?` exactly one. EC2's filters mean the same.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Position to go on from when what follows the last `*` does not fit: let the star take one more character.
    let mut retry: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star, taken)) = retry else { return false };
                retry = Some((star, taken + 1));
                at = star + 1;
                read = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

/// Returns whether `arn` is of the form `pattern`: each of the six parts by itself, so that no wildcard reaches over a colon
/// into the next one. The sixth part is all the rest. A lone `*` is everything.
pub(crate) fn matches_arn(pattern: &str, arn: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (patterns, parts): (Vec<&str>, Vec<&str>) =
        (pattern.splitn(6, ':').collect(), arn.splitn(6, ':').collect());
    patterns.len() == parts.len() && patterns.iter().zip(parts).all(|(pattern, part)| matches(pattern, part))
}

/// Returns whether `text` has the six parts of an ARN, or is a lone `*`.
pub(crate) fn is_arn_pattern(text: &str) -> bool {
    text == "*" || (text.starts_with("arn:") && text.splitn(6, ':').count() == 6)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_take_any_run_and_question_marks_one_character() {
        for (pattern, text, wanted) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "ac", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*b*b*", "abab", true),
            ("**x", "x", true),
            ("*ab", "aab", true),
            ("*aab", "aaab", true),
            ("Describe*", "describeInstances", false),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }

    /// A matcher that tries every star again for each of the stars before it needs 2^50 steps here.
    #[test]
    fn pattern_of_many_stars_ends_on_a_long_text() {
        let (pattern, text) = ("*a".repeat(50), "a".repeat(10_000));
        assert!(matches(&pattern, &text));
        assert!(!matches(&format!("{pattern}*b"), &text));
    }

    #[test]
    fn a_star_does_not_reach_into_the_next_part_of_an_arn() {
        let instance = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1";
        for (pattern, wanted) in [
            ("*", true),
            ("arn:aws:ec2:eu-west-1:*:instance/*", true),
            ("arn:aws:ec2:*:instance/*", false),
            ("arn:aws:ec2:eu-west-1::instance/*", false),
            ("arn:*:ec2:*:*:*", true),
            ("arn:aws:ec2:eu-west-1:*:volume/*", false),
        ] {
            assert_eq!(matches_arn(pattern, instance), wanted, "{pattern}");
        }
        let rest = "arn:aws:sns:eu-west-1:1:topic:subscription";
        assert!(matches_arn("arn:aws:sns:eu-west-1:1:topic:*", rest));
    }

    /// The definition, word by word, too slow for long texts.
    fn defined(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => {
                defined(rest, text) || text.split_first().is_some_and(|(_, less)| defined(pattern, less))
            }
            (Some((wanted, rest)), Some((found, less))) => {
                (*wanted == '?' || wanted == found) && defined(rest, less)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_the_definition_says(pattern in "[ab*?]{0,7}", text in "[ab]{0,7}") {
            let wanted = defined(
                &pattern.chars().collect::<Vec<_>>(),
                &text.chars().collect::<Vec<_>>(),
            );
            prop_assert_eq!(matches(&pattern, &text), wanted);
        }
    }
}
