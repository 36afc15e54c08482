//! `minValues`: enough distinct values among the instance types that are left (spec scheduling 14).
//!
//! A value counts while the claim may still have it: the requirement allows it, and where offerings decide about the key,
//! as about zone and capacity type, one that can be had has it. The API server refuses a claim that lists fewer values
//! than it asks for (core#2999).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::{InstanceType, LabelKey, LabelValue, Offering, Reason, Requirement, Requirements};

use crate::catalogue::Catalogue;
use crate::index::VariantIx;
use crate::rules::{RuleSetId, Rules};

/// Keys of `set` with too few distinct values among `variants`: the number demanded and the number found.
pub(crate) fn shortfalls(
    set: RuleSetId,
    variants: impl Iterator<Item = VariantIx>,
    catalogue: &mut Catalogue<'_>,
    rules: &Rules<'_>,
) -> BTreeMap<LabelKey, (u32, u32)> {
    if !rules.has_min_values(set) {
        return BTreeMap::new();
    }
    let mask = catalogue.mask(set, rules);
    let variants: Vec<VariantIx> = variants.collect();
    let mut short = BTreeMap::new();
    for rule in rules.rules_of(set) {
        let requirement = rules.requirement(*rule);
        let Some(wanted) = requirement.min_values() else { continue };
        let mut distinct: BTreeSet<&LabelValue> = BTreeSet::new();
        for variant in &variants {
            let offerings = catalogue.offerings_of(*variant, &mask);
            distinct.extend(values(requirement, catalogue.variant(*variant).instance_type, offerings));
        }
        let achieved = u32::try_from(distinct.len()).unwrap_or(u32::MAX);
        if achieved < wanted {
            short.insert(requirement.key().clone(), (wanted, achieved));
        }
    }
    short
}

/// The values that `requirement` leaves of its key for machines of `instance_type` bought through one of `offerings`.
pub(crate) fn values<'o>(
    requirement: &Requirement,
    instance_type: &'o InstanceType,
    offerings: impl Iterator<Item = &'o Offering>,
) -> BTreeSet<&'o LabelValue> {
    let key = requirement.key().as_str();
    // A key that a type has with any value contributes none (spec scheduling 10).
    let of = |all: &'o Requirements| all.get(key).and_then(Requirement::concrete);
    let mut values: BTreeSet<&LabelValue> =
        offerings.filter_map(|offering| of(&offering.requirements)).flatten().collect();
    if values.is_empty() {
        values.extend(of(&instance_type.requirements).into_iter().flatten());
    }
    values.retain(|value| requirement.allows(value.as_str()));
    values
}

/// `set` with each short key asking only for what there is.
pub(crate) fn lowered(
    set: RuleSetId,
    short: &BTreeMap<LabelKey, (u32, u32)>,
    rules: &mut Rules<'_>,
) -> RuleSetId {
    let mut requirements = rules.requirements(set);
    for (key, (_, achieved)) in short {
        // The API refuses `minValues` of zero (spec scheduling 3.1), so the demand goes altogether.
        let lowered = requirements.value_of(key).with_min_values((*achieved > 0).then_some(*achieved));
        requirements.replace(lowered);
    }
    rules.set(&requirements)
}

/// The reason why `short` keys refuse.
pub(crate) fn reason(short: &BTreeMap<LabelKey, (u32, u32)>) -> Reason {
    let part =
        |(key, (wanted, achieved)): (&LabelKey, &(u32, u32))| format!("`{key}` has {achieved} of {wanted}");
    Reason::new(ReasonCode::MinValues, short.iter().map(part).collect::<Vec<_>>().join(", "))
}

/// Returns whether `set` demands less than `template` on some key.
pub(crate) fn is_relaxed(set: RuleSetId, template: RuleSetId, rules: &Rules<'_>) -> bool {
    let now = rules.requirements(set);
    let less = |rule: &crate::rules::RuleId| {
        let asked = rules.requirement(*rule);
        let left = now.get(asked.key().as_str()).and_then(karpenter_model::Requirement::min_values);
        // A demand that is gone is `None`, which is less than every number.
        asked.min_values() > left
    };
    rules.rules_of(template).iter().any(less)
}
