//! The interruption queue (spec aws-operations 1.4, 2.3, spec aws-provider 14.1).

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::id::QueueUrl;
use crate::{Result, Tags};

/// Queue attributes by AWS name, for example `MessageRetentionPeriod` in seconds as text, or `Policy`.
pub type Attributes = BTreeMap<String, String>;

/// The SQS calls of this product.
#[async_trait]
pub trait Sqs: Send + Sync + Debug {
    /// `CreateQueue`. The same name with the same attributes is fine and returns the queue; with other
    /// attributes it is [`crate::Kind::AlreadyExists`].
    async fn create_queue(&self, name: &str, attributes: &Attributes, tags: &Tags) -> Result<QueueUrl>;

    /// `GetQueueUrl` in this account.
    async fn get_queue_url(&self, name: &str) -> Result<QueueUrl>;

    /// `GetQueueAttributes`, all of them.
    async fn get_queue_attributes(&self, queue: &QueueUrl) -> Result<Attributes>;

    /// `SetQueueAttributes`; the empty text removes a policy.
    async fn set_queue_attributes(&self, queue: &QueueUrl, attributes: &Attributes) -> Result<()>;

    /// `ListQueueTags`.
    async fn list_queue_tags(&self, queue: &QueueUrl) -> Result<Tags>;

    /// `TagQueue`.
    async fn tag_queue(&self, queue: &QueueUrl, tags: &Tags) -> Result<()>;

    /// `UntagQueue`.
    async fn untag_queue(&self, queue: &QueueUrl, keys: &[String]) -> Result<()>;

    /// `DeleteQueue`.
    async fn delete_queue(&self, queue: &QueueUrl) -> Result<()>;

    /// `ReceiveMessage`: waits up to `wait` for the first message, then returns what is there.
    async fn receive_messages(&self, queue: &QueueUrl, options: ReceiveOptions) -> Result<Vec<Message>>;

    /// `DeleteMessage`.
    async fn delete_message(&self, queue: &QueueUrl, receipt: &str) -> Result<()>;

    /// `SendMessage`. The controller never sends; tests and doctor checks do.
    async fn send_message(&self, queue: &QueueUrl, body: &str) -> Result<()>;
}

/// Options for receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// 1 to 10.
    pub max_messages: u8,
    /// Long poll, up to 20 s; whole seconds count.
    pub wait: Duration,
    /// Time for which received messages stay hidden from others; whole seconds count.
    pub visibility: Duration,
}

impl Default for ReceiveOptions {
    /// The interruption controller's: 10 messages, 20 s wait, 20 s hidden.
    fn default() -> Self {
        Self { max_messages: 10, wait: Duration::from_secs(20), visibility: Duration::from_secs(20) }
    }
}

/// One received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Stays the same over redeliveries.
    pub id: String,
    /// Deletes this delivery.
    pub receipt: String,
    /// Text; may be empty.
    pub body: String,
    /// Time at which it was sent, if SQS gives it.
    pub sent_at: Option<Timestamp>,
}
