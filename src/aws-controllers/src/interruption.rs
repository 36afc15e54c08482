//! `interruption`: follows the queue with notices about instances (spec aws-provider 14.1).
//!
//! A message is deleted once everything it leads to has been done; if the process dies before, it comes again and finds
//! the claim being deleted. What cannot be read, or concerns nobody, is counted and deleted: nothing blocks the queue.
//! Nothing is read before the cluster is known, because then every instance would look like somebody else's.

mod act;
pub(crate) mod health;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use karpenter_aws::notice;
use karpenter_aws_client::id::QueueUrl;
use karpenter_aws_client::sqs::{Message, ReceiveOptions};
use karpenter_model::NoticeKind;
use karpenter_telemetry::observe::{self, Outcome};
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error};
use act::Claims;

const NAME: &str = "interruption";
/// How soon to look again while the cluster is not known completely.
const SOON: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// Label of messages that concern nobody.
const NO_KIND: &str = "no_op";

/// Follows the queue of this name until `shutdown`.
pub(crate) async fn run(name: String, context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let mut reader = Reader { context, name, url: None };
    let mut wait = Duration::ZERO;
    loop {
        let pass = async {
            tokio::time::sleep(wait).await;
            observe::pass(&metrics, NAME, "", |outcome| *outcome, reader.pass()).await
        };
        let result = tokio::select! {
            // A message that is being handled is not deleted, and comes again.
            () = shutdown.cancelled() => return,
            result = pass => result,
        };
        metrics.aws.interruption_queue_healthy.set([], if result.is_ok() { 1.0 } else { 0.0 });
        wait = match result {
            Ok(Outcome::Waiting) => SOON,
            Ok(_) => Duration::ZERO,
            Err(_reported) => (wait * 2).clamp(BACKOFF_MIN, BACKOFF_MAX),
        };
    }
}

struct Reader {
    context: AwsContext,
    name: String,
    url: Option<QueueUrl>,
}

impl Reader {
    /// Waits for messages and handles those that come, side by side.
    async fn pass(&mut self) -> Result<Outcome, Error> {
        if !self.context.cluster_known() {
            return Ok(Outcome::Waiting);
        }
        let url = self.url().await?;
        let received = self.context.aws.clients().sqs.receive_messages(&url, ReceiveOptions::default()).await;
        // A queue of the same name may be made anew; its address is then looked up once more.
        let messages = received.inspect_err(|_| self.url = None)?;
        if messages.is_empty() {
            return Ok(Outcome::Skipped);
        }
        let claims = Claims::known(&self.context);
        let handled = messages.iter().map(|message| self.handle(&url, message, &claims));
        let handled: Vec<Result<(), Error>> = join_all(handled).await;
        Error::combined(handled.into_iter().filter_map(Result::err).collect())?;
        Ok(Outcome::Applied)
    }

    async fn url(&mut self) -> Result<QueueUrl, Error> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let url = self.context.aws.clients().sqs.get_queue_url(&self.name).await?;
        Ok(self.url.insert(url).clone())
    }

    async fn handle(&self, url: &QueueUrl, message: &Message, claims: &Claims) -> Result<(), Error> {
        let metrics = &self.context.common.metrics.aws;
        match notice::parse(&message.body) {
            Err(error) => {
                tracing::error!(%error, message = message.id, "dropped message of the interruption queue");
                metrics.interruption_received_messages_total.inc([NO_KIND]);
            }
            Ok(read) => {
                let kind = read.kind.map_or(NO_KIND, NoticeKind::as_str);
                metrics.interruption_received_messages_total.inc([kind]);
                if let Some(kind) = read.kind {
                    claims.act(&self.context, NAME, kind, &read.instances).await?;
                }
                if let Some(at) = read.at.or(message.sent_at) {
                    let late = Duration::try_from(self.context.common.now().duration_since(at));
                    metrics.interruption_message_queue_duration_seconds.observe([], late.unwrap_or_default());
                }
            }
        }
        self.context.aws.clients().sqs.delete_message(url, &message.receipt).await?;
        metrics.interruption_deleted_messages_total.inc([]);
        Ok(())
    }
}
