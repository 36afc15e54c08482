//! `nodepool.counter`: writes what a pool's nodes add up to into its status, every five seconds if it changed, and
//! publishes what they cost. Machines are counted once for each revision of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::{NodePool, resource_map};
use karpenter_kube_harness::write;
use karpenter_lifecycle::pool::status::{cost, counter};
use karpenter_model::{Node, NodeId, PoolName, Price, Resources, Snapshot};
use karpenter_telemetry::metrics::Series;
use karpenter_telemetry::observe::{self, Outcome};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::departed::Departed;
use crate::publish::{resource_type, units};
use crate::view::KnownPool;
use crate::{Context, Error};

const NAME: &str = "nodepool.counter";

/// Runs until `shutdown`.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    let mut published = Published {
        limit: Series::new(&context.metrics.nodepools.limit),
        usage: Series::new(&context.metrics.nodepools.usage),
        cost: Series::new(&context.metrics.nodepools.cost_total),
        unpriced: BTreeMap::new(),
        counted: Counted::default(),
        departed: Departed::default(),
    };
    let mut ticks = interval(counter::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // Failures are logged and counted by the wrapper, and the next tick tries again.
        let _reported = observe::pass(
            &context.metrics,
            NAME,
            "",
            |outcome| outcome.again(),
            pass(&context, &mut published),
        )
        .await;
    }
}

struct Published {
    limit: Series<2>,
    usage: Series<2>,
    cost: Series<1>,
    /// Machines whose price was not known the last time.
    unpriced: BTreeMap<PoolName, BTreeSet<NodeId>>,
    counted: Counted,
    departed: Departed,
}

/// Sums over the machines of a snapshot.
#[derive(Default)]
struct Counted {
    /// Revision of the snapshot.
    revision: Option<u64>,
    pools: BTreeMap<PoolName, counter::Count>,
    /// Pools of machines, whether there are pools of these names or not.
    with_machines: BTreeSet<PoolName>,
}

async fn pass(context: &Context, published: &mut Published) -> Result<Outcome, Error> {
    let Some(snapshot) = context.snapshot() else { return Ok(Outcome::Waiting) };
    context.metrics.cluster_state.node_count.set_count([], snapshot.nodes.len());
    let pools = context.view.pools();
    if published.counted.revision != Some(snapshot.revision) {
        count(context, published, &snapshot, &pools);
    }
    let (mut outcome, mut errors) = (Outcome::Skipped, Vec::new());
    for pool in &pools {
        let Some(count) = published.counted.pools.get(&pool.model.name) else { continue };
        match write(context, pool, count).await {
            Ok(true) => outcome = Outcome::Applied,
            Ok(false) => {}
            Err(error) => errors.push(error),
        }
    }
    let known = |object: &str| pools.iter().any(|pool| pool.model.name.as_str() == object);
    published.limit.retain(known);
    published.usage.retain(known);
    published.cost.retain(known);
    published.unpriced.retain(|pool, _| known(pool.as_str()));
    let with_machines = published.counted.with_machines.iter();
    // A pool that is gone keeps its series while machines of it end, or their last counts would be lost.
    let present = pools.iter().map(|pool| &pool.model.name).chain(with_machines).cloned();
    for pool in published.departed.look(present.collect(), snapshot.now) {
        context.metrics.forget_pool(pool.as_str());
    }
    Error::combined(errors).map(|()| outcome)
}

/// Counts the machines of `snapshot`, and publishes what they are and cost.
fn count(context: &Context, published: &mut Published, snapshot: &Snapshot, pools: &[KnownPool]) {
    let mut machines: BTreeMap<PoolName, Vec<&Node>> = BTreeMap::new();
    for node in &snapshot.nodes {
        if let Some(pool) = node.pool() {
            machines.entry(pool).or_default().push(node);
        }
    }
    let mut counted = Counted { revision: Some(snapshot.revision), ..Counted::default() };
    for pool in pools {
        let name = &pool.model.name;
        let nodes = machines.get(name).map_or(&[][..], Vec::as_slice);
        let count = counter::count(name, nodes.iter().copied());
        publish(context, published, pool, &count.resources);
        publish_cost(context, published, name, nodes, snapshot);
        counted.pools.insert(name.clone(), count);
    }
    counted.with_machines = machines.into_keys().collect();
    published.counted = counted;
}

async fn write(context: &Context, pool: &KnownPool, count: &counter::Count) -> Result<bool, Error> {
    let resources = resource_map(&count.resources);
    let status = pool.object.status.clone().unwrap_or_default();
    if status.resources.as_ref() == Some(&resources) && status.nodes == count.nodes {
        return Ok(false);
    }
    // A resource that is gone has to be removed by name: a merge patch only adds.
    let gone = status.resources.into_iter().flatten().filter(|(name, _)| !resources.contains_key(name));
    let mut patched: serde_json::Map<_, _> = gone.map(|(name, _)| (name, serde_json::Value::Null)).collect();
    patched.extend(resources.iter().map(|(name, quantity)| (name.clone(), json!(quantity))));
    let patch = json!({"status": {"resources": patched, "nodes": count.nodes}});
    let name = pool.model.name.as_str();
    match write::merge_status(&context.all::<NodePool>(), name, &patch).await? {
        Some(pool) => context.view.put_pool(pool),
        None => return Ok(false),
    }
    Ok(true)
}

fn publish(context: &Context, published: &Published, pool: &KnownPool, used: &Resources) {
    if !context.settings.cluster_state_observability {
        return;
    }
    let name = pool.model.name.as_str();
    let samples = |resources: &Resources| -> Vec<_> {
        let row = |(resource, quantity): (&karpenter_model::ResourceName, &karpenter_model::Quantity)| {
            ([resource_type(resource), name.to_owned()], units(*quantity))
        };
        resources.iter().map(row).collect()
    };
    published.usage.replace(name, samples(used));
    published.limit.replace(name, pool.model.limits.as_ref().map(&samples).unwrap_or_default());
}

/// The cost of a pool, and one error for every machine whose price has become unknown.
fn publish_cost(
    context: &Context,
    published: &mut Published,
    pool: &PoolName,
    nodes: &[&Node],
    snapshot: &Snapshot,
) {
    let Some(types) = snapshot.instance_types.get(pool) else { return };
    let cost = cost::cost(pool, nodes.iter().copied(), types, &snapshot.registry);
    let before = published.unpriced.insert(pool.clone(), cost.unpriced.clone()).unwrap_or_default();
    let errors = cost.unpriced.difference(&before).count();
    let metrics = &context.metrics.nodepools;
    metrics.cost_tracker_errors_total.add([pool.as_str()], u64::try_from(errors).unwrap_or(u64::MAX));
    if context.settings.cluster_state_observability {
        published.cost.replace(pool.as_str(), [([pool.to_string()], dollars(cost.total))]);
    }
}

/// Dollars, as a Prometheus sample.
#[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
fn dollars(price: Price) -> f64 {
    price.nanos() as f64 / 1e9
}
