//! Queues: messages that hide while they are handled, and vanish when they were not handled in time.

mod attributes;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::id::QueueUrl;
use karpenter_aws_api::sqs::{Attributes, Message, ReceiveOptions, Sqs};
use karpenter_aws_api::{Error, Result, Tags};
use karpenter_model::clock::later;

use super::Account;

/// Time for which AWS refuses to create a queue with the name of a deleted one.
const NAME_COOL_DOWN: Duration = Duration::from_mins(1);

/// Queues of the account by name.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) by_name: BTreeMap<String, Queue>,
    deleted: BTreeMap<String, Timestamp>,
    /// Messages arrived since the last look.
    pub(super) delivered: bool,
    serial: u64,
}

/// One queue.
#[derive(Debug)]
pub(super) struct Queue {
    url: QueueUrl,
    pub(super) arn: String,
    attributes: Attributes,
    pub(super) tags: Tags,
    messages: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    id: String,
    body: String,
    sent_at: Timestamp,
    visible_at: Timestamp,
    receipt: String,
}

impl Queue {
    pub(super) fn policy(&self) -> Option<&str> {
        self.attributes.get("Policy").map(String::as_str).filter(|policy| !policy.is_empty())
    }

    fn describe(&self) -> Attributes {
        let mut attributes = attributes::defaults();
        attributes.extend(self.attributes.clone());
        attributes.retain(|_, value| !value.is_empty());
        attributes.insert("QueueArn".into(), self.arn.clone());
        attributes.insert("ApproximateNumberOfMessages".into(), self.messages.len().to_string());
        attributes
    }

    fn receive(&mut self, options: ReceiveOptions, serial: &mut u64, now: Timestamp) -> Vec<Message> {
        let hidden_until = later(now, options.visibility);
        self.messages
            .iter_mut()
            .filter(|held| held.visible_at <= now)
            .take(usize::from(options.max_messages))
            .map(|held| {
                *serial += 1;
                held.visible_at = hidden_until;
                held.receipt = format!("receipt-{serial}");
                Message {
                    id: held.id.clone(),
                    receipt: held.receipt.clone(),
                    body: held.body.clone(),
                    sent_at: Some(held.sent_at),
                }
            })
            .collect()
    }
}

impl Queues {
    /// Drops messages older than their queue's retention.
    pub(super) fn expire(&mut self, now: Timestamp) {
        for queue in self.by_name.values_mut() {
            let retention = attributes::retention(&queue.attributes);
            queue.messages.retain(|held| later(held.sent_at, retention) > now);
        }
    }

    pub(super) fn by_arn(&self, arn: &str) -> Option<&Queue> {
        self.by_name.values().find(|queue| queue.arn == arn)
    }

    /// Puts a message into the queue with this name.
    pub(super) fn send(&mut self, name: &str, body: &str, at: Timestamp) {
        self.serial += 1;
        let id = format!("message-{}", self.serial);
        if let Some(queue) = self.by_name.get_mut(name) {
            let held =
                Held { id, body: body.to_owned(), sent_at: at, visible_at: at, receipt: String::new() };
            queue.messages.push(held);
            self.delivered = true;
        }
    }

    fn create(&mut self, new: Queue, name: &str, wanted: &Attributes, now: Timestamp) -> Result<QueueUrl> {
        let refuse = |code: &str, text: String| Err(Error::answered("CreateQueue", name, code, text));
        attributes::check("CreateQueue", name, wanted)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 80 || !name.chars().all(allowed) {
            let text = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
            return refuse("InvalidParameterValue", text.to_owned());
        }
        if let Some(queue) = self.by_name.get(name) {
            let present = queue.describe();
            if let Some((key, _)) = wanted.iter().find(|(key, value)| present.get(*key) != Some(value)) {
                let text = format!(
                    "A queue already exists with the same name and a different value for attribute {key}"
                );
                return refuse("QueueAlreadyExists", text);
            }
            return Ok(queue.url.clone());
        }
        if let Some(at) = self.deleted.get(name)
            && later(*at, NAME_COOL_DOWN) > now
        {
            let text = "You must wait 60 seconds after deleting a queue before you can create another with the same name.";
            return refuse("AWS.SimpleQueueService.QueueDeletedRecently", text.to_owned());
        }
        let url = new.url.clone();
        self.by_name.insert(name.to_owned(), new);
        Ok(url)
    }

    fn find(&mut self, operation: &'static str, url: &QueueUrl) -> Result<&mut Queue> {
        self.by_name
            .values_mut()
            .find(|queue| queue.url == *url)
            .ok_or_else(|| missing(operation, url.as_str()))
    }
}

fn missing(operation: &'static str, subject: &str) -> Error {
    let text = "The specified queue does not exist.";
    Error::answered(operation, subject, "AWS.SimpleQueueService.NonExistentQueue", text)
}

#[async_trait]
impl Sqs for Account {
    async fn create_queue(&self, name: &str, attributes: &Attributes, tags: &Tags) -> Result<QueueUrl> {
        self.call("CreateQueue", name, |state, now| {
            let suffix = state.partition.dns_suffix();
            let queue = Queue {
                url: format!("https://sqs.{}.{suffix}/{}/{name}", state.region, state.account).into(),
                arn: state.arn("sqs", name),
                attributes: attributes.clone(),
                tags: tags.clone(),
                messages: Vec::new(),
            };
            state.queues.create(queue, name, attributes, now)
        })
        .await
    }

    async fn get_queue_url(&self, name: &str) -> Result<QueueUrl> {
        self.call("GetQueueUrl", name, |state, _| {
            let queue = state.queues.by_name.get(name).ok_or_else(|| missing("GetQueueUrl", name))?;
            Ok(queue.url.clone())
        })
        .await
    }

    async fn get_queue_attributes(&self, queue: &QueueUrl) -> Result<Attributes> {
        self.call("GetQueueAttributes", queue.as_str(), |state, _| {
            Ok(state.queues.find("GetQueueAttributes", queue)?.describe())
        })
        .await
    }

    async fn set_queue_attributes(&self, queue: &QueueUrl, attributes: &Attributes) -> Result<()> {
        self.call("SetQueueAttributes", queue.as_str(), |state, _| {
            attributes::check("SetQueueAttributes", queue.as_str(), attributes)?;
            state.queues.find("SetQueueAttributes", queue)?.attributes.extend(attributes.clone());
            Ok(())
        })
        .await
    }

    async fn list_queue_tags(&self, queue: &QueueUrl) -> Result<Tags> {
        self.call("ListQueueTags", queue.as_str(), |state, _| {
            Ok(state.queues.find("ListQueueTags", queue)?.tags.clone())
        })
        .await
    }

    async fn tag_queue(&self, queue: &QueueUrl, tags: &Tags) -> Result<()> {
        self.call("TagQueue", queue.as_str(), |state, _| {
            state.queues.find("TagQueue", queue)?.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn untag_queue(&self, queue: &QueueUrl, keys: &[String]) -> Result<()> {
        self.call("UntagQueue", queue.as_str(), |state, _| {
            state.queues.find("UntagQueue", queue)?.tags.retain(|key, _| !keys.contains(key));
            Ok(())
        })
        .await
    }

    async fn delete_queue(&self, queue: &QueueUrl) -> Result<()> {
        self.call("DeleteQueue", queue.as_str(), |state, now| {
            state.queues.find("DeleteQueue", queue)?;
            let name = queue.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            state.queues.by_name.remove(&name);
            state.queues.deleted.insert(name, now);
            Ok(())
        })
        .await
    }

    async fn receive_messages(&self, queue: &QueueUrl, options: ReceiveOptions) -> Result<Vec<Message>> {
        let arrival = self.inner.delivered.notified();
        tokio::pin!(arrival);
        // Registered before looking, so that a message sent in between is not missed.
        arrival.as_mut().enable();
        let found =
            self.call("ReceiveMessage", queue.as_str(), |state, now| state.receive(queue, options, now));
        let found = found.await?;
        if !found.is_empty() || options.wait.is_zero() {
            return Ok(found);
        }
        // Running into the timeout is the ordinary end of a long poll.
        tokio::time::timeout(options.wait, arrival).await.ok();
        self.truth(|state, now| state.receive(queue, options, now))
    }

    async fn delete_message(&self, queue: &QueueUrl, receipt: &str) -> Result<()> {
        self.call("DeleteMessage", queue.as_str(), |state, _| {
            let queue = state.queues.find("DeleteMessage", queue)?;
            queue.messages.retain(|held| held.receipt != receipt);
            Ok(())
        })
        .await
    }

    async fn send_message(&self, queue: &QueueUrl, body: &str) -> Result<()> {
        self.call("SendMessage", queue.as_str(), |state, now| {
            state.queues.find("SendMessage", queue)?;
            let name = queue.as_str().rsplit('/').next().unwrap_or_default();
            state.queues.send(name, body, now);
            Ok(())
        })
        .await
    }
}

impl super::State {
    fn receive(&mut self, url: &QueueUrl, options: ReceiveOptions, now: Timestamp) -> Result<Vec<Message>> {
        let mut serial = self.queues.serial;
        let messages = self.queues.find("ReceiveMessage", url)?.receive(options, &mut serial, now);
        self.queues.serial = serial;
        Ok(messages)
    }
}
