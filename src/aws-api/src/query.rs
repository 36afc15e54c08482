//! Common parts of listings: filters in, complete answers out.

use std::collections::BTreeMap;

/// Tags of one resource. AWS forbids duplicate keys.
pub type Tags = BTreeMap<String, String>;

/// One EC2 filter: the resource matches if any value does. Several filters must all match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Filter name, for example `instance-state-name` or `tag:Name`.
    pub name: String,
    /// Accepted values; `*` and `?` are wildcards for EC2.
    pub values: Vec<String>,
}

impl Filter {
    /// `name` is one of `values`.
    pub fn new<T: Into<String>>(name: impl Into<String>, values: impl IntoIterator<Item = T>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }

    /// The resource carries tag `key` with this value; wildcards work inside the value.
    pub fn tag(key: &str, value: &str) -> Self {
        Self::new(format!("tag:{key}"), [value])
    }

    /// The resource carries tag `key`, whatever its value.
    pub fn tag_key(key: &str) -> Self {
        Self::new("tag-key", [key])
    }
}

/// A complete answer of a catalogue call, with the entries that could not be understood beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// Entries in the order AWS gave them.
    pub items: Vec<T>,
    /// Entries that lacked a field we rely on. Report them; never treat them as "does not exist".
    pub skipped: Vec<Skipped>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), skipped: Vec::new() }
    }
}

impl<T> Listing<T> {
    /// A listing where everything was understood.
    pub fn complete(items: Vec<T>) -> Self {
        Self { items, skipped: Vec::new() }
    }

    /// Files one parsed entry under `items` or `skipped`.
    pub fn push(&mut self, entry: std::result::Result<T, Skipped>) {
        match entry {
            Ok(item) => self.items.push(item),
            Err(skipped) => self.skipped.push(skipped),
        }
    }
}

/// An entry left out of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name of the entry as far as it is known, otherwise `?`.
    pub entry: String,
    /// Missing or unreadable field, for example ``no `memoryInfo` ``.
    pub why: String,
}
