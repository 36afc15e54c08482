//! The interruption queue behind the port: what a controller does with it is receiving and deleting.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_aws_api::id::QueueUrl;
use karpenter_aws_api::sqs::{Attributes, Message, ReceiveOptions, Sqs};
use karpenter_aws_api::{Result, Tags};

use super::AwsPort;

#[derive(Debug)]
pub(super) struct Port {
    pub(super) port: AwsPort,
    pub(super) inner: Arc<dyn Sqs>,
}

#[async_trait]
impl Sqs for Port {
    async fn receive_messages(&self, queue: &QueueUrl, options: ReceiveOptions) -> Result<Vec<Message>> {
        let (inner, queue) = (Arc::clone(&self.inner), queue.clone());
        let act = async move { inner.receive_messages(&queue, options).await };
        self.port.call("ReceiveMessage", act).await
    }

    async fn delete_message(&self, queue: &QueueUrl, receipt: &str) -> Result<()> {
        let (inner, queue, receipt) = (Arc::clone(&self.inner), queue.clone(), receipt.to_owned());
        self.port.call("DeleteMessage", async move { inner.delete_message(&queue, &receipt).await }).await
    }

    async fn create_queue(&self, name: &str, attributes: &Attributes, tags: &Tags) -> Result<QueueUrl> {
        self.inner.create_queue(name, attributes, tags).await
    }

    async fn get_queue_url(&self, name: &str) -> Result<QueueUrl> {
        self.inner.get_queue_url(name).await
    }

    async fn get_queue_attributes(&self, queue: &QueueUrl) -> Result<Attributes> {
        self.inner.get_queue_attributes(queue).await
    }

    async fn set_queue_attributes(&self, queue: &QueueUrl, attributes: &Attributes) -> Result<()> {
        self.inner.set_queue_attributes(queue, attributes).await
    }

    async fn list_queue_tags(&self, queue: &QueueUrl) -> Result<Tags> {
        self.inner.list_queue_tags(queue).await
    }

    async fn tag_queue(&self, queue: &QueueUrl, tags: &Tags) -> Result<()> {
        self.inner.tag_queue(queue, tags).await
    }

    async fn untag_queue(&self, queue: &QueueUrl, keys: &[String]) -> Result<()> {
        self.inner.untag_queue(queue, keys).await
    }

    async fn delete_queue(&self, queue: &QueueUrl) -> Result<()> {
        self.inner.delete_queue(queue).await
    }

    async fn send_message(&self, queue: &QueueUrl, body: &str) -> Result<()> {
        self.inner.send_message(queue, body).await
    }
}
