//! Equal requirements as one object in memory.
//!
//! A cloud sells a thousand types with fifty labels each, and most of what they say is the same: architecture, zones,
//! capacity types. A caller that makes many sets passes them through here once, and equal ones are held once.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Requirements;
use crate::requirement::Requirement;

/// Requirements and sets of them seen so far. Holds what it has seen, so it goes when the sets are made.
#[derive(Debug, Default)]
pub struct SharedRequirements {
    requirements: BTreeSet<Requirement>,
    sets: BTreeSet<Requirements>,
}

impl SharedRequirements {
    /// Makes sets share memory with `set` from now on if they equal it or have requirements in common with it.
    pub fn learn(&mut self, set: &Requirements) {
        if self.sets.insert(set.clone()) {
            self.requirements.extend(set.iter().cloned());
        }
    }

    /// `set` stays what it is, and shares memory with what was seen before as far as that is equal.
    pub fn share(&mut self, set: &mut Requirements) {
        if let Some(known) = self.sets.get(set) {
            set.clone_from(known);
            return;
        }
        let own = Arc::make_mut(&mut set.0);
        own.shrink_to_fit();
        for requirement in own {
            match self.requirements.get(requirement) {
                Some(known) => requirement.clone_from(known),
                None => drop(self.requirements.insert(requirement.clone())),
            }
        }
        self.sets.insert(set.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::LabelRegistry;
    use crate::requirement::{Expression, Operator};

    fn set(expressions: &[(&str, &[&str])]) -> Requirements {
        let expressions: Vec<Expression> =
            expressions.iter().map(|(key, values)| Expression::new(key, Operator::In, values)).collect();
        Requirements::from_expressions(&LabelRegistry::core(), &expressions)
    }

    fn values(set: &Requirements, key: &str) -> *const BTreeSet<crate::id::LabelValue> {
        set.get(key).expect("is constrained").values()
    }

    #[test]
    fn equal_sets_and_equal_requirements_of_different_sets_are_one_object() {
        let mut shared = SharedRequirements::default();
        let [mut one, mut same] = [0, 1].map(|_| set(&[("zone", &["a", "b"]), ("size", &["large"])]));
        let mut other = set(&[("zone", &["a", "b"]), ("size", &["small"])]);
        let before = [one.clone(), same.clone(), other.clone()];
        assert_ne!(values(&one, "zone"), values(&same, "zone"), "made one by one");
        shared.learn(&one);
        shared.share(&mut one);
        shared.share(&mut same);
        shared.share(&mut other);
        assert!(Arc::ptr_eq(&one.0, &same.0));
        assert_eq!(values(&one, "zone"), values(&other, "zone"));
        assert_ne!(values(&one, "size"), values(&other, "size"));
        assert_eq!([one, same, other], before, "the values are the same");
    }
}
