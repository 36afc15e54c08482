//! `minValues`: enough distinct values among the instance types that are left (spec scheduling 14).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::report::ReasonCode;
use karpenter_model::{LabelKey, Reason};

use crate::catalogue::Catalogue;
use crate::index::VariantIx;
use crate::rules::{RuleSetId, Rules};

/// Keys of `set` with too few distinct values among `variants`: what is asked for and what there is.
pub(crate) fn shortfalls(
    set: RuleSetId,
    variants: impl Iterator<Item = VariantIx>,
    catalogue: &Catalogue<'_>,
    rules: &Rules<'_>,
) -> BTreeMap<LabelKey, (u32, u32)> {
    if !rules.has_min_values(set) {
        return BTreeMap::new();
    }
    let variants: Vec<VariantIx> = variants.collect();
    let mut short = BTreeMap::new();
    for rule in rules.rules_of(set) {
        let requirement = rules.requirement(*rule);
        let Some(wanted) = requirement.min_values() else { continue };
        let key = requirement.key();
        let own = variants.iter().filter_map(|variant| {
            catalogue.variant(*variant).instance_type.requirements.get(key.as_str())?.concrete()
        });
        let distinct: BTreeSet<_> = own.flatten().collect();
        let achieved = u32::try_from(distinct.len()).unwrap_or(u32::MAX);
        if achieved < wanted {
            short.insert(key.clone(), (wanted, achieved));
        }
    }
    short
}

/// `set` with each short key asking only for what there is.
pub(crate) fn lowered(
    set: RuleSetId,
    short: &BTreeMap<LabelKey, (u32, u32)>,
    rules: &mut Rules<'_>,
) -> RuleSetId {
    let mut requirements = rules.requirements(set);
    for (key, (_, achieved)) in short {
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

/// Whether `set` asks for less than `template` on some key.
pub(crate) fn is_relaxed(set: RuleSetId, template: RuleSetId, rules: &Rules<'_>) -> bool {
    let now = rules.requirements(set);
    let less = |rule: &crate::rules::RuleId| {
        let asked = rules.requirement(*rule);
        let left = now.get(asked.key().as_str()).and_then(karpenter_model::Requirement::min_values);
        asked.min_values() > left
    };
    rules.rules_of(template).iter().any(less)
}
