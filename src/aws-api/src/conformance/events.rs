//! `EventBridge`, and its way into the queue.

use super::queue::{AT_ONCE, attributes};
use super::{Outcome, Subject, Violation, ensure, refused, same, tags};
use crate::Kind;
use crate::events::{Event, RuleSpec, Target};
use crate::id::{Arn, QueueUrl};

const PATTERN: &str = r#"{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}"#;

fn rule(name: &str) -> RuleSpec {
    RuleSpec {
        name: name.to_owned(),
        description: "conformance".to_owned(),
        pattern: PATTERN.to_owned(),
        tags: tags(&[("suite", "conformance")]),
    }
}

/// A queue that `EventBridge` may send to, with its ARN.
async fn open_queue(subject: &Subject, name: &str) -> Result<(QueueUrl, Arn), Violation> {
    let sqs = &subject.clients.sqs;
    let queue = sqs.create_queue(&subject.name(name), &attributes(&[]), &crate::Tags::new()).await?;
    let found = sqs.get_queue_attributes(&queue).await?;
    let arn = found.get("QueueArn").cloned().ok_or_else(|| Violation("queue has no ARN".to_owned()))?;
    let policy = format!(
        r#"{{"Version":"2008-10-17","Statement":[{{"Effect":"Allow","Principal":{{"Service":"events.amazonaws.com"}},"Action":"sqs:SendMessage","Resource":"{arn}"}}]}}"#
    );
    sqs.set_queue_attributes(&queue, &attributes(&[("Policy", &policy)])).await?;
    Ok((queue, arn.into()))
}

pub(super) async fn rules_live_and_die(subject: &Subject) -> Outcome {
    let events = &subject.clients.events;
    let name = subject.name("rule");
    let (queue, queue_arn) = open_queue(subject, "rule-queue").await?;
    let arn = events.put_rule(&rule(&name)).await?;
    let target = Target { id: "KarpenterInterruptionQueueTarget".to_owned(), arn: queue_arn };
    events.put_targets(&name, std::slice::from_ref(&target)).await?;
    same(&events.list_targets(&name).await?, &vec![target.clone()], "targets")?;
    same(&events.list_rules_sending_to(&target.arn).await?, &vec![name.clone()], "rules by target")?;
    let found = events.describe_rule(&name).await?;
    same(&found.arn, &arn, "ARN of the rule")?;
    ensure(found.enabled, || "a new rule is disabled".to_owned())?;
    same(&found.pattern.as_deref(), &Some(PATTERN), "pattern")?;
    let listed = events.list_rules(&name).await?;
    same(&listed.iter().map(|rule| &rule.name).collect(), &vec![&name], "rules with the prefix")?;
    events.tag_resource(&arn, &tags(&[("extra", "1")])).await?;
    events.untag_resource(&arn, &["suite".to_owned()]).await?;
    same(&events.list_tags(&arn).await?, &tags(&[("extra", "1")]), "tags of the rule")?;
    ensure(events.delete_rule(&name).await.is_err(), || "a rule with targets was deleted".to_owned())?;
    events.remove_targets(&name, std::slice::from_ref(&target.id)).await?;
    events.delete_rule(&name).await?;
    refused(events.describe_rule(&name).await, Kind::NotFound, "DescribeRule after DeleteRule")?;
    subject.clients.sqs.delete_queue(&queue).await?;
    Ok(())
}

pub(super) async fn matching_events_reach_the_queue(subject: &Subject) -> Outcome {
    let events = &subject.clients.events;
    let name = subject.name("notice");
    let (queue, queue_arn) = open_queue(subject, "notice-queue").await?;
    events.put_rule(&rule(&name)).await?;
    events.put_targets(&name, &[Target { id: "queue".to_owned(), arn: queue_arn }]).await?;
    let event = |detail_type: &str| Event {
        source: "aws.ec2".to_owned(),
        detail_type: detail_type.to_owned(),
        detail: r#"{"instance-id":"i-0123456789abcdef0"}"#.to_owned(),
        resources: Vec::new(),
    };
    events.put_event(&event("EC2 Instance Rebalance Recommendation")).await?;
    events.put_event(&event("EC2 Spot Instance Interruption Warning")).await?;
    let received = subject.clients.sqs.receive_messages(&queue, AT_ONCE).await?;
    same(&received.len(), &1, "messages in the queue")?;
    let body: serde_json::Value = serde_json::from_str(&received[0].body)
        .map_err(|error| Violation(format!("body is not JSON: {error}")))?;
    same(&body["source"].as_str(), &Some("aws.ec2"), "source")?;
    same(&body["version"].as_str(), &Some("0"), "version")?;
    same(&body["detail"]["instance-id"].as_str(), &Some("i-0123456789abcdef0"), "detail")?;
    events.remove_targets(&name, &["queue".to_owned()]).await?;
    events.delete_rule(&name).await?;
    subject.clients.sqs.delete_queue(&queue).await?;
    Ok(())
}
