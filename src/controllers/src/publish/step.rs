//! Publishes the events and the milestones of a step: as events, metrics and log lines.

use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_lifecycle::step::{About, Effect, Event, Milestone, PodRef, RebootResult};
use karpenter_model::claim::termination_mode;
use karpenter_model::names::label;
use karpenter_model::{Claim, NodeObject, PoolName};
use karpenter_telemetry::events::{self, ObjectRef, Reason, Severity, reason};
use karpenter_telemetry::metrics::Metrics;

use crate::Context;
use crate::explain::Step;

/// Publishes the events among `effects`; other effects are the caller's.
pub(crate) fn publish_events(context: &Context, effects: impl IntoIterator<Item = Effect>) {
    for effect in effects {
        if let Effect::Event(event) = effect {
            publish_event(context, &event);
        }
    }
}

/// Publishes one event, if its object is still known.
pub(crate) fn publish_event(context: &Context, event: &Event) {
    let Some(object) = context.object(&event.about) else { return };
    let reason =
        reason::find(event.reason).unwrap_or_else(|| Reason::unlisted(event.reason, Severity::Warning));
    let published = events::Event::new(object, reason, event.message.as_str());
    let published = match &event.topic {
        Some(topic) => published.distinguished_by(topic),
        None => published,
    };
    context.recorder.publish(published);
}

impl Context {
    /// The object an event is about, if it is still known.
    pub(crate) fn object(&self, about: &About) -> Option<ObjectRef> {
        match about {
            About::Claim(name) => {
                let uid = self.view.claim(name)?.model.uid.to_string();
                Some(ObjectRef::cluster_scoped("karpenter.sh/v1", "NodeClaim", name.to_string(), uid))
            }
            About::Pool(name) => self.pool_object(name),
            // Node events carry the name as uid, where `kubectl describe node` looks for them.
            About::Node(name) => {
                Some(ObjectRef::cluster_scoped("v1", "Node", name.to_string(), name.to_string()))
            }
            About::Pod(pod) => Some(pod_object(pod)),
        }
    }

    /// A pool as the object of an event, if it is still known.
    pub fn pool_object(&self, name: &PoolName) -> Option<ObjectRef> {
        let uid = self.view.pool(name)?.model.uid.to_string();
        Some(ObjectRef::cluster_scoped("karpenter.sh/v1", "NodePool", name.to_string(), uid))
    }
}

/// A pod as the object of an event.
pub(crate) fn pod_object(pod: &PodRef) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(pod.key.namespace.to_string()),
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
    }
}

/// Counts a claim that is deleted because its node showed `condition` for too long.
pub(crate) fn unhealthy(metrics: &Metrics, claim: &Claim, condition: &str) {
    let label = |key: &str| claim.labels.get(key).map_or("", |value| value.as_str());
    let image = claim.image_id.as_ref().map_or("", |image| image.as_str());
    let (pool, capacity_type) = (label(label::NODE_POOL), label(label::CAPACITY_TYPE));
    let labels = [
        &snake_case(condition),
        pool,
        capacity_type,
        image,
        termination_mode(claim.termination_grace_period),
    ];
    metrics.nodeclaims.unhealthy_disrupted_total.inc(labels);
}

/// Counts and logs a milestone, once its effects are written. Values that the claim lacks may be on its Node.
pub(crate) fn record_milestone(
    context: &Context,
    claim: Option<&Claim>,
    node: Option<&NodeObject>,
    milestone: &Milestone,
) {
    let metrics = &context.metrics;
    let label = |key: &str| {
        let of_claim = claim.and_then(|claim| claim.labels.get(key));
        of_claim.or_else(|| node?.labels.get(key)).map_or("", |value| value.as_str())
    };
    let (pool, zone, capacity_type) =
        (label(label::NODE_POOL), label(label::ZONE), label(label::CAPACITY_TYPE));
    let reached = |step| {
        if let Some(claim) = claim {
            context.explanations.reached(&claim.name, step, context.now());
        }
    };
    match milestone {
        Milestone::Launched(id) => {
            reached(Step::Launched);
            tracing::info!(
                "provider-id" = %id,
                "instance-type" = label(label::INSTANCE_TYPE),
                zone,
                "capacity-type" = capacity_type,
                "launched nodeclaim"
            );
        }
        Milestone::Registered(node) => {
            reached(Step::Registered);
            tracing::info!(node = %node, "registered nodeclaim");
            metrics.nodes.created_total.inc([pool, zone]);
        }
        Milestone::Initialized(node) => {
            reached(Step::Initialized);
            tracing::info!(node = %node, "initialized nodeclaim");
        }
        Milestone::Unhealthy { node, condition } => {
            tracing::info!(node = %node, condition, "deleting unhealthy node");
            if let Some(claim) = claim {
                unhealthy(metrics, claim, condition);
            }
        }
        Milestone::TimedOut(cause, timeout) => tracing::debug!(
            reason = cause.label(),
            timeout = ?timeout,
            "terminating due to timeout"
        ),
        Milestone::Tainted(node) => tracing::info!(node = %node, "tainted node"),
        Milestone::Drained(node) => {
            tracing::debug!(node = %node, "drained node");
            metrics.nodes.drained_total.inc([pool]);
        }
        Milestone::InstanceGone(elapsed) => {
            metrics.nodeclaims.instance_termination_duration_seconds.observe([pool], *elapsed);
        }
        Milestone::NodeDeleted { node, terminating, lifetime } => {
            tracing::info!(node = %node, "deleted node");
            metrics.nodes.terminated_total.inc([pool, zone]);
            metrics.nodes.termination_duration_seconds.observe([pool], *terminating);
            metrics.nodes.lifetime_duration_seconds.observe([pool], *lifetime);
        }
        Milestone::ClaimDeleted(elapsed) => {
            tracing::info!("deleted nodeclaim");
            metrics.nodeclaims.termination_duration_seconds.observe([pool], *elapsed);
            metrics.nodeclaims.terminated_total.inc([pool, capacity_type, zone]);
        }
        Milestone::Rebooted { result, took, recovery } => {
            rebooted(metrics, *result, *took, *recovery);
        }
        Milestone::DeadlineSet(deadline) => tracing::info!(%deadline, "annotated nodeclaim"),
    }
}

/// Counts a reboot that has ended.
fn rebooted(metrics: &Metrics, result: RebootResult, took: Duration, recovery: Option<Duration>) {
    tracing::info!(result = result.as_str(), took = ?took, "reboot has ended");
    metrics.nodes.reboots_total.inc([result.as_str()]);
    metrics.nodes.reboot_duration_seconds.observe([result.as_str()], took);
    if let Some(recovery) = recovery {
        metrics.nodes.reboot_recovery_duration_seconds.observe([], recovery);
    }
}

/// `AcceleratedHardwareReady` as `accelerated_hardware_ready`.
fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for letter in camel.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// The label of a NodeClaim, empty when it has none.
pub(crate) fn label_of<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}
