//! `nodepool.readiness`: whether a pool is valid and its node class ready, which together make it ready; and the
//! return of its registration health to unknown when pool or class have changed.

use std::time::Duration;

use karpenter_api::{Condition, ConditionStatus, NodePool};
use karpenter_kube_harness::queue::{Done, Spec};
use karpenter_kube_harness::write::{self, locked};
use karpenter_lifecycle::pool::status::health::{Generations, outdated};
use karpenter_lifecycle::pool::status::readiness::NodeClass;
use karpenter_model::PoolName;
use karpenter_model::names::{condition, reason};
use serde_json::json;

use crate::pass::conditions::{failing, judge, open};
use crate::reconciler::Reconciler;
use crate::view::KnownPool;
use crate::{Context, Error, Settings};

const NAME: &str = "nodepool.readiness";

/// The reconciler.
pub(crate) struct Readiness;

impl Reconciler for Readiness {
    type Key = PoolName;
    type Error = Error;

    fn spec(&self, settings: &Settings) -> Spec {
        Spec::new(NAME, settings.concurrency(10, 1000))
    }

    async fn pass(&self, context: &Context, name: &PoolName) -> Result<Done, Error> {
        reconcile(context, name).await
    }
}

async fn reconcile(context: &Context, name: &PoolName) -> Result<Done, Error> {
    let Some(pool) = context.view.pool(name) else { return Ok(Done::idle()) };
    if !context.view.classes_listed() {
        // Before the first list an absent class means nothing; its arrival brings the next pass.
        return Ok(Done::idle().after(Duration::from_secs(1)));
    }
    let before = pool.object.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let class = context.view.class(&pool.model.template.node_class);
    let mut conditions = open(&mut after.conditions, &pool.object, context);
    let problems = pool.object.problems(context.view.registry());
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let class_generation = class.as_ref().map_or(0, |class| class.generation);
    let state = class.as_ref().map_or(NodeClass::Missing, |class| class.state.clone());
    let _of_class = judge(&mut conditions, &problems, state);
    let seen = before.node_class_observed_generation.unwrap_or_default();
    // Without a class there is no generation to compare with (spec disruption 1.8).
    if class.is_some() && reset_needed(&pool, &before.conditions, class_generation, seen) {
        conditions.set_unknown(condition::NODE_REGISTRATION_HEALTHY, reason::AWAITING_RECONCILIATION, "");
        context.view.forget_registrations(&pool.model.uid);
        after.node_class_observed_generation = Some(class_generation);
    }
    if before == after {
        return Ok(Done::idle());
    }
    let patch = json!({"status": {
        "conditions": after.conditions,
        "nodeClassObservedGeneration": after.node_class_observed_generation,
    }});
    let patch = locked(&*pool.object, patch);
    if let Some(pool) = write::merge_status(&context.all::<NodePool>(), name.as_str(), &patch).await? {
        context.view.put_pool(pool);
        log_readiness(name, &before.conditions, &after.conditions);
    }
    Ok(Done::applied())
}

/// Logs when a pool becomes ready and when it stops being so, or never was.
fn log_readiness(name: &PoolName, before: &[Condition], after: &[Condition]) {
    let ready =
        |conditions: &[Condition]| conditions.iter().find(|one| one.kind == condition::READY).cloned();
    let (was, Some(is)) = (ready(before), ready(after)) else { return };
    if was.is_some_and(|was| was.status == is.status) && failing(before) == failing(after) {
        return;
    }
    match is.status {
        ConditionStatus::True => tracing::info!(nodepool = %name, "nodepool is ready"),
        ConditionStatus::False => {
            tracing::info!(nodepool = %name, because = failing(after), "nodepool is not ready");
        }
        // Not looked at as a whole yet.
        ConditionStatus::Unknown => {}
    }
}

fn reset_needed(pool: &KnownPool, conditions: &[Condition], class: i64, class_observed: i64) -> bool {
    let condition =
        conditions.iter().find(|condition| condition.kind == condition::NODE_REGISTRATION_HEALTHY);
    outdated(Generations {
        pool: pool.object.metadata.generation.unwrap_or_default(),
        observed: condition.and_then(|condition| condition.observed_generation),
        class,
        class_observed,
    })
}
