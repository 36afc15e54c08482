//! An AWS account in memory, for tests, simulation and demos.
//!
//! It answers the same traits as the SDK backend, with AWS's error codes, and adds what no real account has: a
//! clock in hand, faults on demand, capacity per offering, a log of every call, and the truth behind eventual
//! consistency. Nothing runs in the background: what time has brought about (an instance booted, a spot instance
//! reclaimed, a message expired) is settled at the beginning of the next call, so the same calls at the same
//! instants always give the same account.
//!
//! It is a test double written by the people who wrote the code under test. `conformance` holds it to an
//! independently written emulator; neither is AWS.

mod account;
mod calls;
mod catalogue;
pub mod examples;
mod faults;
mod options;
mod policy;

pub use account::{Account, Impairment, OfferingSelector, Remains};
pub use calls::{CallLog, CallRecord};
pub use faults::{Effect, Fault};
pub use options::{Options, Quotas, Range};
