//! The interruption queue over the SDK.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use jiff::Timestamp;
use karpenter_aws_api::id::QueueUrl;
use karpenter_aws_api::sqs::{Attributes, Message, ReceiveOptions, Sqs};
use karpenter_aws_api::{Result, Tags};

use super::call::Call;
use super::meter::{Meter, measured};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_sqs::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_sqs, config, meter))
    }
}

#[async_trait]
impl Sqs for Client {
    async fn create_queue(&self, name: &str, attributes: &Attributes, tags: &Tags) -> Result<QueueUrl> {
        let call = Call::new("CreateQueue", name);
        let answer = self
            .0
            .create_queue()
            .queue_name(name)
            .set_attributes(Some(to_sdk(attributes)).filter(|map| !map.is_empty()))
            .set_tags(Some(tags.clone().into_iter().collect()).filter(|map: &HashMap<_, _>| !map.is_empty()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(call.field(answer.queue_url, "QueueUrl")?.into())
    }

    async fn get_queue_url(&self, name: &str) -> Result<QueueUrl> {
        let call = Call::new("GetQueueUrl", name);
        let answer =
            self.0.get_queue_url().queue_name(name).send().await.map_err(|failure| call.failed(failure))?;
        Ok(call.field(answer.queue_url, "QueueUrl")?.into())
    }

    async fn get_queue_attributes(&self, queue: &QueueUrl) -> Result<Attributes> {
        let call = Call::new("GetQueueAttributes", queue.as_str());
        let answer = self
            .0
            .get_queue_attributes()
            .queue_url(queue.as_str())
            .attribute_names(QueueAttributeName::All)
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        let attributes = call.field(answer.attributes, "Attributes")?;
        Ok(attributes.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect())
    }

    async fn set_queue_attributes(&self, queue: &QueueUrl, attributes: &Attributes) -> Result<()> {
        let call = Call::new("SetQueueAttributes", queue.as_str());
        self.0
            .set_queue_attributes()
            .queue_url(queue.as_str())
            .set_attributes(Some(to_sdk(attributes)))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn list_queue_tags(&self, queue: &QueueUrl) -> Result<Tags> {
        let call = Call::new("ListQueueTags", queue.as_str());
        let answer = self
            .0
            .list_queue_tags()
            .queue_url(queue.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(answer.tags.unwrap_or_default().into_iter().collect())
    }

    async fn tag_queue(&self, queue: &QueueUrl, tags: &Tags) -> Result<()> {
        let call = Call::new("TagQueue", queue.as_str());
        self.0
            .tag_queue()
            .queue_url(queue.as_str())
            .set_tags(Some(tags.clone().into_iter().collect()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn untag_queue(&self, queue: &QueueUrl, keys: &[String]) -> Result<()> {
        let call = Call::new("UntagQueue", queue.as_str());
        self.0
            .untag_queue()
            .queue_url(queue.as_str())
            .set_tag_keys(Some(keys.to_vec()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn delete_queue(&self, queue: &QueueUrl) -> Result<()> {
        let call = Call::new("DeleteQueue", queue.as_str());
        self.0
            .delete_queue()
            .queue_url(queue.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn receive_messages(&self, queue: &QueueUrl, options: ReceiveOptions) -> Result<Vec<Message>> {
        let call = Call::new("ReceiveMessage", queue.as_str());
        let seconds = |duration: std::time::Duration| i32::try_from(duration.as_secs()).unwrap_or(i32::MAX);
        let answer = self
            .0
            .receive_message()
            .queue_url(queue.as_str())
            .max_number_of_messages(options.max_messages.into())
            .wait_time_seconds(seconds(options.wait))
            .visibility_timeout(seconds(options.visibility))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        answer
            .messages
            .unwrap_or_default()
            .into_iter()
            .map(|message| {
                let sent = message.attributes.as_ref().and_then(|attributes| {
                    attributes.get(&MessageSystemAttributeName::SentTimestamp)?.parse::<i64>().ok()
                });
                Ok(Message {
                    id: call.field(message.message_id, "MessageId")?,
                    receipt: call.field(message.receipt_handle, "ReceiptHandle")?,
                    body: message.body.unwrap_or_default(),
                    sent_at: sent.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
                })
            })
            .collect()
    }

    async fn delete_message(&self, queue: &QueueUrl, receipt: &str) -> Result<()> {
        let call = Call::new("DeleteMessage", queue.as_str());
        self.0
            .delete_message()
            .queue_url(queue.as_str())
            .receipt_handle(receipt)
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn send_message(&self, queue: &QueueUrl, body: &str) -> Result<()> {
        let call = Call::new("SendMessage", queue.as_str());
        self.0
            .send_message()
            .queue_url(queue.as_str())
            .message_body(body)
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }
}

fn to_sdk(attributes: &Attributes) -> HashMap<QueueAttributeName, String> {
    attributes.iter().map(|(name, value)| (QueueAttributeName::from(name.as_str()), value.clone())).collect()
}
