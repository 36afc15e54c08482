//! The answer, and how near a denied request came to being allowed.

use std::fmt;

use crate::policy::{Effect, Policy, Statement};
use crate::request::Request;

/// Everything that decides about one principal.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The policies attached to it, or those of a resource.
    pub attached: Vec<Policy>,
    /// Its permissions boundary: what it may do at most.
    pub boundary: Option<Policy>,
}

/// What IAM would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, by each of these statements.
    Allowed(Vec<String>),
    /// No.
    Denied(Denial),
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A statement says no.
    Explicit {
        /// Its name.
        sid: String,
    },
    /// No statement of the attached policies says yes.
    NotGranted {
        /// The one that came nearest.
        nearest: Option<Miss>,
    },
    /// The policies would allow it, the boundary does not.
    OutsideBoundary {
        /// The statement of the boundary that came nearest.
        nearest: Option<Miss>,
    },
}

/// A statement that allows the action, and what it was not content with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Its name.
    pub sid: String,
    /// What did not fit: the resource, or each condition that does not hold.
    pub unmet: Vec<String>,
}

impl Policies {
    /// Policies without a boundary.
    pub fn of(attached: Vec<Policy>) -> Self {
        Self { attached, boundary: None }
    }

    /// Answers one request.
    pub fn decide(&self, request: &Request) -> Decision {
        let denial = self
            .attached
            .iter()
            .chain(&self.boundary)
            .flat_map(|policy| &policy.statements)
            .find(|statement| statement.effect == Effect::Deny && statement.applies(request));
        if let Some(statement) = denial {
            return Decision::Denied(Denial::Explicit { sid: statement.sid.clone() });
        }
        let granting = allowing(&self.attached, request);
        if granting.is_empty() {
            return Decision::Denied(Denial::NotGranted { nearest: nearest(&self.attached, request) });
        }
        if let Some(boundary) = &self.boundary {
            let boundary = std::slice::from_ref(boundary);
            if allowing(boundary, request).is_empty() {
                return Decision::Denied(Denial::OutsideBoundary { nearest: nearest(boundary, request) });
            }
        }
        Decision::Allowed(granting)
    }

    /// Whether the answer is yes.
    pub fn allow(&self, request: &Request) -> bool {
        matches!(self.decide(request), Decision::Allowed(_))
    }
}

fn allows(policies: &[Policy]) -> impl Iterator<Item = &Statement> {
    policies
        .iter()
        .flat_map(|policy| &policy.statements)
        .filter(|statement| statement.effect == Effect::Allow)
}

fn allowing(policies: &[Policy], request: &Request) -> Vec<String> {
    allows(policies)
        .filter(|statement| statement.applies(request))
        .map(|statement| statement.sid.clone())
        .collect()
}

/// Of the statements that name the action, the one with the fewest objections; a wrong resource weighs most.
fn nearest(policies: &[Policy], request: &Request) -> Option<Miss> {
    let misses = allows(policies).filter(|statement| statement.names_action(request)).map(|statement| {
        let right_place = statement.names_resource(request);
        let mut unmet: Vec<String> = statement
            .conditions
            .iter()
            .filter(|condition| !condition.holds(request))
            .map(|condition| condition.complaint(request))
            .collect();
        if !right_place {
            unmet.insert(0, "it is about other resources".to_owned());
        }
        ((!right_place, unmet.len()), Miss { sid: statement.sid.clone(), unmet })
    });
    misses.min_by_key(|(distance, _)| *distance).map(|(_, miss)| miss)
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, nearest) = match self {
            Self::Explicit { sid } => return write!(formatter, "denied by `{sid}`"),
            Self::NotGranted { nearest } => ("not granted", nearest),
            Self::OutsideBoundary { nearest } => ("outside the permissions boundary", nearest),
        };
        match nearest {
            Some(miss) => write!(formatter, "{what}; nearest is `{}`: {}", miss.sid, miss.unmet.join("; ")),
            None => write!(formatter, "{what}; no statement names the action"),
        }
    }
}

#[cfg(test)]
mod tests;
