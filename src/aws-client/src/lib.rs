//! The only crate that talks to AWS.
//!
//! One narrow async trait per service, over structs of our own, with exactly the calls this product makes:
//! whoever holds a [`Clients`] cannot reach the AWS SDK, so the million lines of it are compiled behind one
//! crate border and every test can run on the in-memory account.
//!
//! ```text
//!  ec2::Ec2  iam::Iam  sqs::Sqs  events::Events  ssm::Ssm  pricing::Pricing  eks::Eks  sts::Sts
//!                              survey::Survey
//!                                     ▲
//!               ┌─────────────────────┴─────────────────────┐
//!        sdk::connect(Config)                     memory::Account::new(Options)
//!   real AWS, or an emulator's endpoint        quotas, faults, capacity and time in hand
//! ```
//!
//! Rules both backends keep, and `conformance` checks:
//! - a listing is complete or an error, never the pages that happened to arrive;
//! - an answer that lacks a field we rely on is an error that names the field, or the entry is listed in
//!   [`Listing::skipped`]; it never becomes a default;
//! - a failure is an [`Error`] with a closed [`Kind`], the operation and the thing operated on.

pub mod cloudformation;
pub mod conformance;
pub mod ec2;
pub mod eks;
pub mod error;
pub mod events;
pub mod iam;
pub mod id;
pub mod memory;
pub mod pricing;
pub mod query;
pub mod sdk;
pub mod secret;
pub mod shift;
pub mod sqs;
pub mod ssm;
pub mod sts;
pub mod survey;
pub mod watch;

mod clients;

pub use clients::{Clients, Partition};
pub use error::{Error, Kind, Result};
pub use query::{Filter, Listing, Skipped, Tags};
pub use secret::Secret;
