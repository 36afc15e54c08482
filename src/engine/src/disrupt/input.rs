//! Number that identifies the input of a method: as long as it is the same, so is the result of the method.

use std::hash::{DefaultHasher, Hasher};

/// The input of a method, as far as it decides about the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input(u64);

impl Input {
    /// The input that consists of what `write` hashes.
    pub(crate) fn of(write: impl FnOnce(&mut DefaultHasher)) -> Self {
        let mut hasher = DefaultHasher::new();
        write(&mut hasher);
        Self(hasher.finish())
    }
}
