//! Security groups a `NodeClass` selects (spec aws-provider 7.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::SecurityGroup as StatusGroup;
use karpenter_aws_api::ec2::{Ec2, SecurityGroup, SecurityGroupQuery};
use karpenter_aws_api::{Filter, Result};
use karpenter_model::Clock;

use crate::calls::cache::TtlCache;
use crate::calls::selector::{lookup_key, tag_filters};

const REFRESH: Duration = Duration::from_mins(1);

/// Finds security groups.
#[derive(Debug)]
pub struct SecurityGroups {
    ec2: Arc<dyn Ec2>,
    lookups: TtlCache<String, Vec<SecurityGroup>>,
}

impl SecurityGroups {
    /// A finder that reuses a lookup for a minute.
    pub fn new(ec2: Arc<dyn Ec2>, clock: Arc<dyn Clock>) -> Self {
        Self { ec2, lookups: TtlCache::new(clock, REFRESH) }
    }

    /// Every group the `NodeClass` selects, by id.
    pub async fn select(&self, class: &EC2NodeClass) -> Result<Vec<SecurityGroup>> {
        let key = lookup_key(class);
        if let Some(groups) = self.lookups.get(&key) {
            return Ok(groups);
        }
        let mut found = BTreeMap::new();
        for filters in queries(class) {
            let query = SecurityGroupQuery { ids: Vec::new(), filters };
            for group in self.ec2.describe_security_groups(&query).await? {
                found.insert(group.id.clone(), group);
            }
        }
        let groups: Vec<SecurityGroup> = found.into_values().collect();
        self.lookups.put(key, groups.clone());
        Ok(groups)
    }
}

/// One query for all ids, one for all names, one per tag term. An id wins over a name, a name over tags.
fn queries(class: &EC2NodeClass) -> Vec<Vec<Filter>> {
    let terms = &class.spec.security_group_selector_terms;
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let names: Vec<String> =
        terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.name.clone()).collect();
    let mut queries: Vec<Vec<Filter>> = terms
        .iter()
        .filter(|term| term.id.is_none() && term.name.is_none())
        .filter_map(|term| term.tags.as_ref().map(tag_filters))
        .filter(|filters| !filters.is_empty())
        .collect();
    if !ids.is_empty() {
        queries.push(vec![Filter::new("group-id", ids)]);
    }
    if !names.is_empty() {
        queries.push(vec![Filter::new("group-name", names)]);
    }
    queries
}

/// The form groups have in a `NodeClass`'s status.
pub fn to_status(groups: &[SecurityGroup]) -> Vec<StatusGroup> {
    groups
        .iter()
        .map(|group| StatusGroup { id: group.id.to_string(), name: Some(group.name.clone()) })
        .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::SecurityGroupSelectorTerm;

    use super::*;

    #[test]
    fn each_kind_of_term_becomes_its_own_query() {
        let term = |tag: Option<&str>, id: Option<&str>, name: Option<&str>| SecurityGroupSelectorTerm {
            tags: tag.map(|tag| [(tag.to_owned(), "*".to_owned())].into()),
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        let mut class = EC2NodeClass::new("a", Default::default());
        class.spec.security_group_selector_terms = vec![
            term(Some("team"), None, None),
            term(None, Some("sg-1"), None),
            term(None, None, Some("nodes")),
            term(Some("team"), None, Some("more")),
            term(Some("team"), Some("sg-2"), Some("ignored")),
        ];
        assert_eq!(
            queries(&class),
            [
                vec![Filter::tag_key("team")],
                vec![Filter::new("group-id", ["sg-1", "sg-2"])],
                vec![Filter::new("group-name", ["nodes", "more"])],
            ]
        );
    }
}
