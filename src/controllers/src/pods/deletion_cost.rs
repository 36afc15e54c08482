//! `pod.deletioncost`: writes what it costs to delete each pod of a ReplicaSet, so that a scale-in deletes the pods of nodes
//! that go next (core #2894). Only with the feature gate `PodDeletionCostManagement`.
//!
//! Looks when the cluster has changed, at most every minute and at least every five. A value that another client writes
//! is overwritten or removed. What cannot be written is tried again with the next look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use karpenter_engine::disrupt::deletion_cost::{GOING, Repricing, Repricings, repricings};
use karpenter_kube_harness::{compute, write};
use karpenter_model::names::annotation;
use karpenter_model::{PodKey, PodUid, PoolName};
use karpenter_telemetry::metrics::Series;
use karpenter_telemetry::observe::{self, Chain, Outcome};
use kube::Api;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{Context, Error};

const NAME: &str = "pod.deletioncost";

/// Least time between two looks: each costs a write for every pod whose node has moved in the order.
const LEAST: Duration = Duration::from_mins(1);
/// Longest time without a look: budgets open and close although nothing changes.
const MOST: Duration = Duration::from_mins(5);
/// Most nodes whose pods are written within one look, besides those that go already: bounds the burst on the API server.
const NODES: usize = 50;
/// Writes at a time.
const FAN_OUT: usize = 10;

/// Starts the controller, if the gate is open.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    if context.settings.decisions.gates.pod_deletion_cost_management {
        tasks.spawn(run(context.clone(), shutdown.clone()));
    }
}

async fn run(context: Context, shutdown: CancellationToken) {
    let mut controller = Controller::of(context);
    let mut ticks = interval(LEAST);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let metrics = std::sync::Arc::clone(&controller.context.metrics);
        // Failures are logged and counted by the wrapper, and the next look tries again.
        let _reported = observe::pass(&metrics, NAME, "", |outcome| outcome.again(), controller.pass()).await;
    }
}

/// State kept from look to look.
struct Controller {
    context: Context,
    /// The state that was looked at last, and when.
    last: Option<(u64, Instant)>,
    /// Nodes whose pods still have to be written, by pool.
    pending: Series<1>,
}

impl Controller {
    fn of(context: Context) -> Self {
        let pending = Series::new(&context.metrics.pods.nodes_with_pending_deletion_costs);
        Self { context, last: None, pending }
    }

    async fn pass(&mut self) -> Result<Outcome, Error> {
        let Some(snapshot) = self.context.snapshot() else { return Ok(Outcome::Waiting) };
        let revision = snapshot.revision;
        if self.last.is_some_and(|(seen, at)| seen == revision && at.elapsed() < MOST) {
            return Ok(Outcome::Skipped);
        }
        let wanted = compute::beside(move || repricings(&snapshot)).await;
        self.last = Some((revision, Instant::now()));
        let Repricings { nodes, unchanged } = wanted;
        let unchanged = u64::try_from(unchanged).unwrap_or(u64::MAX);
        self.context.metrics.pods.deletion_cost_writes_total.add(["skipped_unchanged"], unchanged);
        let (now, later) = first(nodes);
        self.show(&later);
        let pods = now.into_iter().flat_map(|node| node.pods.into_iter().map(move |pod| (pod, node.cost)));
        let writes: Vec<_> = pods.map(|(pod, cost)| write_one(&self.context, pod, cost)).collect();
        if writes.is_empty() {
            return Ok(Outcome::Skipped);
        }
        let results: Vec<_> = stream::iter(writes).buffer_unordered(FAN_OUT).collect().await;
        Error::combined(results.into_iter().filter_map(Result::err).collect()).map(|()| Outcome::Applied)
    }

    /// Publishes how many nodes of each pool are left for the next look.
    fn show(&self, later: &[Repricing]) {
        let mut pools: BTreeMap<PoolName, u32> = BTreeMap::new();
        for pool in later.iter().filter_map(|node| node.pool.clone()) {
            *pools.entry(pool).or_default() += 1;
        }
        let known: BTreeSet<String> =
            self.context.view.pools().iter().map(|pool| pool.model.name.to_string()).collect();
        for pool in &known {
            let nodes = pools.get(&PoolName::from(pool.as_str())).copied().unwrap_or_default();
            self.pending.replace(pool, [([pool.clone()], f64::from(nodes))]);
        }
        self.pending.retain(|pool| known.contains(pool));
    }
}

/// The nodes of one look, and those that are left for the next ones.
fn first(nodes: Vec<Repricing>) -> (Vec<Repricing>, Vec<Repricing>) {
    let (mut now, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| node.cost == Some(GOING));
    let mut others = others.into_iter();
    now.extend(others.by_ref().take(NODES));
    (now, others.collect())
}

/// Writes or removes the cost of one pod. One that is gone or another one by now is left to the next look.
async fn write_one(context: &Context, (key, uid): (PodKey, PodUid), cost: Option<i32>) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), key.namespace.as_str());
    let value = cost.map(|cost| cost.to_string());
    let change =
        json!({"metadata": {"uid": uid.as_str(), "annotations": {annotation::POD_DELETION_COST: value}}});
    let written = write::merge(&api, key.name.as_str(), &change).await;
    let result = match &written {
        Ok(Some(_)) => "updated",
        Ok(None) => "skipped_notfound",
        Err(error) if error.is_conflict() => "skipped_conflict",
        Err(error) => {
            tracing::debug!(pod = %key, error = %Chain(error), "cannot write the deletion cost, trying again");
            "error"
        }
    };
    context.metrics.pods.deletion_cost_writes_total.inc([result]);
    match written {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32, cost: Option<i32>) -> Repricing {
        Repricing { node: format!("n{number}").as_str().into(), pool: None, cost, pods: Vec::new() }
    }

    #[test]
    fn fifty_nodes_are_written_within_one_look_besides_those_that_go() {
        let going = (0..5).map(|number| node(number, Some(GOING)));
        let ranked = (5..65).map(|number| node(number, Some(-1)));
        let (now, later) = first(going.chain(ranked).collect());
        assert_eq!((now.len(), later.len()), (55, 10));
        assert_eq!(later[0], node(55, Some(-1)), "in their order");
        let (now, later) = first(later);
        assert_eq!((now.len(), later.len()), (10, 0));
    }
}
