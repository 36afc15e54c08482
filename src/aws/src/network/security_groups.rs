//! Security groups a `NodeClass` selects (spec aws-provider 7.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{SecurityGroup as StatusGroup, SecurityGroupSelectorTerm};
use karpenter_aws_api::ec2::{Ec2, SecurityGroup, SecurityGroupQuery};
use karpenter_aws_api::id::SecurityGroupId;
use karpenter_aws_api::{Filter, Result};
use karpenter_model::Clock;

use crate::calls::cache::TtlCache;
use crate::calls::selector::{has_tags, lookup_key, tag_filters};

/// The filter by ids.
const BY_ID: &str = "group-id";

/// Finds security groups.
#[derive(Debug)]
pub struct SecurityGroups {
    ec2: Arc<dyn Ec2>,
    lookups: TtlCache<String, Vec<SecurityGroup>>,
    by_id: TtlCache<SecurityGroupId, Option<SecurityGroup>>,
}

impl SecurityGroups {
    /// A finder that reuses a lookup for `refresh`.
    pub fn new(ec2: Arc<dyn Ec2>, clock: Arc<dyn Clock>, refresh: Duration) -> Self {
        let lookups = TtlCache::new(Arc::clone(&clock), refresh);
        Self { ec2, lookups, by_id: TtlCache::new(clock, refresh) }
    }

    /// Every group the `NodeClass` selects, by id.
    pub async fn select(&self, class: &EC2NodeClass) -> Result<Vec<SecurityGroup>> {
        let ask = async {
            let mut found = BTreeMap::new();
            for filters in queries(class) {
                let query = SecurityGroupQuery { ids: Vec::new(), filters };
                for group in self.ec2.describe_security_groups(&query).await? {
                    found.insert(group.id.clone(), group);
                }
            }
            Ok(found.into_values().collect())
        };
        self.lookups.get_or_ask(lookup_key(class), ask).await
    }

    /// Returns whether EC2 has the group and no term of the class matches it. False for one that an answer to the terms has
    /// left out: a search of EC2 by tags may lack a group that a search by id finds.
    pub(crate) async fn is_deselected(&self, class: &EC2NodeClass, id: &SecurityGroupId) -> Result<bool> {
        let terms = &class.spec.security_group_selector_terms;
        Ok(self.by_id(id).await?.is_some_and(|group| !terms.iter().any(|term| means(term, &group))))
    }

    async fn by_id(&self, id: &SecurityGroupId) -> Result<Option<SecurityGroup>> {
        let query = SecurityGroupQuery { ids: Vec::new(), filters: vec![Filter::new(BY_ID, [id.as_str()])] };
        let ask = async { Ok(self.ec2.describe_security_groups(&query).await?.into_iter().next()) };
        self.by_id.get_or_ask(id.clone(), ask).await
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
        // Without a filter EC2 returns every group of the region.
        .filter(|filters| !filters.is_empty())
        .collect();
    if !ids.is_empty() {
        queries.push(vec![Filter::new(BY_ID, ids)]);
    }
    if !names.is_empty() {
        queries.push(vec![Filter::new("group-name", names)]);
    }
    queries
}

/// Returns whether a term matches a group.
fn means(term: &SecurityGroupSelectorTerm, group: &SecurityGroup) -> bool {
    match (&term.id, &term.name, &term.tags) {
        (Some(id), ..) => group.id.as_str() == id,
        (None, Some(name), _) => karpenter_iam::matches(name, &group.name),
        (None, None, Some(tags)) => !tags.is_empty() && has_tags(tags, &group.tags),
        (None, None, None) => false,
    }
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
    use karpenter_aws_sim::{Account, Options};
    use karpenter_model::ManualClock;

    use super::*;

    #[tokio::test]
    async fn a_lookup_is_reused_for_the_interval_and_not_longer() {
        let account = Account::new(Options::default());
        let clock = Arc::new(ManualClock::default());
        let groups = SecurityGroups::new(account.clients().ec2, clock.clone(), Duration::from_mins(7));
        let mut class = EC2NodeClass::new("a", Default::default());
        class.spec.security_group_selector_terms =
            vec![SecurityGroupSelectorTerm { name: Some("nodes".to_owned()), ..Default::default() }];
        let asked = async || {
            groups.select(&class).await.unwrap();
            account.calls().count("DescribeSecurityGroups")
        };
        assert_eq!(asked().await, 1);
        clock.advance(Duration::from_secs(7 * 60 - 1));
        assert_eq!(asked().await, 1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(asked().await, 2);
    }

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
