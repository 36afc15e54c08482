//! Groups that may select a pod, by its labels: a pod meets few of the rules of a large cluster.

use std::collections::BTreeMap;

use karpenter_model::label::selector::SelectorOperator;
use karpenter_model::{LabelKey, LabelValue, Labels};

use super::group::{GroupKey, Whom};
use crate::index::{GroupIx, Ix};

/// Groups by a label they insist on.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    by_label: BTreeMap<LabelKey, BTreeMap<LabelValue, Vec<GroupIx>>>,
    /// Groups that insist on no particular value.
    others: Vec<GroupIx>,
}

impl Lookup {
    /// Groups by number, which is their place in `keys`.
    pub(crate) fn new<'k>(keys: impl Iterator<Item = &'k GroupKey>) -> Self {
        let mut lookup = Self::default();
        for (group, key) in keys.enumerate() {
            let group = GroupIx::new(group);
            let Whom::Selected(selectors) = &key.whom else { continue };
            let labels = selectors.iter().map(|selector| selector.labels.as_ref());
            // One that selects nothing is enough for the group to select nothing.
            let Some(labels) = labels.collect::<Option<Vec<_>>>() else { continue };
            let mut expressions = labels.into_iter().flat_map(|selector| &selector.expressions);
            match expressions.find(|one| one.operator == SelectorOperator::In) {
                Some(insisted) => {
                    let by_value = lookup.by_label.entry(insisted.key.clone()).or_default();
                    for value in &insisted.values {
                        by_value.entry(value.clone()).or_default().push(group);
                    }
                }
                None => lookup.others.push(group),
            }
        }
        lookup
    }

    /// The groups that may select a pod with `labels`, ascending. No other group does.
    pub(crate) fn candidates(&self, labels: &Labels) -> Vec<GroupIx> {
        let insisted = labels.iter().filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        let mut candidates: Vec<GroupIx> = insisted.flatten().chain(&self.others).copied().collect();
        candidates.sort_unstable();
        candidates
    }
}
