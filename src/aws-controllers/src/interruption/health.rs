//! `interruption.instancestatus`: reads from EC2 every minute which instances have failed or are to be interrupted
//! (spec aws-provider 14.2). Needs no queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_aws::notice::health;
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::InstanceHealth;
use karpenter_cloud::InstanceId;
use karpenter_model::NoticeKind;
use karpenter_telemetry::observe::{self, Outcome};
use tokio_util::sync::CancellationToken;

use super::SOON;
use super::act::Claims;
use crate::{AwsContext, Error};

const NAME: &str = "interruption.instancestatus";
const PERIOD: Duration = Duration::from_mins(1);
/// Delay when the permission is missing, which is reported once: it may be granted at any time.
const DENIED_PERIOD: Duration = Duration::from_mins(15);

/// Polls until `shutdown`.
pub(crate) async fn run(context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let mut poller = Poller { context, counted: BTreeSet::new(), denied: false };
    loop {
        let pass = observe::pass(&metrics, NAME, "", |outcome| outcome.again(), poller.pass());
        let result = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            // Failures are logged and counted by the wrapper, and the next look tries again.
            result = pass => result,
        };
        let period = match result {
            _ if poller.denied => DENIED_PERIOD,
            // It is not known yet which instances are ours: a controller that was started again in the middle of an outage must
            // not wait a minute for its first look.
            Ok(Outcome::Waiting) => SOON,
            _ => PERIOD,
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(period) => {}
        }
    }
}

struct Poller {
    context: AwsContext,
    /// Faults that have been counted and have not ended since.
    counted: BTreeSet<(String, NoticeKind)>,
    /// EC2 does not let us ask.
    denied: bool,
}

impl Poller {
    async fn pass(&mut self) -> Result<Outcome, Error> {
        if !self.context.cluster_known() {
            return Ok(Outcome::Waiting);
        }
        let Some(found) = self.ask().await? else { return Ok(Outcome::Waiting) };
        if found.is_empty() {
            self.count(&BTreeSet::new());
            return Ok(Outcome::Skipped);
        }
        let (claims, now) = (Claims::known(&self.context), self.context.common.now());
        let mut unhealthy = BTreeSet::new();
        for health in found.iter().filter(|health| claims.contain(health.id.as_str())) {
            let notices = health::notices(health, now);
            unhealthy.extend(notices.into_iter().map(|kind| (health.id.to_string(), kind)));
        }
        self.count(&unhealthy);
        let mut errors = Vec::new();
        for (instance, kind) in &unhealthy {
            let instances = [InstanceId::from(instance.as_str())];
            errors.extend(claims.act(&self.context, NAME, *kind, &instances).await.err());
        }
        Error::combined(errors)?;
        Ok(if unhealthy.is_empty() { Outcome::Skipped } else { Outcome::Applied })
    }

    /// Every instance with something wrong; `None` when we may not ask. An instance may be there more than once.
    async fn ask(&mut self) -> Result<Option<Vec<InstanceHealth>>, Error> {
        let mut found = Vec::new();
        for filters in health::queries() {
            match self.context.aws.clients().ec2.describe_instance_status(&filters).await {
                Ok(part) => found.extend(part),
                Err(error) if error.kind == Kind::Denied => {
                    if !self.denied {
                        tracing::error!(%error, "instance status is not followed until ec2:DescribeInstanceStatus is granted");
                    }
                    self.denied = true;
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.denied = false;
        Ok(Some(found))
    }

    /// Counts each instance and category once until it recovers.
    fn count(&mut self, unhealthy: &BTreeSet<(String, NoticeKind)>) {
        let metric = &self.context.common.metrics.aws.interruption_instance_status_unhealthy_total;
        for (_, kind) in unhealthy.difference(&self.counted) {
            metric.inc([category(*kind)]);
        }
        self.counted.clone_from(unhealthy);
    }
}

fn category(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::InstanceStatus => "InstanceStatus",
        NoticeKind::SystemStatus => "SystemStatus",
        _ => "EventStatus",
    }
}
