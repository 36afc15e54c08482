//! `capacitybuffer`: finds out what the pods of each capacity buffer are like and how many there are, and lets that
//! many virtual pods wait (spec scheduling 23). Only with the feature gate `CapacityBuffer`.
//!
//! Buffers are looked at when they change or the object they name appears, changes or goes, and every 30 seconds, for
//! lack of the right to watch. An API server that does not answer takes no room away: a buffer keeps what it
//! held before.

mod ask;
mod provisioned;
mod workloads;

use karpenter_api::conditions::Conditions;
use karpenter_api::{CapacityBuffer, CapacityBufferStatus, ConditionStatus};
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_kube_harness::write::{self, locked};
use karpenter_lifecycle::buffer::{self, CONFLICT_PERIOD, PERIOD, Unresolved};
use karpenter_lifecycle::step::ConditionValue;
use karpenter_model::BufferKey;
use karpenter_model::names::condition;
use kube::api::Api;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::pass::conditions;
use crate::reconciler::{Reconciler, start};
use crate::triggers::Triggers;
use crate::view::KnownBuffer;
use crate::{Context, Error, Settings};

pub(crate) use provisioned::{counted, provisioned};
use workloads::Workloads;

const NAME: &str = "capacitybuffer";

/// Starts the controller, if the gate is open; plans are asked for through `triggers`.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    triggers: &Triggers,
    context: &Context,
    shutdown: &CancellationToken,
) {
    if enabled(context) {
        let controller = Controller { triggers: triggers.clone(), workloads: Workloads::default() };
        tasks.spawn(start(controller, context, shutdown, |queue| context.view.subscribers().buffers(queue)));
    }
}

/// Returns whether buffers are looked at.
pub(crate) fn enabled(context: &Context) -> bool {
    context.settings.decisions.gates.capacity_buffer
}

struct Controller {
    triggers: Triggers,
    workloads: Workloads,
}

impl Reconciler for Controller {
    type Key = BufferKey;
    type Error = Error;

    fn spec(&self, _settings: &Settings) -> Spec {
        Spec::new(NAME, 10)
    }

    async fn pass(&self, context: &Context, key: &BufferKey) -> Result<Done, Error> {
        let known = context.view.buffer(key);
        let Some(known) = known.filter(|known| known.object.metadata.deletion_timestamp.is_none()) else {
            self.workloads.forget(key);
            // Its machines may be empty now, which the next plan finds out.
            context.view.buffer_asked(key, Some(Vec::new()));
            self.triggers.buffer(key);
            return Ok(Done::idle());
        };
        // Before the workload is read: a change while it is read brings another look.
        self.workloads.follow(context, key, &known);
        let resolution = match ask::resolve(context, key, &known).await {
            Ok(resolution) => resolution,
            Err(error) => {
                context.view.buffer_asked(key, None);
                let unknown = unanswered(&known, &error);
                if let Some(unresolved) = unknown {
                    publish(context, &known, &Err(unresolved)).await?;
                }
                return Err(error);
            }
        };
        let pods = resolution.as_ref().map(|found| found.pods.clone()).unwrap_or_default();
        let changed = context.view.buffer_asked(key, Some(pods));
        let published = publish(context, &known, &resolution).await?;
        if resolution.is_ok() || changed {
            self.triggers.buffer(key);
        }
        Ok(match (published, &resolution) {
            (Published::Not, _) => Done::idle().after(CONFLICT_PERIOD),
            (_, Err(unresolved)) if unresolved.backs_off() => Done::idle().backoff(),
            (Published::Written, _) => Done::applied().after(PERIOD),
            (Published::Same, _) => Done::idle().after(PERIOD),
        })
    }
}

/// Status to publish about a buffer when the API server does not answer: nothing, if it had answered before.
fn unanswered(known: &KnownBuffer, error: &Error) -> Option<Unresolved> {
    let status = known.object.status.as_ref();
    let ready = status.is_some_and(is_ready);
    (!ready).then(|| Unresolved::Unreadable(karpenter_telemetry::observe::Chain(error).to_string()))
}

/// Returns whether the status has the buffer resolved.
fn is_ready(status: &CapacityBufferStatus) -> bool {
    let ready = |one: &&karpenter_api::Condition| one.kind == condition::READY_FOR_PROVISIONING;
    status.conditions.iter().find(ready).is_some_and(|one| one.status == ConditionStatus::True)
}

/// The result of writing a status.
#[derive(Clone, Copy)]
enum Published {
    Same,
    Written,
    /// The object has changed or is gone.
    Not,
}

/// Writes the result into the status, if it differs.
async fn publish(
    context: &Context,
    known: &KnownBuffer,
    resolution: &Result<ask::Found, Unresolved>,
) -> Result<Published, Error> {
    let object = &*known.object;
    let mut status = object.status.clone().unwrap_or_default();
    let verdict = resolution.as_ref().err().map_or_else(buffer::resolved, Unresolved::verdict);
    if let Ok(found) = resolution {
        status.replicas = Some(i32::try_from(found.pods.len()).unwrap_or(i32::MAX));
        status.pod_template_generation = found.template_generation;
        status.pod_template_ref = object.spec.pod_template_ref.clone();
    }
    status.provisioning_strategy.clone_from(&object.spec.provisioning_strategy);
    set(context, object, &mut status, condition::READY_FOR_PROVISIONING, &verdict);
    store(context, object, &status).await
}

/// Sets a condition in `status`.
fn set(
    context: &Context,
    object: &CapacityBuffer,
    status: &mut CapacityBufferStatus,
    kind: &str,
    verdict: &ConditionValue,
) {
    let mut conditions = Conditions::without_root(&mut status.conditions, &object.metadata, context.now());
    conditions::set(&mut conditions, kind, verdict);
}

/// Writes `status`, if it is not what `object` has.
async fn store(
    context: &Context,
    object: &CapacityBuffer,
    status: &CapacityBufferStatus,
) -> Result<Published, Error> {
    if object.status.as_ref() == Some(status) {
        return Ok(Published::Same);
    }
    // Absent fields are sent as null, which removes them.
    let patch = json!({"status": {
        "conditions": status.conditions,
        "replicas": status.replicas,
        "podTemplateRef": status.pod_template_ref,
        "podTemplateGeneration": status.pod_template_generation,
        "provisioningStrategy": status.provisioning_strategy,
    }});
    let (namespace, name) = karpenter_kube_harness::watch::key(object);
    let api: Api<CapacityBuffer> = Api::namespaced(context.client.clone(), &namespace);
    match write::merge_status(&api, &name, &locked(object, patch)).await {
        Ok(Some(written)) => {
            context.view.put_buffer(written);
            Ok(Published::Written)
        }
        Ok(None) => Ok(Published::Not),
        Err(error) if error.is_conflict() => Ok(Published::Not),
        Err(error) => Err(error.into()),
    }
}
