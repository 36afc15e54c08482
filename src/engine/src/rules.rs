//! Interned requirements: every distinct requirement and every distinct set of them gets a number, and the
//! algebra of the model is evaluated once per pair of numbers.
//!
//! Numbers depend on the order things are seen in, so nothing that reaches an output may be ordered by them.

use std::sync::Arc;

use karpenter_model::{LabelKey, LabelRegistry, LabelValue, Requirement, Requirements};

use crate::interning::{Interned, InternedMap};

/// Number of a label key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u32);

/// Number of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RuleId(u32);

/// Number of a requirement set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RuleSetId(u32);

/// The interned requirements of one pass.
#[derive(Debug, Clone)]
pub(crate) struct Rules<'a> {
    registry: &'a LabelRegistry,
    keys: Interned<LabelKey>,
    requirements: Interned<Requirement>,
    key_of: Vec<KeyId>,
    /// Rules of a set in key order.
    sets: Interned<Box<[RuleId]>>,
    meets: InternedMap<(RuleSetId, RuleSetId), Option<RuleSetId>>,
    /// Sets that demand one value of one key.
    exact: InternedMap<(LabelKey, LabelValue), RuleSetId>,
    /// Requirements of the sets that were looked up.
    whole: InternedMap<RuleSetId, Arc<Requirements>>,
}

impl<'a> Rules<'a> {
    /// No rules yet.
    pub(crate) fn new(registry: &'a LabelRegistry) -> Self {
        Self {
            registry,
            keys: Interned::default(),
            requirements: Interned::default(),
            key_of: Vec::new(),
            sets: Interned::default(),
            meets: InternedMap::default(),
            exact: InternedMap::default(),
            whole: InternedMap::default(),
        }
    }

    /// Registry of the label keys.
    pub(crate) fn registry(&self) -> &'a LabelRegistry {
        self.registry
    }

    /// The number of `key`.
    pub(crate) fn key(&mut self, key: &LabelKey) -> KeyId {
        let index = self.keys.get_index_of(key).unwrap_or_else(|| self.keys.insert_full(key.clone()).0);
        KeyId(number(index))
    }

    /// The number of `requirement`.
    pub(crate) fn rule(&mut self, requirement: &Requirement) -> RuleId {
        if let Some(index) = self.requirements.get_index_of(requirement) {
            return RuleId(number(index));
        }
        let key = self.key(requirement.key());
        self.key_of.push(key);
        RuleId(number(self.requirements.insert_full(requirement.clone()).0))
    }

    /// The number of `requirements`.
    pub(crate) fn set(&mut self, requirements: &Requirements) -> RuleSetId {
        let rules: Vec<RuleId> = requirements.iter().map(|requirement| self.rule(requirement)).collect();
        self.intern(rules)
    }

    /// The number of the set that demands one value of one key; both are taken as canonical.
    pub(crate) fn exactly(&mut self, key: &LabelKey, value: &LabelValue) -> RuleSetId {
        let asked = (key.clone(), value.clone());
        if let Some(known) = self.exact.get(&asked) {
            return *known;
        }
        let rule = self.rule(&Requirement::one_of(key.clone(), [value.clone()]));
        let set = self.intern(vec![rule]);
        self.exact.insert(asked, set);
        set
    }

    /// The rules of `set` about `keys`, as a set of their own.
    pub(crate) fn about(&mut self, set: RuleSetId, keys: &[KeyId]) -> RuleSetId {
        let about = |rule: &&RuleId| keys.contains(&self.key_of(**rule));
        let rules = self.rules_of(set).iter().filter(about).copied().collect();
        self.intern(rules)
    }

    fn intern(&mut self, mut rules: Vec<RuleId>) -> RuleSetId {
        rules.sort_by_key(|rule| self.key_of(*rule));
        let set = rules.into_boxed_slice();
        RuleSetId(number(self.sets.insert_full(set).0))
    }

    /// The requirement behind `rule`.
    pub(crate) fn requirement(&self, rule: RuleId) -> &Requirement {
        &self.requirements[rule.0 as usize]
    }

    /// The key `rule` is about.
    pub(crate) fn key_of(&self, rule: RuleId) -> KeyId {
        self.key_of[rule.0 as usize]
    }

    /// The label key behind `key`.
    pub(crate) fn key_name(&self, key: KeyId) -> &LabelKey {
        &self.keys[key.0 as usize]
    }

    /// The rules of `set`, in key order.
    pub(crate) fn rules_of(&self, set: RuleSetId) -> &[RuleId] {
        &self.sets[set.0 as usize]
    }

    /// The requirements behind `set`.
    pub(crate) fn requirements(&self, set: RuleSetId) -> Requirements {
        self.rules_of(set).iter().map(|rule| self.requirement(*rule).clone()).collect()
    }

    /// Returns the requirements behind `set`, built once.
    pub(crate) fn whole(&mut self, set: RuleSetId) -> Arc<Requirements> {
        if let Some(known) = self.whole.get(&set) {
            return Arc::clone(known);
        }
        let whole = Arc::new(self.requirements(set));
        self.whole.insert(set, Arc::clone(&whole));
        whole
    }

    /// Returns whether any rule of `set` has `minValues`.
    pub(crate) fn has_min_values(&self, set: RuleSetId) -> bool {
        self.rules_of(set).iter().any(|rule| self.requirement(*rule).min_values().is_some())
    }

    /// Returns whether two rules of one key have a common value, or both accept its absence.
    pub(crate) fn agree(&self, a: RuleId, b: RuleId) -> bool {
        let (a, b) = (self.requirement(a), self.requirement(b));
        (a.accepts_absence() && b.accepts_absence()) || a.intersects(b)
    }

    /// `existing` narrowed by `incoming`, if they are compatible with well-known keys allowed to be
    /// undefined (spec scheduling 8.2).
    pub(crate) fn meet(&mut self, existing: RuleSetId, incoming: RuleSetId) -> Option<RuleSetId> {
        if existing == incoming || self.rules_of(incoming).is_empty() {
            return Some(existing);
        }
        if let Some(known) = self.meets.get(&(existing, incoming)) {
            return *known;
        }
        let met = self.merge(existing, incoming);
        self.meets.insert((existing, incoming), met);
        met
    }

    fn merge(&mut self, existing: RuleSetId, incoming: RuleSetId) -> Option<RuleSetId> {
        let mut merged = self.rules_of(existing).to_vec();
        for index in 0..self.rules_of(incoming).len() {
            let asked = self.rules_of(incoming)[index];
            let key = self.key_of(asked);
            let place = merged.binary_search_by_key(&key, |rule| self.key_of(*rule));
            match place {
                Ok(place) => {
                    if !self.agree(merged[place], asked) {
                        return None;
                    }
                    let both = self.requirement(merged[place]).intersection(self.requirement(asked));
                    merged[place] = self.rule(&both);
                }
                Err(place) => {
                    let well_known = self.registry.is_well_known(self.key_name(key).as_str());
                    if !well_known && !self.requirement(asked).accepts_absence() {
                        return None;
                    }
                    merged.insert(place, asked);
                }
            }
        }
        Some(self.intern(merged))
    }
}

/// A pass never sees four billion distinct requirements.
fn number(index: usize) -> u32 {
    u32::try_from(index).expect("invariant: interned items fit in 32 bits")
}

#[cfg(test)]
mod tests {
    use karpenter_model::{Expression, Operator, Undefined};

    use super::*;

    #[test]
    fn meet_agrees_with_the_model_for_every_pair() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        let registry = LabelRegistry::core();
        let table: [(Operator, &[&str]); 9] = [
            (In, &["a"]),
            (In, &["b", "5"]),
            (NotIn, &["a"]),
            (NotIn, &["b"]),
            (Exists, &[]),
            (DoesNotExist, &[]),
            (Gt, &["4"]),
            (Lt, &["5"]),
            (In, &["4"]),
        ];
        let mut sets = vec![Requirements::new()];
        for key in ["custom", "topology.kubernetes.io/zone"] {
            for (operator, values) in table {
                let expression = Expression::new(key, operator, values);
                sets.push(Requirements::from_expressions(&registry, std::slice::from_ref(&expression)));
                let two = [expression, Expression::new("other", Exists, &[])];
                sets.push(Requirements::from_expressions(&registry, &two));
            }
        }
        let mut rules = Rules::new(&registry);
        for existing in &sets {
            for incoming in &sets {
                let (a, b) = (rules.set(existing), rules.set(incoming));
                let met = rules.meet(a, b).map(|met| rules.requirements(met));
                let compatible = existing.compatible(incoming, Undefined::WellKnown(&registry)).is_ok();
                let expected = compatible.then(|| {
                    let mut both = existing.clone();
                    both.add_all(incoming);
                    both
                });
                assert_eq!(met, expected, "{existing} with {incoming}");
                assert_eq!(rules.meet(a, b).map(|met| rules.requirements(met)), met, "remembered");
            }
        }
    }
}
