//! Calls that the product makes of AWS, in words of its own.
//!
//! One narrow async trait per service, over structs of our own, with exactly the calls this product makes. A holder of
//! [`Clients`] cannot reach the AWS SDK, so no crate but the backend compiles it, and every test can run on the account
//! in memory.
//!
//! ```text
//!  ec2::Ec2  iam::Iam  sqs::Sqs  events::Events  ssm::Ssm  pricing::Pricing  eks::Eks  sts::Sts
//!                              survey::Survey
//!                                     ▲
//!               ┌─────────────────────┴─────────────────────┐
//!     aws_sdk::connect(Config)                  aws_sim::Account::new(Options)
//!   real AWS, or an emulator's endpoint        quotas, faults, capacity and time in hand
//! ```
//!
//! Rules both backends keep, and [`conformance`] checks:
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
pub mod pricing;
pub mod query;
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
