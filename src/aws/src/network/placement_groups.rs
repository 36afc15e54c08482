//! The placement group a `NodeClass` launches into (spec aws-provider 10).
//!
//! A group is looked up by its selector and never stored in the status. An answer is fresh for a minute and remembered
//! for a day: an EC2 that does not answer takes neither labels nor a place from any node.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::ec2::{Ec2, PlacementGroup, PlacementGroupQuery, PlacementStrategy};
use karpenter_aws_api::id::PlacementGroupId;
use karpenter_aws_api::{Filter, Result};
use karpenter_model::Clock;

use crate::calls::cache::TtlCache;

const FRESH: Duration = Duration::from_mins(1);
const REMEMBERED: Duration = Duration::from_hours(24);

/// A placement group as far as launching into it needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id, the value of the node label.
    pub id: PlacementGroupId,
    /// Strategy by which the group places instances.
    pub strategy: PlacementStrategy,
    /// Number of partitions; 0 unless it places by partition.
    pub partitions: u32,
}

impl Group {
    /// Every partition, from 1.
    pub(crate) fn all_partitions(&self) -> RangeInclusive<u32> {
        1..=self.partitions
    }
}

impl From<PlacementGroup> for Group {
    fn from(group: PlacementGroup) -> Self {
        let by_partition = group.strategy == PlacementStrategy::Partition;
        let partitions = group.partitions.filter(|_| by_partition).unwrap_or_default();
        Self { id: group.id, strategy: group.strategy, partitions }
    }
}

/// Selector of a group in a `NodeClass`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Selector {
    Name(String),
    Id(String),
}

impl Selector {
    fn of(class: &EC2NodeClass) -> Option<Self> {
        let selector = class.spec.placement_group_selector.as_ref()?;
        let by_id = selector.id.clone().map(Self::Id);
        by_id.or_else(|| selector.name.clone().map(Self::Name))
    }

    fn query(&self) -> PlacementGroupQuery {
        let filters = vec![Filter::new("state", ["available"])];
        match self {
            Self::Name(name) => PlacementGroupQuery { names: vec![name.clone()], ids: Vec::new(), filters },
            Self::Id(id) => PlacementGroupQuery { names: Vec::new(), ids: vec![id.as_str().into()], filters },
        }
    }
}

/// Returns whether a `NodeClass` puts its instances in a placement group.
pub fn is_wanted(class: &EC2NodeClass) -> bool {
    class.spec.placement_group_selector.is_some()
}

/// Finds placement groups and remembers them.
#[derive(Debug)]
pub struct PlacementGroups {
    ec2: Arc<dyn Ec2>,
    fresh: TtlCache<Selector, ()>,
    known: TtlCache<Selector, Group>,
}

impl PlacementGroups {
    /// Creates it with nothing known.
    pub fn new(ec2: Arc<dyn Ec2>, clock: &Arc<dyn Clock>) -> Self {
        let fresh = TtlCache::new(Arc::clone(clock), FRESH);
        let known = TtlCache::new(Arc::clone(clock), REMEMBERED);
        Self { ec2, fresh, known }
    }

    /// The group a `NodeClass` selects; `None` when it selects none, or none that is available.
    ///
    /// # Errors
    /// When EC2 does not answer, or has no group of that name; [`PlacementGroups::last_known`] then still has the last
    /// answer.
    pub async fn resolve(&self, class: &EC2NodeClass) -> Result<Option<Group>> {
        let Some(selector) = Selector::of(class) else { return Ok(None) };
        if self.fresh.get(&selector).is_some()
            && let Some(group) = self.known.get(&selector)
        {
            return Ok(Some(group));
        }
        let found = self.ec2.describe_placement_groups(&selector.query()).await?;
        let Some(group) = found.into_iter().next().map(Group::from) else {
            // An answer, unlike an error: there is no such group now, so the memory of a day does not apply.
            self.known.remove(&selector);
            return Ok(None);
        };
        self.known.put(selector.clone(), group.clone());
        self.fresh.put(selector, ());
        Ok(Some(group))
    }

    /// Last answer of the past day.
    pub fn last_known(&self, class: &EC2NodeClass) -> Option<Group> {
        self.known.get(&Selector::of(class)?)
    }
}

#[cfg(test)]
mod tests {
    use karpenter_api::ec2nodeclass::PlacementGroupSelector;
    use karpenter_aws_sim::{Account, Fault, Options};
    use karpenter_model::ManualClock;

    use super::*;

    fn group(id: &str, name: &str, strategy: PlacementStrategy) -> PlacementGroup {
        PlacementGroup {
            id: id.into(),
            name: name.to_owned(),
            strategy,
            state: "available".to_owned(),
            partitions: Some(3),
            tags: Default::default(),
        }
    }

    fn selecting(name: Option<&str>, id: Option<&str>) -> EC2NodeClass {
        let mut class = EC2NodeClass::new("a", Default::default());
        let (name, id) = (name.map(str::to_owned), id.map(str::to_owned));
        class.spec.placement_group_selector = Some(PlacementGroupSelector { name, id });
        class
    }

    fn world() -> (Account, Arc<ManualClock>, PlacementGroups) {
        let account = Account::with_clock(Options::default(), Arc::new(ManualClock::default()));
        let clock = Arc::new(ManualClock::default());
        let time: Arc<dyn Clock> = clock.clone();
        let groups = PlacementGroups::new(account.clients().ec2, &time);
        (account, clock, groups)
    }

    #[tokio::test]
    async fn groups_are_found_by_name_or_id_and_only_while_available() {
        let (account, _, groups) = world();
        account.put_placement_group(group("pg-1", "rack", PlacementStrategy::Partition));
        let mut deleting = group("pg-2", "old", PlacementStrategy::Cluster);
        deleting.state = "deleting".to_owned();
        account.put_placement_group(deleting);
        let by_name = groups.resolve(&selecting(Some("rack"), None)).await.unwrap().unwrap();
        assert_eq!((by_name.id.as_str(), by_name.partitions), ("pg-1", 3));
        assert_eq!(groups.resolve(&selecting(None, Some("pg-1"))).await.unwrap(), Some(by_name));
        assert_eq!(groups.resolve(&selecting(Some("old"), None)).await.unwrap(), None);
        assert!(groups.resolve(&selecting(Some("no-such"), None)).await.is_err());
        let plain = EC2NodeClass::new("a", Default::default());
        assert_eq!(groups.resolve(&plain).await.unwrap(), None);
    }

    #[test]
    fn only_partition_groups_have_partitions() {
        let spread: Group = group("pg-1", "rack", PlacementStrategy::Spread).into();
        assert!(spread.all_partitions().is_empty());
        let by_partition: Group = group("pg-1", "rack", PlacementStrategy::Partition).into();
        assert_eq!(by_partition.all_partitions().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn an_answer_is_fresh_for_a_minute_and_outlives_failures_for_a_day() {
        let (account, clock, groups) = world();
        account.put_placement_group(group("pg-1", "rack", PlacementStrategy::Spread));
        let class = selecting(Some("rack"), None);
        for _ in 0..3 {
            groups.resolve(&class).await.unwrap();
        }
        assert_eq!(account.calls().count("DescribePlacementGroups"), 1);
        clock.advance(FRESH);
        account.inject(Fault::fail("DescribePlacementGroups", "InternalError"));
        assert!(groups.resolve(&class).await.is_err());
        assert!(groups.last_known(&class).is_some());
        clock.advance(REMEMBERED);
        assert!(groups.last_known(&class).is_none());
        account.heal();
        assert!(groups.resolve(&class).await.unwrap().is_some());
    }
}
