//! `nodeoverlay.controller`: decides which NodeOverlays are in force and writes that to their status (spec scheduling 24).
//! Only with the feature gate `NodeOverlay`.
//!
//! Every change of an overlay, of a pool or of a node class has everything evaluated again, one pass at a
//! time. A pool whose types cannot be had is left out and tried again soon; until then nothing is planned or
//! launched for it. The result is put in force as a whole, once the conditions of every overlay are written.

mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use karpenter_api::NodeOverlay;
use karpenter_cloud::overlay::{Sight, judge, labels_of};
use karpenter_kube_harness::compute;
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_kube_harness::write::{self, locked};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cloud;
use crate::reconciler::{Reconciler, start};
use crate::triggers::Triggers;
use crate::view::KnownPool;
use crate::{Context, Error, Settings};
use verdict::Verdicts;

const NAME: &str = "nodeoverlay.controller";

/// Period in which everything is evaluated although nothing has changed.
const PERIOD: Duration = Duration::from_hours(6);

/// Starts the controller, if the gate is open. `triggers` asks for plans when other overlays are in force.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    context: &Context,
    triggers: Triggers,
    shutdown: &CancellationToken,
) {
    if !context.settings.decisions.gates.node_overlay {
        return;
    }
    let evaluation = Evaluation { triggers };
    tasks.spawn(start(evaluation, context, shutdown, |queue| {
        queue.add(Everything);
        context.view.subscribers().specs(move || queue.add(Everything));
    }));
}

struct Evaluation {
    triggers: Triggers,
}

/// The only key: whatever changes, everything is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Everything;

impl fmt::Display for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all")
    }
}

impl Reconciler for Evaluation {
    type Key = Everything;
    type Error = Error;

    fn spec(&self, _settings: &Settings) -> Spec {
        Spec::new(NAME, 1)
    }

    async fn pass(&self, context: &Context, _key: &Everything) -> Result<Done, Error> {
        evaluate(context, &self.triggers).await
    }
}

async fn evaluate(context: &Context, triggers: &Triggers) -> Result<Done, Error> {
    // Before the first list there is nothing to judge; its end brings the next pass.
    let Some(objects) = context.view.overlays() else { return Ok(Done::idle()) };
    let pools = context.view.pools();
    let sights: Vec<Sight> =
        join_all(pools.iter().map(|pool| sight(context, pool))).await.into_iter().flatten().collect();
    let complete = sights.len() == pools.len();
    let (verdicts, valid) = Verdicts::of(&objects, context.view.registry());
    let registry = context.provider.label_registry();
    let judged = compute::beside(move || judge(valid, &sights, &registry)).await;
    let verdicts = verdicts.joined_by(&judged.conflicts);
    for object in &objects {
        if !write_verdict(context, object, &verdicts).await? {
            // Another client has changed it: what was judged is out of date.
            return Ok(Done::idle().after(Duration::ZERO));
        }
    }
    context.provider.preview_prices(judged.overlays.previews());
    let changed = context.view.put_in_force(judged.overlays);
    if changed {
        triggers.overlays();
    }
    let done = if changed { Done::applied() } else { Done::idle() };
    // A pool whose types were not known waits for its overlays, and is planned for as soon as they are
    // evaluated.
    Ok(if complete { done.after(PERIOD) } else { done.backoff() })
}

/// The types of a pool without overlays; `None` when they cannot be had, which the planning passes report.
async fn sight(context: &Context, pool: &KnownPool) -> Option<Sight> {
    let asked = context.provider.instance_types(&pool.model);
    let types = cloud::call(context, NAME, "GetInstanceTypes", asked).await;
    let types = types.inspect_err(|error| {
        tracing::debug!(nodepool = %pool.model.name, %error, "skipped pool, instance types unknown");
    });
    let labels = labels_of(&pool.model, context.view.registry());
    Some(Sight { pool: pool.model.name.clone(), labels, types: types.ok()? })
}

/// Writes the verdict on an overlay into its conditions; false when the overlay has changed meanwhile.
async fn write_verdict(
    context: &Context,
    object: &Arc<NodeOverlay>,
    verdicts: &Verdicts,
) -> Result<bool, Error> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let before = object.status.clone().unwrap_or_default();
    let after = verdicts.written(object, context.now());
    if before == after {
        return Ok(true);
    }
    let api = context.all::<NodeOverlay>();
    let patch = locked(&**object, json!({"status": {"conditions": after.conditions}}));
    let present = match write::merge_status(&api, name, &patch).await {
        Ok(Some(written)) => {
            context.view.put_overlay(written);
            return Ok(true);
        }
        Ok(None) => None,
        Err(error) if error.is_conflict() => write::read(&api, name).await?,
        Err(error) => return Err(error.into()),
    };
    match present {
        Some(object) => context.view.put_overlay(object),
        None => context.view.remove_overlay(object),
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
