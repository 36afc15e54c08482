//! Decisions of IAM: policy documents evaluated against requests.
//!
//! The one evaluator: `bootstrap check`, `doctor` and the account in memory ask it about documents of an account, the
//! tests of `bootstrap` what a compromised controller might try, `e2e` about every call that was really made.
//!
//! The rules are those of the IAM user guide ("Policy evaluation logic", "IAM JSON policy elements"):
//!
//! 1. an explicit denial wins over everything;
//! 2. otherwise some statement of an identity policy must allow, and, where there is a permissions boundary, some
//!    statement of the boundary, too;
//! 3. otherwise the answer is no.
//!
//! Invariants:
//! * what is not understood is never an answer: unknown fields, operators and condition keys, policy variables,
//!   incomplete ARNs. In a document of ours it is an error when the document is read. A misspelt condition key would
//!   deny for ever in IAM, and a misspelt operator would be refused there; here both fail the test that reads the
//!   document. In a document of an account it is neither true nor false: it grants nothing, and a denial that depends
//!   on it leaves the request [undecided](Denial::Undecided);
//! * the time for a pattern is at most the product of its length and the text's, whatever a document holds;
//! * no clock, no I/O; the same request and the same documents give the same answer.

mod condition;
mod decision;
mod error;
mod name;
mod pattern;
mod policy;
mod request;
mod truth;

pub use decision::{Decision, Denial, Miss, Policies};
pub use error::Error;
pub use name::is_name;
pub use pattern::matches;
pub use policy::Policy;
pub use request::{Principal, Request};
