//! Subnets: which ones a `NodeClass` selects, and which one a launch uses in each zone (spec aws-provider 7.1).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{Subnet as StatusSubnet, SubnetSelectorTerm};
use karpenter_aws_api::ec2::{Ec2, Subnet, SubnetQuery};
use karpenter_aws_api::id::SubnetId;
use karpenter_aws_api::{Filter, Result};
use karpenter_model::Clock;

use super::addresses::Addresses;
use super::zone_names::ZoneNames;
use crate::calls::cache::TtlCache;
use crate::calls::selector::{has_tags, lookup_key, tag_filters};
use crate::market::unavailable::{Subject, Unavailable};

/// The filter by ids: one that is gone is left out, where the parameter would fail the whole call.
const BY_ID: &str = "subnet-id";

/// Finds subnets and remembers their free addresses.
#[derive(Debug)]
pub struct Subnets {
    ec2: Arc<dyn Ec2>,
    addresses: Addresses,
    zones: Arc<ZoneNames>,
    unavailable: Arc<Unavailable>,
    lookups: TtlCache<String, Vec<Subnet>>,
    by_id: TtlCache<SubnetId, Option<Subnet>>,
}

/// The subnet a launch uses in one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonalSubnet {
    pub id: SubnetId,
    /// The zone's id, when known.
    pub zone_id: Option<String>,
}

impl Subnets {
    /// A finder that reuses a lookup for `refresh`, notes the names of zones, and lets full subnets in again when they
    /// have addresses.
    pub fn new(
        ec2: Arc<dyn Ec2>,
        clock: Arc<dyn Clock>,
        refresh: Duration,
        zones: Arc<ZoneNames>,
        unavailable: Arc<Unavailable>,
    ) -> Self {
        let lookups = TtlCache::new(Arc::clone(&clock), refresh);
        let by_id = TtlCache::new(clock, refresh);
        Self { ec2, addresses: Addresses::default(), zones, unavailable, lookups, by_id }
    }

    /// The book of free addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Every subnet the `NodeClass` selects: most free addresses first, then by id.
    pub async fn select(&self, class: &EC2NodeClass) -> Result<Vec<Subnet>> {
        let key = lookup_key(class);
        if let Some(subnets) = self.lookups.get(&key) {
            return Ok(subnets);
        }
        let mut found = BTreeMap::new();
        for filters in queries(class) {
            let query = SubnetQuery { ids: Vec::new(), filters };
            for subnet in self.ec2.describe_subnets(&query).await? {
                found.insert(subnet.id.clone(), subnet);
            }
        }
        let mut subnets: Vec<Subnet> = found.into_values().collect();
        subnets.sort_by(|a, b| b.free_addresses.cmp(&a.free_addresses).then_with(|| a.id.cmp(&b.id)));
        // For a fresh answer only: an older count would undo the charges of launches since.
        for subnet in &subnets {
            self.described(&subnet.id, subnet.free_addresses);
        }
        self.zones.learn(subnets.iter().map(|subnet| (subnet.zone_id.as_ref(), &subnet.zone)));
        self.lookups.put(key, subnets.clone());
        Ok(subnets)
    }

    /// Returns whether EC2 has the subnet and no term of the class matches it. False for one that an answer to the terms has
    /// left out: a lookup by tags may lack a subnet that one by id has.
    pub(crate) async fn is_deselected(&self, class: &EC2NodeClass, id: &SubnetId) -> Result<bool> {
        let terms = &class.spec.subnet_selector_terms;
        Ok(self.by_id(id).await?.is_some_and(|subnet| !terms.iter().any(|term| means(term, &subnet))))
    }

    async fn by_id(&self, id: &SubnetId) -> Result<Option<Subnet>> {
        let query = SubnetQuery { ids: Vec::new(), filters: vec![Filter::new(BY_ID, [id.as_str()])] };
        let ask = async { Ok(self.ec2.describe_subnets(&query).await?.into_iter().next()) };
        self.by_id.get_or_ask(id.clone(), ask).await
    }

    /// Takes over a fresh count, and lets the subnet in again if addresses have come free since it was refused.
    fn described(&self, subnet: &SubnetId, free: u32) {
        if self.addresses.described(subnet, free) {
            self.unavailable.clear(&Subject::Subnet(subnet.clone()));
        }
    }

    /// Returns for each zone of the `NodeClass`'s status the subnet with the most free addresses; ties keep the earlier.
    ///
    /// A subnet that EC2 refused counts as full, whatever EC2 counts, for as long as its refusal is remembered: until the
    /// count rises, at most as long as other refusals.
    pub(crate) fn for_launch(&self, subnets: &[StatusSubnet]) -> BTreeMap<String, ZonalSubnet> {
        let mut best: BTreeMap<String, (u32, ZonalSubnet)> = BTreeMap::new();
        for subnet in subnets {
            let id = SubnetId::from(subnet.id.as_str());
            let is_refused = self.unavailable.contains(&Subject::Subnet(id.clone()));
            let free = if is_refused { 0 } else { self.addresses.free(&id) };
            if best.get(&subnet.zone).is_none_or(|(known, _)| free > *known) {
                let chosen = ZonalSubnet { id, zone_id: subnet.zone_id.clone() };
                best.insert(subnet.zone.clone(), (free, chosen));
            }
        }
        best.into_iter().map(|(zone, (_, subnet))| (zone, subnet)).collect()
    }
}

/// One query per tag term, and one for all ids. An id makes the rest of its term meaningless.
fn queries(class: &EC2NodeClass) -> Vec<Vec<Filter>> {
    let terms = &class.spec.subnet_selector_terms;
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let mut queries: Vec<Vec<Filter>> = terms
        .iter()
        .filter(|term| term.id.is_none())
        .filter_map(|term| term.tags.as_ref().map(tag_filters))
        // Without a filter EC2 returns every subnet of the region.
        .filter(|filters| !filters.is_empty())
        .collect();
    if !ids.is_empty() {
        queries.push(vec![Filter::new(BY_ID, ids)]);
    }
    queries
}

/// Returns whether a term means a subnet.
fn means(term: &SubnetSelectorTerm, subnet: &Subnet) -> bool {
    match (&term.id, &term.tags) {
        (Some(id), _) => subnet.id.as_str() == id,
        (None, Some(tags)) => !tags.is_empty() && has_tags(tags, &subnet.tags),
        (None, None) => false,
    }
}

/// The form subnets have in a `NodeClass`'s status.
pub fn to_status(subnets: &[Subnet]) -> Vec<StatusSubnet> {
    subnets
        .iter()
        .map(|subnet| StatusSubnet {
            id: subnet.id.to_string(),
            zone: subnet.zone.to_string(),
            zone_id: subnet.zone_id.as_ref().map(ToString::to_string),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Account, Options};
    use karpenter_model::ManualClock;

    use super::*;
    use crate::market::unavailable::{Cause, FIRST};

    /// Two subnets of one zone.
    struct Zone {
        clock: Arc<ManualClock>,
        subnets: Subnets,
    }

    impl Zone {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::default());
            let unavailable = Arc::new(Unavailable::new(clock.clone(), Duration::from_mins(30)));
            let ec2 = Account::new(Options::default()).clients().ec2;
            let refresh = Duration::from_mins(1);
            Self { subnets: Subnets::new(ec2, clock.clone(), refresh, Arc::default(), unavailable), clock }
        }

        fn described(&self, a: u32, b: u32) {
            self.subnets.described(&"subnet-a".into(), a);
            self.subnets.described(&"subnet-b".into(), b);
        }

        /// Charges a launch that EC2 refuses for lack of addresses.
        fn refused(&self, subnet: &str) {
            self.subnets.addresses().exhausted(&subnet.into());
            self.subnets.unavailable.mark(Subject::Subnet(subnet.into()), Cause::Wanted);
        }

        fn chosen(&self) -> String {
            let subnet = |id: &str| StatusSubnet { id: id.to_owned(), zone: "a".to_owned(), zone_id: None };
            self.subnets.for_launch(&["subnet-a", "subnet-b"].map(subnet))["a"].id.to_string()
        }
    }

    #[test]
    fn a_refused_subnet_is_passed_over_until_ec2_counts_more_addresses() {
        let zone = Zone::new();
        zone.described(12, 5);
        assert_eq!(zone.chosen(), "subnet-a");
        zone.refused("subnet-a");
        assert_eq!(zone.chosen(), "subnet-b");
        zone.described(12, 5);
        assert_eq!(zone.chosen(), "subnet-b", "the count lags behind");
        zone.described(10, 5);
        assert_eq!(zone.chosen(), "subnet-b");
        zone.described(11, 5);
        assert_eq!(zone.chosen(), "subnet-a", "machines have gone");
    }

    #[test]
    fn a_refused_subnet_whose_count_never_rises_is_tried_again_as_other_refusals_are() {
        let zone = Zone::new();
        zone.described(12, 5);
        zone.refused("subnet-a");
        zone.clock.advance(FIRST / 2);
        zone.described(12, 5);
        assert_eq!(zone.chosen(), "subnet-b");
        zone.clock.advance(FIRST / 2);
        assert_eq!(zone.chosen(), "subnet-a");
    }

    #[test]
    fn of_refused_subnets_the_first_is_asked_rather_than_none() {
        let zone = Zone::new();
        zone.described(12, 5);
        for subnet in ["subnet-a", "subnet-b"] {
            zone.refused(subnet);
        }
        zone.described(12, 5);
        assert_eq!(zone.chosen(), "subnet-a");
    }

    #[test]
    fn ids_are_one_query_tags_one_each_and_an_id_wins_over_tags() {
        let tags = || Some([("team".to_owned(), "web".to_owned())].into());
        let mut class = EC2NodeClass::new("a", Default::default());
        class.spec.subnet_selector_terms = vec![
            SubnetSelectorTerm { tags: tags(), id: None },
            SubnetSelectorTerm { tags: None, id: Some("subnet-1".into()) },
            SubnetSelectorTerm { tags: tags(), id: Some("subnet-2".into()) },
            SubnetSelectorTerm::default(),
        ];
        let expected =
            [vec![Filter::tag("team", "web")], vec![Filter::new("subnet-id", ["subnet-1", "subnet-2"])]];
        assert_eq!(queries(&class), expected, "an empty term selects nothing rather than everything");
    }
}
