//! The subnets and security groups nodes get: those that EC2NodeClasses select, as the controller looks them up. While
//! there is no class, those with the discovery tag that bootstrap gives.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::TagSelector;
use karpenter_aws_api::ec2::{SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery};
use karpenter_aws_api::{Clients, Error, Filter};
use karpenter_model::names;

use crate::facts::{Cluster, Objects};

/// Objects that were found, with the names of the classes that select them.
pub(super) type Selected<T> = Vec<(T, BTreeSet<String>)>;

/// Filters that find what one term selects, and the class it is of; no class for the discovery tag.
type Query = (Option<String>, Vec<Filter>);

pub(super) async fn subnets(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<Selected<Subnet>, Error> {
    let terms = |class: &EC2NodeClass| {
        let terms = class.spec.subnet_selector_terms.iter();
        terms
            .map(|term| by_id("subnet-id", term.id.as_ref()).or_else(|| by_tags(term.tags.as_ref())))
            .collect()
    };
    let mut found = BTreeMap::new();
    for (class, filters) in queries(cluster_name, cluster, terms) {
        let query = SubnetQuery { filters, ..SubnetQuery::default() };
        for subnet in clients.ec2.describe_subnets(&query).await? {
            let (_, classes) = found.entry(subnet.id.clone()).or_insert((subnet, BTreeSet::new()));
            classes.extend(class.clone());
        }
    }
    Ok(found.into_values().collect())
}

pub(super) async fn security_groups(
    clients: &Clients,
    cluster_name: &str,
    cluster: &Cluster,
) -> Result<Selected<SecurityGroup>, Error> {
    let terms = |class: &EC2NodeClass| {
        let terms = class.spec.security_group_selector_terms.iter();
        let filters = terms.map(|term| {
            let by_name = || by_id("group-name", term.name.as_ref());
            by_id("group-id", term.id.as_ref()).or_else(by_name).or_else(|| by_tags(term.tags.as_ref()))
        });
        filters.collect()
    };
    let mut found = BTreeMap::new();
    for (class, filters) in queries(cluster_name, cluster, terms) {
        let query = SecurityGroupQuery { filters, ..SecurityGroupQuery::default() };
        for group in clients.ec2.describe_security_groups(&query).await? {
            let (_, classes) = found.entry(group.id.clone()).or_insert((group, BTreeSet::new()));
            classes.extend(class.clone());
        }
    }
    Ok(found.into_values().collect())
}

/// One query for each term of each class. An empty term selects nothing.
fn queries(
    cluster_name: &str,
    cluster: &Cluster,
    terms: impl Fn(&EC2NodeClass) -> Vec<Option<Vec<Filter>>>,
) -> Vec<Query> {
    let classes = cluster.node_classes.get().map(Objects::decoded).unwrap_or_default();
    if classes.is_empty() {
        return vec![(None, vec![Filter::tag(names::tag::DISCOVERY, cluster_name)])];
    }
    let of = |class: &EC2NodeClass| {
        let name = class.metadata.name.clone();
        terms(class).into_iter().flatten().map(move |filters| (name.clone(), filters)).collect::<Vec<_>>()
    };
    classes.iter().flat_map(of).collect()
}

/// Selects by filter: an id that does not exist is then not found, instead of failing the whole question.
fn by_id(filter: &str, id: Option<&String>) -> Option<Vec<Filter>> {
    id.map(|id| vec![Filter::new(filter, [id.as_str()])])
}

/// All tags must be there; `*` stands for any value.
fn by_tags(tags: Option<&TagSelector>) -> Option<Vec<Filter>> {
    let one = |(key, value): (&String, &String)| match value.as_str() {
        "*" => Filter::tag_key(key),
        value => Filter::tag(key, value),
    };
    tags.filter(|tags| !tags.is_empty()).map(|tags| tags.iter().map(one).collect())
}
