//! The workloads. Each waits for an end state, fails if it does not come, and returns its own figures.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use karpenter_model::names::label;
use karpenter_testkit::world::wide::{self, OnHosts};
use serde_json::{Value, json};

use super::figures::Row;
use super::fresh;
use super::meter::count;
use super::moments::percentile;
use super::{BOUND, RUNNING, Run};
use crate::account::control::Notice;
use crate::manifests::{self, merged};
use crate::scenario::facts::instance_of;
use crate::scenario::test_namespace::{
    a_node_each, class_like_default, class_says, container, images, needs, refers_to, requiring,
};
use crate::scenario::watch;
use crate::wait;

const CPUS: &str = "karpenter.k8s.aws/instance-cpu";
/// Time without change after which a cluster counts as settled: longer than the controller takes from looking for a saving
/// (every 10 s) over its quiet time (30 s) and second look (15 s later) to the claim of a replacement.
const QUIET: Duration = Duration::from_mins(2);

/// A thousand pods of two sizes; then seven hundred, and every surplus machine is removed.
pub(super) async fn mixed(run: &Run<'_>) -> Result<Row> {
    run.test.ready_pool(run.name(), whenever_cheaper("5s")).await?;
    let each = run.sized(500);
    let pods = [("small", requesting("900m", "3100Mi")), ("large", requesting("3500m", "28Gi"))];
    let apps = pods.map(|(name, change)| App { name: name.to_owned(), replicas: each, change });
    out_and_in(run, &apps).await
}

/// Thirty applications of thirty pods and a few more, spread over zones; then seven tenths of the pods.
pub(super) async fn wide(run: &Run<'_>) -> Result<Row> {
    run.test.ready_pool(run.name(), whenever_cheaper("30s")).await?;
    let apps: Vec<App> = wide::apps().map(|app| one_of_many(app, run)).collect();
    out_and_in(run, &apps).await
}

fn one_of_many(app: wide::App, run: &Run<'_>) -> App {
    let wide::App { name, replicas, cpu_millis, memory_mib, on_hosts } = app;
    let alike = json!({"matchLabels": {"app": name}});
    let spread = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": alike});
    let mut spreads = vec![spread(label::ZONE)];
    let mut change = requesting(&format!("{cpu_millis}m"), &format!("{memory_mib}Mi"));
    match on_hosts {
        OnHosts::Any => {}
        OnHosts::Apart => change = merged(change, a_node_each(&name)),
        OnHosts::Spread => spreads.push(spread(label::HOSTNAME)),
    }
    let change = merged(change, json!({"spec": {"topologySpreadConstraints": spreads}}));
    App { name, replicas: run.sized(replicas), change }
}

/// A Deployment; `change` is a merge patch on its pod template.
struct App {
    name: String,
    replicas: usize,
    change: Value,
}

/// A pool of all usual machines, on demand, that is consolidated as soon as it could be cheaper.
fn whenever_cheaper(after: &str) -> Value {
    let machines = requiring(json!([
        needs("kubernetes.io/arch", &["amd64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
    ]));
    let policy = json!({"spec": {"disruption": {
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after,
    }}});
    merged(machines, policy)
}

/// All pods of `apps` start at once.
async fn burst(run: &Run<'_>, apps: &[App]) -> Result<Row> {
    let start = Instant::now();
    for app in apps {
        run.test.pods(&app.name, app.replicas, app.change.clone()).await?;
    }
    placed(run, apps.iter().map(|app| app.replicas).sum(), start).await
}

/// All pods run, since `start`; what was bought is compared with what one plan for all pods would have bought.
async fn placed(run: &Run<'_>, all: usize, start: Instant) -> Result<Row> {
    all_run(run, all).await?;
    let mut row = pods_per_second(run, all, start);
    row.insert("nodes".to_owned(), count(run.claims.ever()));
    compared(run, "", &mut row).await?;
    Ok(row)
}

/// All pods of `apps` start; then seven tenths of each are left, and everything that is too much goes. What is there is compared
/// with what one plan for what is left would buy.
async fn out_and_in(run: &Run<'_>, apps: &[App]) -> Result<Row> {
    let mut row = burst(run, apps).await?;
    settled(run, Instant::now()).await?;

    let (start, before) = (Instant::now(), run.pods.ever());
    let mut left = 0;
    for app in apps {
        let fewer = (app.replicas * 7).div_ceil(10);
        run.test.scale(&app.name, fewer).await?;
        left += fewer;
    }
    wait::until("pods to go", || async {
        let alive = run.pods.alive();
        Ok(if alive == left { Ok(()) } else { Err(format!("{alive} pods")) })
    })
    .await?;
    settled(run, Instant::now()).await?;
    all_run(run, left).await?;
    let last = run.claims.last_change().map_or(Duration::ZERO, |last| last.saturating_duration_since(start));
    row.insert("consolidated_seconds".to_owned(), last.as_secs_f64());
    row.insert("consolidated_nodes".to_owned(), count(run.claims.alive()));
    compared(run, "consolidated_", &mut row).await?;
    row.insert("pods_moved".to_owned(), count(run.pods.ever() - before));
    Ok(row)
}

/// Adds to `row` what the nodes of the namespace cost, and what one plan for all its pods would buy on its own.
async fn compared(run: &Run<'_>, prefix: &str, row: &mut Row) -> Result<()> {
    let planned = fresh::plan(&run.test).await?;
    let price = fresh::price(run.test.world).await?;
    row.extend([
        (format!("{prefix}price"), price),
        (format!("{prefix}planned_nodes"), count(planned.nodes)),
        (format!("{prefix}planned_price"), planned.price),
    ]);
    Ok(())
}

/// Five hundred pods that share no node.
pub(super) async fn apart(run: &Run<'_>) -> Result<Row> {
    run.test.ready_pool(run.name(), whenever_cheaper("5m")).await?;
    let change = merged(requesting("500m", "1Gi"), a_node_each("worker"));
    burst(run, &[App { name: "worker".to_owned(), replicas: run.sized(500), change }]).await
}

/// A thousand pods in three classes of priority, and of three sizes each.
pub(super) async fn priorities(run: &Run<'_>) -> Result<Row> {
    run.test.ready_pool(run.name(), whenever_cheaper("5m")).await?;
    let classes = [None, Some("system-cluster-critical"), Some("system-node-critical")];
    let sizes = [("400m", "700Mi"), ("1300m", "6Gi"), ("2700m", "11Gi")];
    let pairs = classes.iter().flat_map(|class| sizes.iter().map(move |size| (class, size)));
    let apps = pairs.enumerate().map(|(number, (class, (cpu, memory)))| {
        let change = merged(requesting(cpu, memory), json!({"spec": {"priorityClassName": class}}));
        App { name: format!("app-{number}"), replicas: run.sized(111), change }
    });
    burst(run, &apps.collect::<Vec<_>>()).await
}

/// A thousand pods of two sizes, a hundred a second.
pub(super) async fn arriving(run: &Run<'_>) -> Result<Row> {
    run.test.ready_pool(run.name(), whenever_cheaper("5m")).await?;
    let start = Instant::now();
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let each = run.sized(100);
    for number in 0..10 {
        second.tick().await;
        let change = if number % 2 == 0 { requesting("900m", "3100Mi") } else { requesting("3500m", "28Gi") };
        run.test.pods(&format!("app-{number}"), each, change).await?;
    }
    placed(run, each * 10, start).await
}

/// Five thousand pods, ten to a machine of four CPUs.
pub(super) async fn many(run: &Run<'_>) -> Result<Row> {
    let four_cpus = requiring(json!([
        needs("kubernetes.io/arch", &["amd64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        needs(CPUS, &["4"]),
    ]));
    run.test.ready_pool(run.name(), four_cpus).await?;
    let change = requesting("360m", "512Mi");
    burst(run, &[App { name: "worker".to_owned(), replicas: run.sized(5000), change }]).await
}

/// A class moves to another image, and a tenth of its nodes at a time may follow.
pub(super) async fn drift(run: &Run<'_>) -> Result<Row> {
    const OLD: &str = "al2023@v20260120";
    const NEW: &str = "al2023@v20260210";
    let (world, name) = (run.test.world, run.name());
    let class = |alias: &'static str| async move {
        class_like_default(world, name, json!({"amiSelectorTerms": [{"alias": alias}]})).await
    };
    manifests::apply_json(&world.client, class(OLD).await?).await?;
    class_says(world, name, ("Ready", "True", "Ready")).await?;
    let a_tenth = json!({"spec": {"disruption": {"budgets": [{"nodes": "10%"}]}}});
    run.test.ready_pool(name, merged(refers_to(name), a_tenth)).await?;
    let nodes = run.sized(100);
    run.test.pods("worker", nodes, a_node_each("worker")).await?;
    all_run(run, nodes).await?;
    let before = images(&run.test.claims().await?);

    let start = Instant::now();
    watch::at_most_leaving(&run.test, a_tenth_of(nodes), async {
        manifests::apply_json(&world.client, class(NEW).await?).await?;
        wait::until_within(LONG, "every node to have the other image", || async {
            let claims = run.test.claims().await?;
            let now: BTreeSet<String> = images(&claims);
            let done =
                claims.len() == nodes && now.len() == 1 && now.is_disjoint(&before) && !now.contains("");
            Ok(if done { Ok(()) } else { Err(format!("{} claims of {now:?}", claims.len())) })
        })
        .await
    })
    .await?;
    let took = start.elapsed().as_secs_f64();
    all_run(run, nodes).await?;
    Ok(row([("seconds", took), ("nodes_per_minute", 60.0 * count(nodes) / took)]))
}

/// EC2 takes back every spot node, all at once.
pub(super) async fn interruptions(run: &Run<'_>) -> Result<Row> {
    let spot = requiring(json!([
        needs("kubernetes.io/arch", &["amd64"]),
        needs(label::CAPACITY_TYPE, &["spot"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
        {"key": CPUS, "operator": "Lt", "values": ["9"]},
    ]));
    run.test.ready_pool(run.name(), spot).await?;
    let nodes = run.sized(200);
    run.test.pods("worker", nodes, a_node_each("worker")).await?;
    all_run(run, nodes).await?;
    let claims = run.test.claims().await?;
    ensure!(claims.len() == nodes, "{} claims for {nodes} pods that share no node", claims.len());
    let ids =
        claims.iter().filter_map(|claim| claim.status.as_ref()?.provider_id.as_deref().map(instance_of));

    let world = run.test.world;
    let (control, region, start) = (world.control()?, &world.environment.region, Instant::now());
    try_join_all(ids.map(|id| control.notify(Notice::SpotInterruption, region, id, None))).await?;
    wait::until_within(LONG, "every node to be another one", || async {
        let (gone, running) = (run.claims.gone_since(start).len(), run.pods.alive_at(RUNNING));
        let done = gone == nodes && running == nodes && run.pods.alive() == nodes;
        Ok(if done { Ok(()) } else { Err(format!("{gone} nodes have gone, {running} pods run")) })
    })
    .await?;
    let (again, gone) = (run.pods.since(start, RUNNING), run.claims.gone_since(start));
    Ok(row([
        ("running_again_p50_seconds", percentile(&again, 50)),
        ("running_again_p99_seconds", percentile(&again, 99)),
        ("gone_p50_seconds", percentile(&gone, 50)),
        ("gone_p99_seconds", percentile(&gone, 99)),
    ]))
}

/// Returns the number that may leave at once by a budget of 10 %, which is rounded up (spec disruption 3.4): replacements that
/// are ready count among the nodes of the pool, beside the nodes that leave for them.
fn a_tenth_of(nodes: usize) -> usize {
    (1..=nodes).find(|leaving| (nodes + leaving).div_ceil(10) <= *leaving).unwrap_or(nodes)
}

/// Longest time of many small steps in a row; each of them is far below what anything may take.
const LONG: Duration = Duration::from_mins(30);

async fn all_run(run: &Run<'_>, pods: usize) -> Result<()> {
    run.test.world.check_controller().await?;
    wait::until_within(LONG, &format!("{pods} pods to run"), || async {
        let (alive, running) = (run.pods.alive(), run.pods.alive_at(RUNNING));
        Ok(if alive == pods && running == pods { Ok(()) } else { Err(format!("{running} of {alive} run")) })
    })
    .await
}

/// Waits until no claim has come or gone for a while, of which nothing counts that was before `since`.
async fn settled(run: &Run<'_>, since: Instant) -> Result<()> {
    wait::until_within(LONG, "the cluster to be settled", || async {
        let last = run.claims.last_change().map_or(since, |last| last.max(since));
        let quiet = last.elapsed() > QUIET;
        Ok(if quiet { Ok(()) } else { Err(format!("{} claims, still changing", run.claims.alive())) })
    })
    .await
}

fn pods_per_second(run: &Run<'_>, pods: usize, start: Instant) -> Row {
    let took = start.elapsed().as_secs_f64();
    let bound = run.pods.until(BOUND);
    row([
        ("seconds", took),
        ("pods_per_second", count(pods) / took),
        ("bound_p50_seconds", percentile(&bound, 50)),
        ("bound_p99_seconds", percentile(&bound, 99)),
    ])
}

fn row<const N: usize>(figures: [(&str, f64); N]) -> Row {
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A change of a pod template: the requests of its only container.
fn requesting(cpu: &str, memory: &str) -> Value {
    json!({"spec": {"containers": [container(json!({"requests": {"cpu": cpu, "memory": memory}}))]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_grows_with_the_replacements_that_are_ready() {
        for (nodes, leaving) in [(1, 1), (9, 1), (10, 2), (100, 12)] {
            assert_eq!(a_tenth_of(nodes), leaving, "{nodes}");
        }
    }
}
