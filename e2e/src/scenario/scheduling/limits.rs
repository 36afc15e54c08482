//! Two pools of two-CPU machines; the heavier may hold four CPUs. Four pods that fill a machine each end as two in
//! either pool, and at no moment does the heavier pool have more claims than its limit allows.

use anyhow::{Context, Result, ensure};
use karpenter_api::{NodePool, labels};
use kube::api::Api;
use serde_json::json;

use crate::manifests::merged;
use crate::scenario::corner::WITHIN;
use crate::scenario::corner::{Corner, by_label, container, needs, requiring};
use crate::scenario::facts::label;
use crate::wait;
use crate::world::World;

const HEAVIER: &str = "limits-first";
const LIGHTER: &str = "limits-second";
/// Two machines of two CPUs.
const LIMIT: &str = "4";
const MACHINES_WITHIN_LIMIT: usize = 2;
const PODS: usize = 4;

pub(super) async fn run(world: &World) -> Result<()> {
    let corner = Corner::open(world, "limits").await?;
    let machines = requiring(json!([
        needs(labels::ARCH, &["amd64"]),
        needs(labels::CAPACITY_TYPE, &["on-demand"]),
        needs("karpenter.k8s.aws/instance-category", &["c", "m"]),
        needs("karpenter.k8s.aws/instance-cpu", &["2"]),
    ]));
    let first = json!({"spec": {"weight": 50, "limits": {"cpu": LIMIT}}});
    corner.ready_pool(HEAVIER, merged(machines.clone(), first)).await?;
    corner.ready_pool(LIGHTER, merged(machines, json!({"spec": {"weight": 10}}))).await?;
    let filling = container(json!({"requests": {"cpu": "1500m"}}));
    corner.pods("filler", PODS, json!({"spec": {"containers": [filling]}})).await?;

    within_limit_until_running(&corner).await?;
    let pools = by_label(&corner.running("filler", PODS).await?, labels::NODEPOOL);
    let expected = [(HEAVIER, MACHINES_WITHIN_LIMIT), (LIGHTER, PODS - MACHINES_WITHIN_LIMIT)];
    let expected = expected.map(|(pool, count)| (pool.to_owned(), count)).into();
    ensure!(pools == expected, "pods by pool: {pools:?}");

    let api: Api<NodePool> = Api::all(world.client.clone());
    wait::until(&format!("cpu {LIMIT} in the status of `{HEAVIER}`"), WITHIN, || async {
        let status = api.get(HEAVIER).await.context("read the pool")?.status.unwrap_or_default();
        let resources = serde_json::to_value(&status.resources)?;
        Ok(if resources["cpu"] == LIMIT { Ok(()) } else { Err(resources.to_string()) })
    })
    .await
}

/// Looks at the heavier pool's claims all the time until every pod runs.
async fn within_limit_until_running(corner: &Corner<'_>) -> Result<()> {
    wait::until("pods in both pools", WITHIN, || async {
        let claims = corner.claims().await?;
        let heavier = claims.iter().filter(|claim| label(*claim, labels::NODEPOOL) == HEAVIER).count();
        ensure!(
            heavier <= MACHINES_WITHIN_LIMIT,
            "`{HEAVIER}` has {heavier} machines, its limit is {LIMIT} CPUs"
        );
        let bound = corner.pods_of("filler").await?;
        let bound =
            bound.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
        Ok(if bound == PODS {
            Ok(())
        } else {
            Err(format!("{bound} pods have a node, {} claims", claims.len()))
        })
    })
    .await
}
