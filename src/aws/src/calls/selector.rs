//! Tag selectors of a `NodeClass` as EC2 filters (spec aws-provider 1.2).

use std::collections::BTreeMap;

use karpenter_aws_api::Filter;

/// One filter per tag. The value `*` means "the key is present"; wildcards inside other values are EC2's.
pub(crate) fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Filter> {
    tags.iter()
        .map(|(key, value)| if value == "*" { Filter::tag_key(key) } else { Filter::tag(key, value) })
        .collect()
}

/// What a lookup for this generation of a `NodeClass` is cached under: an edited spec misses at once.
pub(crate) fn lookup_key(class: &karpenter_api::EC2NodeClass) -> String {
    let metadata = &class.metadata;
    let identity = metadata.uid.as_deref().or(metadata.name.as_deref()).unwrap_or_default();
    format!("{identity}-{}", metadata.generation.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_asks_for_the_key_alone() {
        let tags = [("a".to_owned(), "*".to_owned()), ("b".to_owned(), "x*".to_owned())].into();
        assert_eq!(tag_filters(&tags), [Filter::tag_key("a"), Filter::tag("b", "x*")]);
    }
}
