//! Launches that do not wait for the end of a batch: nodes that are full, and that pods which come later could hardly make
//! cheaper. Everything else is planned when the batch is complete, as the contract requires.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_kube_harness::compute;
use karpenter_telemetry::observe::Outcome;

use super::{Known, Memory, apply, known, most};
use crate::{Context, Error};

/// Plans for the pods that have come since `batch_opened`, and launches what is certain of it.
pub(super) async fn launch(
    context: &Context,
    memory: &Memory,
    batch_opened: Timestamp,
) -> Result<Outcome, Error> {
    let Some(Known { snapshot, .. }) = known(context, memory).await else { return Ok(Outcome::Waiting) };
    // A backlog is planned in slices; the pass picks the next one.
    if memory.promises.are_being_kept(context, &snapshot) || snapshot.pending.len() > most(&snapshot) {
        return Ok(Outcome::Skipped);
    }
    let snapshot = Arc::new(snapshot);
    let input = Arc::clone(&snapshot);
    let (mut plan, certain, is_sound) = compute::beside(move || {
        let (plan, _report, certain) = karpenter_engine::plan_ahead(&input);
        let is_sound = certain.is_empty() || karpenter_audit::sound_part(&input, &plan).is_none();
        (plan, certain, is_sound)
    })
    .await;
    // The pass at the end of the batch reports what the audit finds.
    if certain.is_empty() || !is_sound {
        return Ok(Outcome::Skipped);
    }
    plan.launches.retain(|launch| certain.contains(&launch.bin));
    let pods: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    tracing::info!(
        pods,
        nodeclaims = plan.launches.len(),
        "launching full node(s) while pods are still collected"
    );
    let now = context.now();
    let times = apply::Times { batch_opened, batch_closed: now, planned: now };
    Ok(apply::apply(context, &memory.promises, &snapshot, &plan, times).await)
}
