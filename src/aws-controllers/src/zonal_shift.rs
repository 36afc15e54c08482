//! `zonalshift`: reads the zones the cluster is shifted away from, and publishes events on the
//! pools that could launch there (spec aws-provider 11). What follows from it is the provider's and the
//! planner's business.
//!
//! Asking waits for nothing: until there is an answer, pods are launched into a zone that is impaired. Events
//! wait until all pools and node classes are known.

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::class::store::Lookup;
use karpenter_aws::network::zonal_shifts::Changes;
use karpenter_aws_api::Kind;
use karpenter_model::Pool;
use karpenter_model::names::label;
use karpenter_telemetry::events::{Event, Reason, reason};
use karpenter_telemetry::observe::{self, Outcome};
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error};

const NAME: &str = "zonalshift";
const PERIOD: Duration = Duration::from_secs(30);
/// Delay of the next look while the shifts or the cluster are not known; doubles up to the period.
const SOON: Duration = Duration::from_secs(1);
/// Delay when the cluster is not registered or we may not ask: people have to act first.
const REFUSED_PERIOD: Duration = Duration::from_mins(5);

/// Polls until `shutdown`.
pub(crate) async fn run(context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let mut soon = SOON;
    loop {
        // Failures are logged and counted by the wrapper, and the next look tries again.
        let pass = observe::pass(&metrics, NAME, "", |outcome| outcome.again(), pass(&context));
        let result = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            result = pass => result,
        };
        let period = match result {
            Err(Error::Aws(error)) if matches!(error.kind, Kind::NotFound | Kind::Denied) => REFUSED_PERIOD,
            Ok(Outcome::Waiting) => grown(&mut soon),
            Err(_) if !context.aws.zonal_shifts.known() => grown(&mut soon),
            Ok(_) | Err(_) => PERIOD,
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(period) => {}
        }
    }
}

/// The present wait; the next one is twice as long.
fn grown(soon: &mut Duration) -> Duration {
    let wait = *soon;
    *soon = (wait * 2).min(PERIOD);
    wait
}

async fn pass(context: &AwsContext) -> Result<Outcome, Error> {
    context.aws.refresh_zonal_shifts().await?;
    if !context.cluster_known() || context.aws.classes.all().is_none() {
        // The pools are not known; the events are published later.
        return Ok(Outcome::Waiting);
    }
    let changes = context.aws.zonal_shifts.take_changes();
    if changes == Changes::default() {
        return Ok(Outcome::Skipped);
    }
    for (zone, until) in &changes.begun {
        let end = until.map(|until| format!(" until {until}")).unwrap_or_default();
        tracing::warn!(%zone, "cluster is shifted away from a zone{end}");
        let message = |name: &str| {
            format!(
                "Cluster is shifted away from zone {name} ({zone}){end}: nothing is launched or disrupted there"
            )
        };
        publish_on_pools(context, zone.as_str(), reason::ZONAL_SHIFT_ACTIVE, message);
    }
    for zone in &changes.ended {
        tracing::info!(%zone, "cluster is no longer shifted away from a zone");
        let message = |name: &str| format!("Cluster is no longer shifted away from zone {name} ({zone})");
        publish_on_pools(context, zone.as_str(), reason::ZONAL_SHIFT_CLEARED, message);
    }
    Ok(Outcome::Applied)
}

/// Publishes an event on every pool that could launch in the zone with this id.
fn publish_on_pools(context: &AwsContext, id: &str, reason: Reason, message: impl Fn(&str) -> String) {
    for pool in context.common.view.pools() {
        if let Some(name) = name_for(context, &pool.model, id)
            && let Some(object) = context.common.pool_object(&pool.model.name)
        {
            context.common.recorder.publish(Event::new(object, reason, message(&name)).distinguished_by(id));
        }
    }
}

/// The name of the zone with this id, if the node class of the pool has subnets there and the pool admits the zone.
fn name_for(context: &AwsContext, pool: &Pool, id: &str) -> Option<String> {
    let Lookup::Found(class) = context.aws.classes.get(&pool.template.node_class.name) else { return None };
    let mut subnets = class.status.iter().flat_map(|status| &status.subnets);
    let subnet = subnets.find(|subnet| subnet.zone_id.as_deref() == Some(id))?;
    let labels = [(label::ZONE, subnet.zone.as_str()), (label::aws::ZONE_ID, id)];
    let requirements = &pool.template.requirements;
    let admitted = |(key, value)| requirements.get(key).is_none_or(|requirement| requirement.allows(value));
    labels.into_iter().all(admitted).then(|| subnet.zone.clone())
}
