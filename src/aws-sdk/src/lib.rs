//! The backend over the AWS SDK: real AWS, or any endpoint that speaks its protocols.
//!
//! One file per service, conversion code only: no decision, no cache, no state. One TLS stack (rustls with ring),
//! one retry policy, one user agent for all services.
//!
//! Credentials come from the default chain (environment, profile, web identity, container endpoint, instance metadata);
//! there is no way to pass them as values, so they cannot end up in a settings dump. The one exception is the
//! meaningless pair that emulators are signed to with.

mod call;
mod cloudformation;
mod convert;
mod ec2;
mod eks;
mod events;
mod http;
mod iam;
mod meter;
mod pricing;
mod shift;
mod sqs;
mod ssm;
mod sts;
mod survey;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};

use karpenter_aws_api::watch::{Unwatched, Watch};
use karpenter_aws_api::{Clients, Error, Partition, Result};
use meter::Meter;

/// Target and options of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Region; `None` takes it from the environment, the profile or instance metadata.
    pub region: Option<String>,
    /// One endpoint for all services, for emulators and tests; `None` is real AWS.
    pub endpoint_url: Option<String>,
    /// Source of the credentials.
    pub credentials: Credentials,
    /// Ends the user agent, as `karpenter.sh-<version>`.
    pub version: String,
    /// Repetition of failed requests.
    pub retries: Retries,
    /// Limit for one attempt. Must exceed the 20 s of a long poll.
    pub attempt_timeout: Duration,
    /// Limit for a call with all its attempts; 4 minutes in the reference (spec aws-provider 2.2).
    pub call_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            region: None,
            endpoint_url: None,
            credentials: Credentials::DefaultChain,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            retries: Retries::Standard { max_attempts: 5 },
            attempt_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(4),
        }
    }
}

/// Source of credentials. Never a value of the caller's: what is not held cannot be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Environment, profile, web identity, container endpoint, instance metadata.
    DefaultChain,
    /// A well-known pair that means nothing, for an emulator that wants to see some signature.
    Emulator,
}

/// Repetition of failed requests. Always bounded: the caller decides what an hour of failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// One attempt.
    Never,
    /// Exponential back-off with jitter.
    Standard {
        /// Attempts in all, at least 1.
        max_attempts: u32,
    },
}

impl Retries {
    fn config(self) -> RetryConfig {
        match self {
            Self::Never => RetryConfig::disabled(),
            Self::Standard { max_attempts } => RetryConfig::standard().with_max_attempts(max_attempts.max(1)),
        }
    }
}

/// Builds the clients. Makes no AWS call; only looking up the region may ask instance metadata.
pub async fn connect(config: Config) -> Result<Clients> {
    connect_watched(config, Arc::new(Unwatched)).await
}

/// Connects, and reports what each call costs.
pub async fn connect_watched(config: Config, watch: Arc<dyn Watch>) -> Result<Clients> {
    clients(&load(&config).await?, watch)
}

fn clients(sdk: &SdkConfig, watch: Arc<dyn Watch>) -> Result<Clients> {
    let meter = Meter::new(watch);
    let region = sdk.region().map(ToString::to_string).ok_or_else(|| {
        Error::invalid(
            "connect",
            "region",
            "no region in settings, environment, profile or instance metadata; set `AWS_REGION`",
        )
    })?;
    // Regions without a price list have nothing to ask the client for.
    let pricing_region =
        Partition::pricing_region(&region).map_or(Region::new(region.clone()), Region::from_static);
    Ok(Clients {
        ec2: Arc::new(ec2::Client::new(sdk, &meter)),
        iam: Arc::new(iam::Client::new(sdk, &meter)),
        sqs: Arc::new(sqs::Client::new(sdk, &meter)),
        events: Arc::new(events::Client::new(sdk, &meter)),
        ssm: Arc::new(ssm::Client::new(sdk, &meter)),
        pricing: Arc::new(pricing::Client::new(&of_price_list(sdk, pricing_region), &meter)),
        eks: Arc::new(eks::Client::new(sdk, &meter)),
        cloudformation: Arc::new(cloudformation::Client::new(sdk, &meter)),
        shifts: Arc::new(shift::Client::new(sdk, &meter)),
        sts: Arc::new(sts::Client::new(sdk, &meter)),
        survey: Arc::new(survey::Client::new(sdk, &meter)),
        partition: Partition::of_region(&region),
        region,
    })
}

/// The price list has no FIPS endpoint anywhere, and nothing but public prices is asked of it (core#2198).
fn of_price_list(sdk: &SdkConfig, region: Region) -> SdkConfig {
    sdk.to_builder().region(region).use_fips(false).build()
}

async fn load(config: &Config) -> Result<SdkConfig> {
    let name = format!("karpenter.sh-{}", config.version);
    let app_name = AppName::new(name.clone())
        .map_err(|error| Error::invalid("connect", name, format!("not usable as user agent: {error}")))?;
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(config.attempt_timeout)
        .operation_timeout(config.call_timeout)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http::client()?)
        .app_name(app_name)
        .retry_config(config.retries.config())
        .timeout_config(timeouts);
    if config.credentials == Credentials::Emulator {
        let pair = aws_credential_types::Credentials::new("emulator", "emulator", None, None, "emulator");
        loader = loader.credentials_provider(pair);
    }
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(url) = &config.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    Ok(loader.load().await)
}
