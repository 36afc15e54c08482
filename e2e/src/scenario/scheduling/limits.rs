//! Two pools of two-CPU machines; the heavier may hold four CPUs. Four pods that fill a machine each end as two in
//! either pool, and at no moment does the heavier pool have more claims than its limit allows.

use anyhow::{Context, Result, ensure};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_model::names::label;
use kube::api::Api;
use kube::runtime::watcher::Config;
use serde_json::json;

use crate::manifests::merged;
use crate::scenario::test_namespace::{TestNamespace, by_label, container, needs, requiring};
use crate::scenario::watch;
use crate::wait;
use crate::world::World;

const HEAVIER: &str = "limits-first";
const LIGHTER: &str = "limits-second";
/// Two machines of two CPUs.
const LIMIT: &str = "4";
const MACHINES_WITHIN_LIMIT: usize = 2;
const PODS: usize = 4;

pub(super) async fn run(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "limits").await?;
    let machines = requiring(json!([
        needs(label::ARCH, &["amd64"]),
        needs(label::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m"]),
        needs("karpenter.k8s.aws/instance-cpu", &["2"]),
    ]));
    let first = json!({"spec": {"weight": 50, "limits": {"cpu": LIMIT}}});
    test.ready_pool(HEAVIER, merged(machines.clone(), first)).await?;
    test.ready_pool(LIGHTER, merged(machines, json!({"spec": {"weight": 10}}))).await?;
    let filling = container(json!({"requests": {"cpu": "1500m"}}));
    let running = async {
        test.pods("filler", PODS, json!({"spec": {"containers": [filling]}})).await?;
        test.running("filler", PODS).await
    };
    let pools = by_label(&within_limit(world, running).await?, label::NODE_POOL);
    let expected = [(HEAVIER, MACHINES_WITHIN_LIMIT), (LIGHTER, PODS - MACHINES_WITHIN_LIMIT)];
    let expected = expected.map(|(pool, count)| (pool.to_owned(), count)).into();
    ensure!(pools == expected, "pods by pool: {pools:?}");

    let api: Api<NodePool> = Api::all(world.client.clone());
    wait::until(&format!("cpu {LIMIT} in the status of `{HEAVIER}`"), || async {
        let status = api.get(HEAVIER).await.context("read the pool")?.status.unwrap_or_default();
        let resources = serde_json::to_value(&status.resources)?;
        Ok(if resources["cpu"] == LIMIT { Ok(()) } else { Err(resources.to_string()) })
    })
    .await
}

/// Runs `behaviour`; fails as soon as the heavier pool has more claims than its limit allows.
async fn within_limit<T>(world: &World, behaviour: impl Future<Output = Result<T>>) -> Result<T> {
    let claims: Api<NodeClaim> = Api::all(world.client.clone());
    let heavier = Config::default().labels(&format!("{}={HEAVIER}", label::NODE_POOL));
    let rule = |claims: &std::collections::BTreeMap<String, NodeClaim>| {
        let machines = claims.len();
        ensure!(
            machines <= MACHINES_WITHIN_LIMIT,
            "`{HEAVIER}` has {machines} machines, its limit is {LIMIT} CPUs"
        );
        Ok(())
    };
    watch::throughout(claims, heavier, rule, behaviour).await
}
