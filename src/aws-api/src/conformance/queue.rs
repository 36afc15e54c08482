//! SQS.

use std::time::Duration;

use super::{Outcome, Subject, ensure, refused, same, tags};
use crate::Kind;
use crate::id::QueueUrl;
use crate::sqs::{Attributes, ReceiveOptions};

/// Receive what is there, do not wait.
pub(super) const AT_ONCE: ReceiveOptions =
    ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: Duration::from_mins(1) };

/// Attributes by pairs.
pub(super) fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    tags(pairs)
}

pub(super) async fn queue_lives_and_dies(subject: &Subject) -> Outcome {
    let sqs = &subject.clients.sqs;
    let name = subject.name("queue");
    let wanted = attributes(&[("MessageRetentionPeriod", "300"), ("SqsManagedSseEnabled", "true")]);
    let queue = sqs.create_queue(&name, &wanted, &tags(&[("suite", "conformance")])).await?;
    let again = sqs.create_queue(&name, &wanted, &tags(&[("suite", "conformance")])).await?;
    same(&again, &queue, "queue created twice")?;
    same(&sqs.get_queue_url(&name).await?, &queue, "queue URL")?;
    sqs.set_queue_attributes(&queue, &attributes(&[("MessageRetentionPeriod", "600")])).await?;
    let found = sqs.get_queue_attributes(&queue).await?;
    same(&found.get("MessageRetentionPeriod"), &Some(&"600".to_owned()), "retention")?;
    ensure(found.get("QueueArn").is_some_and(|arn| arn.ends_with(&name)), || format!("no ARN in {found:?}"))?;
    sqs.tag_queue(&queue, &tags(&[("extra", "1")])).await?;
    sqs.untag_queue(&queue, &["suite".to_owned()]).await?;
    same(&sqs.list_queue_tags(&queue).await?, &tags(&[("extra", "1")]), "queue tags")?;
    sqs.delete_queue(&queue).await?;
    refused(sqs.get_queue_url(&name).await, Kind::NotFound, "GetQueueUrl after DeleteQueue")
}

pub(super) async fn messages_hide_while_handled(subject: &Subject) -> Outcome {
    let sqs = &subject.clients.sqs;
    let queue = sqs.create_queue(&subject.name("messages"), &attributes(&[]), &crate::Tags::new()).await?;
    sqs.send_message(&queue, "{\"hello\":\"world\"}").await?;
    let received = sqs.receive_messages(&queue, AT_ONCE).await?;
    same(&received.len(), &1, "messages received")?;
    same(&received[0].body, &"{\"hello\":\"world\"}".to_owned(), "body")?;
    let hidden = sqs.receive_messages(&queue, AT_ONCE).await?;
    ensure(hidden.is_empty(), || format!("a message being handled was delivered again: {hidden:?}"))?;
    sqs.delete_message(&queue, &received[0].receipt).await?;
    sqs.delete_queue(&queue).await?;
    Ok(())
}

pub(super) async fn missing_queue_is_not_found(subject: &Subject) -> Outcome {
    let sqs = &subject.clients.sqs;
    refused(sqs.get_queue_url(&subject.name("no-queue")).await, Kind::NotFound, "GetQueueUrl")?;
    let queue = sqs.create_queue(&subject.name("gone"), &attributes(&[]), &crate::Tags::new()).await?;
    let missing = QueueUrl::from(format!("{queue}-missing"));
    refused(sqs.receive_messages(&missing, AT_ONCE).await, Kind::NotFound, "ReceiveMessage")?;
    sqs.delete_queue(&queue).await?;
    Ok(())
}
