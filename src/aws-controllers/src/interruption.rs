//! `interruption`: follows the queue with notices about instances (spec aws-provider 14.1).
//!
//! A message is deleted once everything it leads to has been done; if the process dies before, it is received again and finds
//! the claim being deleted. What cannot be read, or concerns no instance, is counted and deleted: nothing
//! blocks the queue. While batches come back full, several are received and handled at once: a zone that is
//! taken back interrupts hundreds. Nothing is read before the cluster is known, because then every instance
//! would look like one of another cluster.

mod act;
pub(crate) mod health;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use karpenter_aws::notice;
use karpenter_aws_api::id::QueueUrl;
use karpenter_aws_api::sqs::{Message, ReceiveOptions};
use karpenter_model::NoticeKind;
use karpenter_model::clock::since;
use karpenter_telemetry::observe::{self, Outcome};
use karpenter_telemetry::progress;
use tokio_util::sync::CancellationToken;

use crate::{AwsContext, Error};
use act::Claims;

const NAME: &str = "interruption";
/// Delay of the next look while the cluster is not known completely.
const SOON: Duration = Duration::from_secs(1);
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// Messages in a batch that indicates that there may be more.
const FULL: usize = 10;
/// Batches received at once while there are more.
const SIDE_BY_SIDE: usize = 10;
/// Time for which a notice about an instance that no claim has recorded is left in the queue while claims are being launched. An
/// instance of another cluster costs one more look every time the queue shows it again.
const EARLY: Duration = Duration::from_mins(5);
/// Label of messages that concern no instance.
const NO_KIND: &str = "no_op";

/// Follows the queue of this name until `shutdown`.
pub(crate) async fn run(name: String, context: AwsContext, shutdown: CancellationToken) {
    let metrics = Arc::clone(&context.common.metrics);
    let mut reader = Reader { context, name, url: None };
    let mut wait = Duration::ZERO;
    loop {
        let pass = async {
            tokio::time::sleep(wait).await;
            observe::pass(&metrics, NAME, "", |outcome| outcome.again(), reader.pass()).await
        };
        let result = tokio::select! {
            biased;
            // A message that is being handled is not deleted, and is received again.
            () = shutdown.cancelled() => return,
            result = pass => result,
        };
        let read = !matches!(result, Err(Failure::Unread(_)));
        metrics.aws.interruption_queue_healthy.set([], if read { 1.0 } else { 0.0 });
        wait = match result {
            // A failed message is hidden for a while; other messages must not wait for it.
            Ok(Outcome::Waiting) | Err(Failure::InVain(_)) => SOON,
            Ok(_) | Err(Failure::Partly(_)) => Duration::ZERO,
            Err(Failure::Unread(_)) => (wait * 2).clamp(BACKOFF_MIN, BACKOFF_MAX),
        };
    }
}

/// Failure of a pass. The wrapper has reported it before the caller reads it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The queue could not be read.
    #[error(transparent)]
    Unread(Error),
    /// Nothing could be done about any message.
    #[error(transparent)]
    InVain(Error),
    /// Some messages failed. They come again when their time is over, and hold up no other message.
    #[error(transparent)]
    Partly(Error),
}

/// The result of receiving and handling messages.
#[derive(Default)]
struct Tally {
    received: usize,
    failed: Vec<Error>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.received += other.received;
        self.failed.extend(other.failed);
    }

    /// There were messages, and nothing could be done about any of them.
    fn in_vain(&self) -> bool {
        self.received > 0 && self.failed.len() == self.received
    }
}

struct Reader {
    context: AwsContext,
    name: String,
    url: Option<QueueUrl>,
}

impl Reader {
    /// Waits for messages and handles those that come, side by side.
    async fn pass(&mut self) -> Result<Outcome, Failure> {
        if !self.context.cluster_known() {
            return Ok(Outcome::Waiting);
        }
        let mut tally = Tally::default();
        let received = self.receive(&mut tally).await;
        let failure = match received {
            Err(error) => {
                tally.failed.push(error);
                Failure::Unread
            }
            Ok(()) if tally.in_vain() => Failure::InVain,
            Ok(()) => Failure::Partly,
        };
        let outcome = if tally.received == 0 { Outcome::Skipped } else { Outcome::Applied };
        let result = Error::combined(tally.failed).map(|()| outcome).map_err(failure);
        if matches!(result, Err(Failure::Unread(_) | Failure::InVain(_))) {
            // A queue of the same name may be created again; its address is then looked up once more.
            self.url = None;
        }
        result
    }

    /// Handles messages until a batch is not full.
    ///
    /// # Errors
    /// When messages could not be received.
    async fn receive(&mut self, tally: &mut Tally) -> Result<(), Error> {
        let url = self.url().await?;
        let first = self.batch(&url, ReceiveOptions::default()).await?;
        let mut more = first.received >= FULL && !first.in_vain();
        tally.add(first);
        // With many interruptions at once, two minutes are too short for one batch after the other.
        while more {
            let at_once = ReceiveOptions { wait: Duration::ZERO, ..ReceiveOptions::default() };
            let batches = join_all((0..SIDE_BY_SIDE).map(|_| self.batch(&url, at_once))).await;
            let (mut round, mut full, mut refused) = (Tally::default(), false, Vec::new());
            for batch in batches {
                match batch {
                    Ok(batch) => {
                        full |= batch.received >= FULL;
                        round.add(batch);
                    }
                    Err(error) => refused.push(error),
                }
            }
            more = full && !round.in_vain();
            tally.add(round);
            Error::combined(refused)?;
        }
        Ok(())
    }

    /// Receives some messages and handles them side by side.
    ///
    /// # Errors
    /// When they could not be received.
    async fn batch(&self, url: &QueueUrl, options: ReceiveOptions) -> Result<Tally, Error> {
        let messages = self.context.aws.clients().sqs.receive_messages(url, options).await?;
        if messages.is_empty() {
            progress::advanced();
            return Ok(Tally::default());
        }
        let claims = Claims::known(&self.context);
        let handled = messages.iter().map(|message| self.handle(url, message, &claims));
        let handled: Vec<Result<(), Error>> = join_all(handled).await;
        progress::advanced();
        Ok(Tally { received: messages.len(), failed: handled.into_iter().filter_map(Result::err).collect() })
    }

    async fn url(&mut self) -> Result<QueueUrl, Error> {
        if let Some(url) = &self.url {
            return Ok(url.clone());
        }
        let url = self.context.aws.clients().sqs.get_queue_url(&self.name).await?;
        Ok(self.url.insert(url).clone())
    }

    /// Time since then; zero for an instant to come.
    fn age(&self, at: Timestamp) -> Duration {
        since(at, self.context.common.now())
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
                    // A claim learns its instance from the answer to its launch, which may have been lost.
                    if claims.may_come_to_know(&read.instances)
                        && message.sent_at.is_some_and(|at| self.age(at) < EARLY)
                    {
                        tracing::debug!(
                            message = message.id,
                            "left a notice in the queue, claims are being launched"
                        );
                        return Ok(());
                    }
                    claims.act(&self.context, NAME, kind, &read.instances).await?;
                }
                if let Some(at) = read.at.or(message.sent_at) {
                    metrics.interruption_message_queue_duration_seconds.observe([], self.age(at));
                }
            }
        }
        self.context.aws.clients().sqs.delete_message(url, &message.receipt).await?;
        metrics.interruption_deleted_messages_total.inc([]);
        Ok(())
    }
}
