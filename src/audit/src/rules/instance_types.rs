//! The instance types of a claim exist, can be had, and come cheapest first (spec scheduling 14).

use std::collections::BTreeSet;

use karpenter_model::names::label;
use karpenter_model::plan::MAX_INSTANCE_TYPES;
use karpenter_model::{InstanceType, InstanceTypeName, LabelValue, Launch, Price, Requirement};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    let mut find = |rule, detail: String| findings.push(Finding::new(rule, launch.bin, detail));
    let count = launch.instance_types.len();
    if count == 0 || count > MAX_INSTANCE_TYPES {
        find(Rule::InstanceTypes, format!("offers {count} instance types"));
    }
    let types = world.types_of(launch);
    let distinct: BTreeSet<_> = launch.instance_types.iter().collect();
    if types.len() != count || distinct.len() != count {
        find(
            Rule::InstanceTypes,
            format!("{count} names are {} distinct and {} known", distinct.len(), types.len()),
        );
    }
    let named: Option<BTreeSet<_>> =
        launch.requirements.get(label::INSTANCE_TYPE).and_then(Requirement::concrete).cloned();
    let listed: BTreeSet<LabelValue> = distinct.iter().map(|name| name.as_str().into()).collect();
    if named.as_ref() != Some(&listed) {
        find(Rule::InstanceTypes, "requirement and list of instance types differ".to_owned());
    }
    let cheapest = |known: &InstanceType| known.cheapest(&launch.requirements, world.registry());
    let prices: Vec<Ranked<'_>> = types.iter().map(|known| (cheapest(known), &known.name)).collect();
    for (instance_type, (price, _)) in types.iter().zip(&prices) {
        if let Err(clash) = launch.requirements.intersects(&instance_type.requirements) {
            find(Rule::Requirements, format!("type `{}`: {clash}", instance_type.name));
        }
        if price.is_none() {
            find(Rule::Offering, format!("type `{}` has no available offering", instance_type.name));
        }
    }
    for detail in price_order(launch, &prices) {
        find(Rule::PriceOrder, detail);
    }
    for (key, wanted, achieved) in min_values(world, launch, &types) {
        find(Rule::MinValues, format!("`{key}` has {achieved} of {wanted} values"));
    }
}

/// The price of the cheapest offering of an instance type, and its name.
type Ranked<'a> = (Option<Price>, &'a InstanceTypeName);

fn price_order(launch: &Launch, prices: &[Ranked<'_>]) -> Vec<String> {
    let mut wrong = Vec::new();
    for pair in prices.windows(2) {
        if pair[0] > pair[1] {
            wrong.push(format!("`{}` comes before `{}`", pair[0].1, pair[1].1));
        }
    }
    let cheapest = prices.first().map(|(price, name)| (*name, *price));
    let stated = launch.cheapest.as_ref().map(|offering| (&offering.instance_type, Some(offering.price)));
    if cheapest != stated {
        wrong.push(format!("the cheapest offering is {cheapest:?}, not {stated:?}"));
    }
    wrong
}

/// Keys with fewer distinct values than asked for: a machine of the claim may have a value that its requirement allows and
/// that its type has, or an offering of it that can be had. Where values are listed, the API server counts the list.
fn min_values<'l>(
    world: &World<'_>,
    launch: &'l Launch,
    types: &[&InstanceType],
) -> Vec<(&'l str, u32, usize)> {
    let mut short = Vec::new();
    for requirement in launch.requirements.iter() {
        let Some(wanted) = requirement.min_values() else { continue };
        let key = requirement.key().as_str();
        let mut distinct: BTreeSet<&LabelValue> = BTreeSet::new();
        for known in types {
            let offerings: Vec<_> =
                known.compatible_offerings(&launch.requirements, world.registry()).collect();
            let sources = if offerings.iter().any(|sold| sold.requirements.contains(key)) {
                offerings.iter().map(|sold| &sold.requirements).collect()
            } else {
                vec![&known.requirements]
            };
            distinct.extend(sources.into_iter().filter_map(|all| all.get(key)?.concrete()).flatten());
        }
        let possible = distinct.iter().filter(|value| requirement.allows(value.as_str())).count();
        let listed = requirement.concrete().map_or(possible, BTreeSet::len);
        let achieved = possible.min(listed);
        if achieved < usize::try_from(wanted).unwrap_or(usize::MAX) {
            short.push((key, wanted, achieved));
        }
    }
    short
}
