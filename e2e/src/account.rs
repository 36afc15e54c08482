//! An AWS account to test against, whichever this machine can give.
//!
//! | variant | what it is | needs |
//! |---|---|---|
//! | [`moto`] | the launcher of `localstack/`, a process on loopback, or on the address pods reach | Python |
//! | [`localstack`] | `LocalStack`'s container with the same inside, reached at such an address | Docker |
//! | [`endpoint`] | an emulator that runs already | its URL |
//!
//! All give an endpoint URL for `AWS_ENDPOINT_URL`; any credentials are accepted. Only ours have
//! [`control`] requests (capacity, faults, notices, the call log), so scenarios that cause trouble need it.

pub mod control;
pub mod endpoint;
mod http;
pub mod localstack;
pub mod moto;
mod seeding;

pub use control::{Control, Seeded};

use std::sync::Arc;

use anyhow::{Context, Result};
use nix::unistd::Pid;

use crate::engine::Engine;

/// Account to use.
#[derive(Clone, Debug)]
pub enum Choice {
    /// The launcher, as a process.
    Moto(moto::Options),
    /// The container.
    LocalStack(localstack::Options),
    /// An emulator at this URL.
    Endpoint(String),
}

/// A running account.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub enum Account {
    /// The launcher, as a process.
    Moto(moto::MotoAccount),
    /// The container.
    LocalStack(localstack::LocalStackAccount),
    /// An emulator that was there before us.
    Endpoint(endpoint::EndpointAccount),
}

impl Account {
    /// Starts, or connects to, the chosen account; one in a container needs its engine.
    pub async fn start(choice: Choice, engine: Option<&Arc<Engine>>) -> Result<Self> {
        Ok(match choice {
            Choice::Moto(options) => Self::Moto(moto::MotoAccount::start(options).await?),
            Choice::LocalStack(options) => {
                let engine = Arc::clone(engine.context("LocalStack needs a Docker engine")?);
                Self::LocalStack(localstack::LocalStackAccount::start(engine, options).await?)
            }
            Choice::Endpoint(url) => Self::Endpoint(endpoint::EndpointAccount::connect(&url).await?),
        })
    }

    /// Returns the value for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        match self {
            Self::Moto(account) => account.endpoint(),
            Self::LocalStack(account) => account.endpoint(),
            Self::Endpoint(account) => account.endpoint(),
        }
    }

    /// The control requests, if this emulator has them.
    pub fn control(&self) -> Option<&Control> {
        match self {
            Self::Moto(account) => Some(account.control()),
            Self::LocalStack(account) => Some(account.control()),
            Self::Endpoint(account) => account.control(),
        }
    }

    /// Its process, if it is one of this machine.
    pub fn process(&self) -> Option<Pid> {
        match self {
            Self::Moto(account) => Some(account.process()),
            Self::LocalStack(_) | Self::Endpoint(_) => None,
        }
    }

    /// Makes the account one with a new EKS cluster. A launcher that was started with a cluster
    /// has one already.
    pub async fn seed(&self, cluster: &str, region: &str, kubernetes: &str) -> Result<Seeded> {
        match self.control() {
            Some(control) => control.seed(cluster, region, kubernetes).await,
            None => seeding::seed(self.endpoint(), cluster, region, kubernetes).await,
        }
    }

    /// Ends what [`Account::start`] began.
    pub async fn stop(self) -> Result<()> {
        match self {
            Self::Moto(account) => account.stop().await,
            Self::LocalStack(account) => account.stop().await,
            Self::Endpoint(_) => Ok(()),
        }
    }
}
