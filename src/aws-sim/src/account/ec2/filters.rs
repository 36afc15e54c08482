//! EC2 filters: names must be known, values may hold `*` and `?`.

use karpenter_iam::matches as glob;

use karpenter_aws_api::{Error, Filter, Result, Tags};

/// True when all filters match. `attribute` gives a resource's values for a filter name, `None` for names the
/// resource kind does not know, which EC2 refuses.
pub(super) fn matches(
    operation: &'static str,
    filters: &[Filter],
    tags: &Tags,
    attribute: impl Fn(&str) -> Option<Vec<String>>,
) -> Result<bool> {
    for filter in filters {
        let values = if let Some(key) = filter.name.strip_prefix("tag:") {
            tags.get(key).cloned().into_iter().collect()
        } else if filter.name == "tag-key" {
            tags.keys().cloned().collect()
        } else {
            attribute(&filter.name).ok_or_else(|| {
                let text = format!("The filter '{}' is invalid", filter.name);
                Error::answered(operation, &filter.name, "InvalidParameterValue", text)
            })?
        };
        let hit = filter.values.iter().any(|pattern| values.iter().any(|value| glob(pattern, value)));
        if !hit {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_alternatives_and_filters_add_up() {
        let tags = Tags::from([("team".to_owned(), "blue".to_owned())]);
        let known = |name: &str| (name == "state").then(|| vec!["running".to_owned()]);
        let check = |filters: &[Filter]| matches("DescribeX", filters, &tags, known);
        assert_eq!(check(&[]), Ok(true));
        assert_eq!(check(&[Filter::new("state", ["pending", "running"])]), Ok(true));
        assert_eq!(check(&[Filter::tag_key("team"), Filter::tag("team", "re*")]), Ok(false));
        assert_eq!(check(&[Filter::tag("team", "bl*")]), Ok(true));
        assert_eq!(check(&[Filter::new("sttae", ["x"])]).unwrap_err().kind, karpenter_aws_api::Kind::Invalid);
    }
}
