//! The answer, and how near a denied request came to being allowed.

use std::fmt;

use crate::policy::{Effect, Policy, Statement};
use crate::request::Request;
use crate::truth::Truth;

/// Everything that decides about one principal.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// The policies attached to it, or those of a resource.
    pub attached: Vec<Policy>,
    /// Its permissions boundary: what it may do at most.
    pub boundary: Option<Policy>,
}

/// Decision of IAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, by each of these statements.
    Allowed(Vec<String>),
    /// No.
    Denied(Denial),
}

/// Reason for a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// A statement says no.
    Explicit { sid: String },
    /// No statement of the attached policies says yes.
    NotGranted {
        /// Statement that came nearest.
        nearest: Option<Miss>,
    },
    /// The policies would allow it, the boundary does not.
    OutsideBoundary {
        /// The statement of the boundary that came nearest.
        nearest: Option<Miss>,
    },
    /// It depends on what is not evaluated here: a statement may say no, or the only one that may say yes is unclear.
    /// Not a permission. The documents that are read strictly, asked a whole request, never come to this.
    Undecided {
        /// The name of the statement.
        sid: String,
        /// Unclear parts of it.
        unclear: Vec<String>,
    },
}

/// A statement that allows the action, and what it was not content with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    pub sid: String,
    /// Parts that did not fit: the resource, or each condition that does not hold.
    pub unmet: Vec<String>,
}

impl Policies {
    /// Policies without a boundary.
    pub fn of(attached: Vec<Policy>) -> Self {
        Self { attached, boundary: None }
    }

    /// Answers one request.
    pub fn decide(&self, request: &Request) -> Decision {
        let statements = || self.attached.iter().chain(&self.boundary).flat_map(|policy| &policy.statements);
        let denying = |truth| {
            statements()
                .find(|statement| statement.effect == Effect::Deny && statement.applies(request) == truth)
        };
        if let Some(statement) = denying(Truth::Yes) {
            return Decision::Denied(Denial::Explicit { sid: statement.sid.clone() });
        }
        let (granted, granting) = allowing(&self.attached, request);
        if granted == Truth::No {
            return Decision::Denied(Denial::NotGranted { nearest: nearest(&self.attached, request) });
        }
        let boundary = self.boundary.as_ref().map(std::slice::from_ref);
        let (within, limiting) = boundary.map_or((Truth::Yes, vec![]), |only| allowing(only, request));
        if within == Truth::No {
            let nearest = boundary.and_then(|only| nearest(only, request));
            return Decision::Denied(Denial::OutsideBoundary { nearest });
        }
        // A possible denial weighs more than what may be missing: it stays when the rest is granted.
        let unclear = denying(Truth::Unknown)
            .or_else(|| granting.first().copied().filter(|_| granted == Truth::Unknown))
            .or_else(|| limiting.first().copied().filter(|_| within == Truth::Unknown));
        match unclear {
            Some(statement) => Decision::Denied(Denial::Undecided {
                sid: statement.sid.clone(),
                unclear: statement.unclear(request),
            }),
            None => Decision::Allowed(granting.iter().map(|statement| statement.sid.clone()).collect()),
        }
    }

    /// Returns whether the request is allowed.
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

/// Returns the degree to which the request is granted, and the statements that grant it so far.
fn allowing<'a>(policies: &'a [Policy], request: &Request) -> (Truth, Vec<&'a Statement>) {
    let granted = Truth::any(allows(policies).map(|statement| statement.applies(request)));
    (granted, allows(policies).filter(|statement| statement.applies(request) == granted).collect())
}

/// Returns the statement with the fewest objections among those that name the action; a wrong resource weighs most.
fn nearest(policies: &[Policy], request: &Request) -> Option<Miss> {
    let misses = allows(policies).filter(|statement| statement.names_action(request)).map(|statement| {
        let wrong_place = statement.names_resource(request) == Truth::No;
        let unmet = statement.unmet(request);
        ((wrong_place, unmet.len()), Miss { sid: statement.sid.clone(), unmet })
    });
    misses.min_by_key(|(distance, _)| *distance).map(|(_, miss)| miss)
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, nearest) = match self {
            Self::Explicit { sid } => return write!(formatter, "denied by `{sid}`"),
            Self::NotGranted { nearest } => ("not granted", nearest),
            Self::OutsideBoundary { nearest } => ("outside the permissions boundary", nearest),
            Self::Undecided { sid, unclear } => {
                return write!(formatter, "not decided by `{sid}`: {}", unclear.join("; "));
            }
        };
        match nearest {
            Some(miss) => write!(formatter, "{what}; nearest is `{}`: {}", miss.sid, miss.unmet.join("; ")),
            None => write!(formatter, "{what}; no statement names the action"),
        }
    }
}

#[cfg(test)]
mod tests;
