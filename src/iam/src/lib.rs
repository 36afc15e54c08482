//! What IAM would say: policy documents evaluated against requests.
//!
//! A test aid: `bootstrap` holds its policies against what a compromised controller might try, `e2e` against every call
//! that was really made. The product uses its wildcards only, in the account in memory and in `doctor`.
//!
//! The rules are those of the IAM user guide ("Policy evaluation logic", "IAM JSON policy elements"):
//!
//! 1. an explicit denial wins over everything;
//! 2. otherwise some statement of an identity policy must allow, and, where there is a permissions boundary, some
//!    statement of the boundary, too;
//! 3. otherwise the answer is no.
//!
//! Invariants:
//! * what is not understood is an error when a document is read, never an answer: unknown fields, operators and
//!   condition keys, policy variables, incomplete ARNs. A misspelt condition key would deny for ever in IAM, and a
//!   misspelt operator would be refused there; here both fail the test that reads the document;
//! * no clock, no I/O; the same request and the same documents give the same answer.

mod condition;
mod decision;
mod error;
mod pattern;
mod policy;
mod request;

pub use decision::{Decision, Denial, Miss, Policies};
pub use error::Error;
pub use pattern::matches;
pub use policy::Policy;
pub use request::{Principal, Request};
