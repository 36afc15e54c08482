//! Rights of the controller: it had those it needed, and needed those it had.
//!
//! A suite runs the controller with what a user gives it: the role `karpenter bootstrap apply` has made, by the
//! credentials of EKS Pod Identity, and the service account of the chart. Afterwards the account tells what AWS would
//! have asked IAM about each of its calls (`localstack/emulator/authorization`), the policies are read back from the
//! account and evaluated ([`karpenter_iam`]), and the API server's audit log tells the verbs. Two things are wrong:
//!
//! * a call that is denied: named with its resource and the statement that came nearest;
//! * a right that no suite makes use of and [`idle`] does not excuse. It takes all suites to know, so every suite hands
//!   in its [`Rights`] and the caller that has them all calls [`idle::check`].

pub mod aws;
pub mod cluster;
pub mod idle;
pub mod operators;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// One right as a document grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Document that grants it: the sid of a statement, or a role with API group and resource.
    pub place: String,
    /// Granted action, resource or verb.
    pub what: String,
}

impl Right {
    /// Returns the right `what`, granted at `place`.
    pub fn new(place: &str, what: &str) -> Self {
        Self { place: place.to_owned(), what: what.to_owned() }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

/// Granted rights, and those that were used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// All that is granted.
    pub granted: BTreeSet<Right>,
    /// Rights that a call has used.
    pub used: BTreeSet<Right>,
}

impl Rights {
    /// Adds the rights of `other`.
    pub fn absorb(&mut self, other: Self) {
        self.granted.extend(other.granted);
        self.used.extend(other.used);
    }

    /// Granted and not used.
    pub fn unused(&self) -> impl Iterator<Item = &Right> {
        self.granted.difference(&self.used)
    }

    /// One line for each right, for people.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for right in &self.granted {
            let mark = if self.used.contains(right) { "used  " } else { "unused" };
            writeln!(text, "{mark} {right}").expect("invariant: writing to a string cannot fail");
        }
        text
    }
}
