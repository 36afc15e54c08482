//! Tag selectors of a `NodeClass` as EC2 filters (spec aws-provider 1.2).

use std::collections::BTreeMap;

use karpenter_aws_api::{Filter, Tags};

/// One filter per tag. The value `*` means "the key is present"; wildcards inside other values are EC2's.
pub(crate) fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Filter> {
    tags.iter()
        .map(|(key, value)| if value == "*" { Filter::tag_key(key) } else { Filter::tag(key, value) })
        .collect()
}

/// Returns whether something with these tags passes [`tag_filters`], judged by its description and not by a lookup in EC2. A
/// backslash that makes a wildcard an ordinary character for EC2 is one itself here.
pub(crate) fn has_tags(wanted: &BTreeMap<String, String>, tags: &Tags) -> bool {
    wanted
        .iter()
        .all(|(key, pattern)| tags.get(key).is_some_and(|value| karpenter_iam::matches(pattern, value)))
}

/// Cache key of a lookup for this generation of a `NodeClass`: an edited spec misses at once.
pub(crate) fn lookup_key(class: &karpenter_api::EC2NodeClass) -> String {
    let metadata = &class.metadata;
    let identity = metadata.uid.as_deref().or(metadata.name.as_deref()).unwrap_or_default();
    format!("{identity}-{}", metadata.generation.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_at_hand_are_held_against_what_ec2_is_asked_for() {
        let tags = Tags::from([("team".to_owned(), "web-1".to_owned()), ("empty".to_owned(), String::new())]);
        let wanted = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (pairs, expected) in [
            (&[][..], true),
            (&[("team", "web-1")], true),
            (&[("team", "web-*"), ("empty", "*")], true),
            (&[("team", "web-2")], false),
            (&[("team", "*"), ("other", "*")], false),
        ] {
            assert_eq!(has_tags(&wanted(pairs), &tags), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_star_asks_for_the_key_alone() {
        let tags = [("a".to_owned(), "*".to_owned()), ("b".to_owned(), "x*".to_owned())].into();
        assert_eq!(tag_filters(&tags), [Filter::tag_key("a"), Filter::tag("b", "x*")]);
    }
}
