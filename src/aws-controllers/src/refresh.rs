//! Periodic tasks that read, clean up or look after prices, types, version, parameters, templates, profiles and reservations
//! (spec aws-provider 2.4).
//!
//! Every task keeps what it knew when it fails and is tried again sooner than its period, with back-off.

use std::time::Duration;

use karpenter_aws::class::instance_profiles;
use karpenter_aws::market::prices::{Outcome, Source};
use karpenter_kube_harness::queue::{Done, Queue, Spec};
use karpenter_model::CapacityType;
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error, gauges, reservations};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// One thing to do again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    PriceFile,
    /// On-demand prices of the price list.
    Prices,
    SpotPrices,
    /// Instance types and offerings.
    Types,
    /// Version of the cluster.
    Version,
    /// Image parameters that point at deprecated images.
    Parameters,
    /// Unused launch templates, those of an earlier process included.
    Templates,
    /// Unused instance profiles.
    Profiles,
    /// Gauges of types and offerings.
    Gauges,
    /// Machines in capacity blocks that end.
    Expiration,
    /// Machines whose capacity reservation ended.
    CapacityType,
}

impl Task {
    /// Every task.
    pub(crate) const ALL: [Self; 11] = [
        Self::PriceFile,
        Self::Prices,
        Self::SpotPrices,
        Self::Types,
        Self::Version,
        Self::Parameters,
        Self::Templates,
        Self::Profiles,
        Self::Gauges,
        Self::Expiration,
        Self::CapacityType,
    ];

    /// Controller name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PriceFile => "providers.pricing.file",
            Self::Prices => "providers.pricing",
            Self::SpotPrices => "providers.pricing.spot",
            Self::Types => "providers.instancetype",
            Self::Version => "providers.version",
            Self::Parameters => "providers.ssm.invalidation",
            Self::Templates => "providers.launchtemplate",
            Self::Profiles => "instanceprofile.garbagecollection",
            Self::Gauges => "cloudprovider.metrics",
            Self::Expiration => "capacityreservation.expiration",
            Self::CapacityType => "capacityreservation.capacitytype",
        }
    }

    /// Time after a success until the task runs again.
    pub(crate) const fn period(self) -> Duration {
        match self {
            Self::Prices | Self::SpotPrices | Self::Types => Duration::from_secs(12 * HOUR.as_secs()),
            Self::Version => Duration::from_secs(5 * MINUTE.as_secs()),
            Self::Parameters | Self::Profiles => Duration::from_secs(30 * MINUTE.as_secs()),
            Self::PriceFile | Self::Templates | Self::Gauges | Self::Expiration | Self::CapacityType => {
                MINUTE
            }
        }
    }
}

/// The key of a queue that has only one thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Only(Task);

impl std::fmt::Display for Only {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

/// Does one task until `shutdown`, the first time at once.
pub(crate) async fn run(task: Task, context: AwsContext, shutdown: CancellationToken) {
    let spec = Spec {
        name: task.name(),
        concurrency: 1,
        backoff_min: Duration::from_secs(1),
        backoff_max: Duration::from_secs(5 * MINUTE.as_secs()),
    };
    let metrics = std::sync::Arc::clone(&context.common.metrics);
    let (queue, work) = Queue::new();
    queue.add(Only(task));
    let pass = move |only: Only| {
        let context = context.clone();
        async move { once(only.0, &context).await.map(|()| Done::applied().after(only.0.period())) }
    };
    work.run(spec, metrics, shutdown, pass).await;
    drop(queue);
}

/// Does one task once.
///
/// # Errors
/// What AWS or the API server refused; everything keeps its old value.
pub(crate) async fn once(task: Task, context: &AwsContext) -> Result<(), Error> {
    let aws = &context.aws;
    match task {
        Task::PriceFile => {
            aws.prices.refresh_file().await?;
        }
        Task::Prices => prices(context).await?,
        Task::SpotPrices => {
            aws.prices.refresh_spot().await?;
        }
        Task::Types => {
            aws.refresh_catalogue().await?;
        }
        Task::Version => version(context).await?,
        Task::Parameters => {
            aws.images.forget_deprecated().await?;
        }
        Task::Templates => {
            // Known templates are swept whether or not those of an earlier process could be found.
            let adopted = aws.templates.adopt().await;
            aws.templates.sweep().await;
            adopted?;
        }
        Task::Profiles => profiles(context).await?,
        Task::Gauges => gauges::publish(context),
        Task::Expiration => reservations::leave_expiring(context).await?,
        Task::CapacityType => reservations::demote(context).await?,
    }
    Ok(())
}

/// Refreshes the prices of types, and logs when some remain estimates.
async fn prices(context: &AwsContext) -> Result<(), Error> {
    let prices = &context.aws.prices;
    let refreshed = prices.refresh_on_demand().await?;
    let estimated = prices.tally().into_iter().find(|tally| {
        (tally.capacity_type, tally.source) == (CapacityType::OnDemand, Source::Estimate) && tally.types > 0
    });
    if let (Outcome::Skipped, Some(tally)) = (refreshed, estimated) {
        let types = tally.types;
        let what_to_do = "set PRICE_FILE to a file with the prices";
        tracing::warn!(types, what_to_do, "on-demand prices are estimates: there is no price list to ask");
    }
    Ok(())
}

async fn version(context: &AwsContext) -> Result<(), Error> {
    let cluster = &context.aws.cluster;
    let changed = if context.aws.settings.eks_control_plane {
        cluster.refresh_version().await?
    } else {
        let found = context.common.client.apiserver_version().await;
        let found = found.map_err(|source| karpenter_kube_harness::Error {
            verb: "read version of",
            kind: "API server".to_owned(),
            name: context.aws.settings.cluster_endpoint.clone(),
            source: source.into(),
        })?;
        cluster.set_version(&format!("{}.{}", found.major, found.minor))
    };
    let version = cluster.version().unwrap_or_default();
    if changed && !karpenter_aws::cluster::is_supported(&version) {
        tracing::error!(version, "this release is not made for this version of Kubernetes");
    }
    Ok(())
}

/// Deletes profiles, but nothing before every `NodeClass` and claim is known.
async fn profiles(context: &AwsContext) -> Result<(), Error> {
    if context.aws.settings.isolated_vpc || !context.cluster_known() {
        return Ok(());
    }
    let Some(classes) = context.aws.classes.all() else { return Ok(()) };
    if context.aws.classes.has_undecoded() {
        return Ok(());
    }
    let claims = context.common.view.claims_or_undecoded();
    let in_use = instance_profiles::in_use(
        classes.iter().map(std::sync::Arc::as_ref),
        claims.iter().map(|claim| &claim.annotations),
    );
    let deleted = context.aws.profiles.collect(&in_use).await?;
    if deleted > 0 {
        tracing::info!(deleted, "deleted unused instance profiles");
    }
    Ok(())
}
