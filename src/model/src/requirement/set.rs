//! Requirements by label key, and when two such sets agree (spec scheduling 8.2).

mod shared;

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::id::{LabelKey, LabelValue};
use crate::label::{LabelRegistry, Labels};
use crate::names::label;
use crate::requirement::{Expression, Requirement};
pub use shared::SharedRequirements;

/// Requirements, at most one per label key; a missing key is unconstrained. Shared until it is changed: sets are copied
/// much more often than they are made. A list in key order, because there is one of fifty entries for every instance
/// type, and a tree takes twice the room.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Requirements(Arc<Vec<Requirement>>);

/// Keys that may be undefined on the side that is asked.
#[derive(Debug, Clone, Copy)]
pub enum Undefined<'a> {
    /// None: the labels of an existing node are all there is.
    Nothing,
    /// Well-known ones: the provider will resolve them.
    WellKnown(&'a LabelRegistry),
}

/// Reason why two requirement sets do not agree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incompatibility {
    /// The incoming side needs a label the existing side does not have.
    #[error("label `{key}` does not have known values{}", Hint(.hint.as_ref()))]
    Undefined {
        key: LabelKey,
        /// A known key that is similar to it.
        hint: Option<LabelKey>,
    },
    /// Both sides constrain the label and no value is left.
    #[error("key {key}, {incoming} not in {existing}")]
    Disjoint {
        key: LabelKey,
        /// Requirement of the incoming side.
        incoming: Box<Requirement>,
        /// Requirement of the existing side.
        existing: Box<Requirement>,
    },
}

struct Hint<'a>(Option<&'a LabelKey>);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, " (typo of \"{key}\"?)"),
            None => Ok(()),
        }
    }
}

impl Requirements {
    /// No requirements.
    pub fn new() -> Self {
        Self::default()
    }

    /// The conjunction of `expressions`.
    pub fn from_expressions(registry: &LabelRegistry, expressions: &[Expression]) -> Self {
        expressions.iter().map(|expression| Requirement::new(registry, expression)).collect()
    }

    /// One `In` requirement per label, normalised.
    pub fn from_labels(registry: &LabelRegistry, labels: &Labels) -> Self {
        let requirement = |(key, value): (&LabelKey, &LabelValue)| {
            let key = registry.normalize_key(key);
            let value = registry.normalize_value(&key, value);
            Requirement::one_of(key, [value])
        };
        labels.iter().map(requirement).collect()
    }

    /// Adds a requirement; one that is there already is intersected with it.
    pub fn add(&mut self, requirement: Requirement) {
        let place = self.place(requirement.key().as_str());
        let own = Arc::make_mut(&mut self.0);
        match place {
            Ok(place) => own[place] = own[place].intersection(&requirement),
            Err(place) => own.insert(place, requirement),
        }
    }

    /// Adds every requirement of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    /// Replaces whatever the key of `requirement` had.
    pub fn replace(&mut self, requirement: Requirement) {
        let place = self.place(requirement.key().as_str());
        let own = Arc::make_mut(&mut self.0);
        match place {
            Ok(place) => own[place] = requirement,
            Err(place) => own.insert(place, requirement),
        }
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &str) {
        if let Ok(place) = self.place(key) {
            Arc::make_mut(&mut self.0).remove(place);
        }
    }

    /// The requirement of `key`, if there is one.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.place(key).ok().map(|place| &self.0[place])
    }

    /// Index of the requirement of `key`, or the one at which it would be inserted.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|known| known.key().as_str().cmp(key))
    }

    /// The requirement of `key`; a missing key may have any value.
    pub fn value_of(&self, key: &LabelKey) -> Requirement {
        self.get(key.as_str()).cloned().unwrap_or_else(|| Requirement::exists(key.clone()))
    }

    /// Returns whether `key` is constrained.
    pub fn contains(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// Requirements in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Requirement> {
        self.0.iter()
    }

    /// Number of constrained keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether nothing is constrained.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether any key has `minValues`.
    pub fn has_min_values(&self) -> bool {
        self.iter().any(|requirement| requirement.min_values().is_some())
    }

    /// API form, in key order.
    pub fn to_expressions(&self) -> Vec<Expression> {
        self.iter().flat_map(Requirement::to_expressions).collect()
    }

    /// Checks that something with requirements `incoming` may go where `self` holds: keys `self` does not define must be
    /// allowed to be undefined or accept absence, and shared keys must intersect.
    pub fn compatible(&self, incoming: &Self, undefined: Undefined<'_>) -> Result<(), Incompatibility> {
        for requirement in incoming.iter() {
            let key = requirement.key();
            let resolvable = match undefined {
                Undefined::Nothing => false,
                Undefined::WellKnown(registry) => registry.is_well_known(key.as_str()),
            };
            if !self.contains(key.as_str()) && !resolvable && !requirement.accepts_absence() {
                return Err(Incompatibility::Undefined { key: key.clone(), hint: self.hint(key, undefined) });
            }
        }
        self.intersects(incoming)
    }

    /// Checks that every key both sides constrain has a common value. Two sides that both accept absence agree.
    pub fn intersects(&self, incoming: &Self) -> Result<(), Incompatibility> {
        // Walk the smaller side; both are in key order, so the first disagreement is the same.
        let few = if self.len() <= incoming.len() { self } else { incoming };
        for requirement in few.iter() {
            let key = requirement.key();
            let (Some(existing), Some(asked)) = (self.get(key.as_str()), incoming.get(key.as_str())) else {
                continue;
            };
            let both_accept_absence = existing.accepts_absence() && asked.accepts_absence();
            if !both_accept_absence && !existing.intersects(asked) {
                return Err(Incompatibility::Disjoint {
                    key: key.clone(),
                    incoming: Box::new(asked.clone()),
                    existing: Box::new(existing.clone()),
                });
            }
        }
        Ok(())
    }

    /// A known key that `key` may be a misspelling of: well-known ones first, then those of this set.
    fn hint(&self, key: &LabelKey, undefined: Undefined<'_>) -> Option<LabelKey> {
        let core;
        let registry = match undefined {
            Undefined::WellKnown(registry) => registry,
            Undefined::Nothing => {
                core = LabelRegistry::core();
                &core
            }
        };
        let name = key.as_str().rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
        let alike =
            |known: &&LabelKey| known.as_str().contains(key.as_str()) || known.as_str().ends_with(name);
        registry
            .well_known
            .iter()
            .find(alike)
            .or_else(|| self.iter().map(Requirement::key).find(alike))
            .cloned()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut set = Self::new();
        for requirement in requirements {
            set.add(requirement);
        }
        set
    }
}

impl Serialize for Requirements {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_expressions().serialize(serializer)
    }
}

impl fmt::Display for Requirements {
    /// Items in key order, separated by commas; the host name is internal and left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().filter(|requirement| requirement.key() != label::HOSTNAME);
        for (index, requirement) in shown.enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
