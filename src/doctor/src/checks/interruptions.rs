//! The interruption queue: whether notices can reach the controller (spec aws-operations 1.14).

use karpenter_model::names::tag::CLUSTER_NAME;

use super::object;
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity, aws};
use crate::facts::{Facts, Queue, Unseen};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-8",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Account,
        symptom: "the stack fails because the queue exists already",
        cause: "a queue with the cluster's name was left over, or belongs to another owner",
        fix: "`karpenter bootstrap check --cluster-name <cluster>` says whether it serves as it is; else take it over with `karpenter bootstrap apply --adopt`, or choose another one with --queue-name",
        look: Look::At(untagged_queue),
    },
    Check {
        id: "P-9",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "QueueDoesNotExist",
        cause: "the setting holds the queue's ARN or URL instead of its name",
        fix: "set the name: `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.interruptionQueue=<queue>`",
        look: Look::At(not_a_name),
    },
    Check {
        id: "P-10",
        also: &[],
        severity: Severity::Warning,
        scope: Scope::Cluster,
        symptom: "nodes are not drained before spot interruptions, and nothing complains",
        cause: "a queue exists, but the setting is empty: perhaps it is under a key that v1 charts do not read, such as interruptionQueueName",
        fix: "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.interruptionQueue=<queue>`",
        look: Look::At(unused_queue),
    },
    Check {
        id: "P-11",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "errors about the queue in a loop",
        cause: "the configured queue does not exist",
        fix: "`karpenter bootstrap apply --cluster-name <cluster>` makes it, or name another one: `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.interruptionQueue=<queue>`",
        look: Look::At(missing_queue),
    },
    Check {
        id: "P-12",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "some interruptions are lost",
        cause: "two clusters read the same queue; each message reaches one of them",
        fix: "give each cluster a queue of its own: `karpenter bootstrap apply --cluster-name <cluster> --queue-name <queue>`, then `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.interruptionQueue=<queue>`",
        look: Look::At(shared_queue),
    },
    Check {
        id: "D-39",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Cluster,
        symptom: "the interruption queue cannot be found, or never holds a message",
        cause: "the queue does not exist, the setting is not its name, or no rule sends to it",
        fix: "`karpenter bootstrap apply --cluster-name <cluster>`, then `helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.interruptionQueue=<queue>`",
        look: Look::Either(unfed_queue, &[aws(&["queuedoesnotexist"]), aws(&["nonexistentqueue"])]),
    },
];

/// The queue the controller is configured to read, by its name.
fn configured(facts: &Facts) -> Result<Option<String>, Unseen> {
    let text = facts.cluster.setting("INTERRUPTION_QUEUE")?;
    Ok(text.map(|text| queue_name(&text).to_owned()))
}

/// The name in a name, an ARN or a URL.
pub(crate) fn queue_name(text: &str) -> &str {
    text.rsplit(['/', ':']).next().unwrap_or(text)
}

/// Queues that exist.
fn existing(facts: &Facts) -> Result<Vec<(&String, &Queue)>, Unseen> {
    let queues = facts.account.queues.get()?;
    Ok(queues.iter().filter_map(|(name, queue)| Some((name, queue.as_ref()?))).collect())
}

fn untagged_queue(facts: &Facts) -> Outcome {
    // The reference's stack tags nothing; what gets events is in use, whichever tool made it.
    let is_left_over = |queue: &Queue| queue.rules.is_empty() && !queue.tags.contains_key(CLUSTER_NAME);
    // Nor is what the controller reads left over.
    let in_use = facts.cluster.deployments.if_asked()?.map(|_| configured(facts)).transpose()?.flatten();
    let found = existing(facts)?.into_iter();
    let found = found.filter(|(name, queue)| is_left_over(queue) && Some(*name) != in_use.as_ref());
    Ok(found
        .map(|(name, _)| {
            let seen = format!("has no tag {CLUSTER_NAME}, and no rule sends to it");
            Evidence::new(format!("queue {name}"), seen)
        })
        .collect())
}

fn not_a_name(facts: &Facts) -> Outcome {
    let Some(controller) = facts.cluster.controller()? else { return Ok(Vec::new()) };
    let setting = facts.cluster.setting("INTERRUPTION_QUEUE")?;
    let wrong = setting.filter(|text| text.contains([':', '/']));
    let seen =
        |text: String| format!("INTERRUPTION_QUEUE is `{text}`; the name would be `{}`", queue_name(&text));
    let object = object("Deployment", &controller.metadata);
    Ok(wrong.map(|text| Evidence::new(object, seen(text))).into_iter().collect())
}

fn unused_queue(facts: &Facts) -> Outcome {
    let Some(controller) = facts.cluster.controller()? else { return Ok(Vec::new()) };
    if configured(facts)?.is_some() {
        return Ok(Vec::new());
    }
    let ours = existing(facts)?.into_iter().filter(|(_, queue)| !queue.rules.is_empty());
    Ok(ours
        .map(|(name, _)| {
            let seen = format!("INTERRUPTION_QUEUE is not set, but queue `{name}` gets events");
            Evidence::new(object("Deployment", &controller.metadata), seen)
        })
        .collect())
}

fn missing_queue(facts: &Facts) -> Outcome {
    let Some(name) = configured(facts)? else { return Ok(Vec::new()) };
    let queues = facts.account.queues.get()?;
    let is_missing = queues.get(&name).is_some_and(Option::is_none);
    Ok(is_missing
        .then(|| Evidence::new(format!("queue {name}"), "SQS knows no such queue in this region"))
        .into_iter()
        .collect())
}

fn shared_queue(facts: &Facts) -> Outcome {
    let Some(name) = configured(facts)? else { return Ok(Vec::new()) };
    let queues = existing(facts)?;
    let owner =
        queues.iter().find(|(queue, _)| **queue == name).and_then(|(_, queue)| queue.tags.get(CLUSTER_NAME));
    Ok(owner
        .filter(|owner| **owner != facts.cluster_name)
        .map(|owner| Evidence::new(format!("queue {name}"), format!("belongs to cluster `{owner}`")))
        .into_iter()
        .collect())
}

fn unfed_queue(facts: &Facts) -> Outcome {
    let Some(name) = configured(facts)? else { return Ok(Vec::new()) };
    let unfed =
        existing(facts)?.into_iter().filter(|(queue, found)| **queue == name && found.rules.is_empty());
    Ok(unfed.map(|(name, _)| Evidence::new(format!("queue {name}"), "no rule sends to it")).collect())
}
