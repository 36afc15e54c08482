//! Behavior under load: workloads of a fixed size, one after the other in one world, and figures of each.
//!
//! Costs are measured from outside: instants at which a watch shows a change, processor time and memory of each process as the
//! kernel counts them, calls as the account counts them, writes as the API server's audit log has them. A figure tells more
//! with a baseline of the same machine beside it: [`Figures::regressions`].

mod figures;
mod fresh;
mod meter;
mod moments;
mod workloads;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::{NodeClaim, NodePool};
use kube::api::{Api, DeleteParams};
use kube::runtime::watcher::Config;

use super::facts::{nothing_left, phase};
use super::scraped;
use super::test_namespace::TestNamespace;
use crate::world::World;
use meter::Meter;
use moments::Moments;

pub use figures::{Figures, Row};

/// Load of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Workload {
    /// 500 pods of 900m and 3100Mi, 500 of 3500m and 28Gi; then 700 of them, consolidated.
    Mixed,
    /// 30 deployments of pods of many sizes, spread over zones, some over hosts or apart; then seven tenths of them, consolidated.
    Wide,
    /// 500 pods that share no node.
    Apart,
    /// 1,000 pods in three classes of priority.
    Priorities,
    /// 1,000 pods, a hundred a second.
    Arriving,
    /// 5,000 pods, about ten a node.
    Many,
    /// 100 nodes of another image, a tenth of them at a time.
    Drift,
    /// 200 spot nodes are taken back at once.
    Interruptions,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Self; 8] = [
        Self::Mixed,
        Self::Wide,
        Self::Apart,
        Self::Priorities,
        Self::Arriving,
        Self::Many,
        Self::Drift,
        Self::Interruptions,
    ];

    /// Returns its name on the command line, which is also that of its namespace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Wide => "wide",
            Self::Apart => "apart",
            Self::Priorities => "priorities",
            Self::Arriving => "arriving",
            Self::Many => "many",
            Self::Drift => "drift",
            Self::Interruptions => "interruptions",
        }
    }

    async fn play(self, run: &Run<'_>) -> Result<Row> {
        match self {
            Self::Mixed => workloads::mixed(run).await,
            Self::Wide => workloads::wide(run).await,
            Self::Apart => workloads::apart(run).await,
            Self::Priorities => workloads::priorities(run).await,
            Self::Arriving => workloads::arriving(run).await,
            Self::Many => workloads::many(run).await,
            Self::Drift => workloads::drift(run).await,
            Self::Interruptions => workloads::interruptions(run).await,
        }
    }
}

/// One workload in its namespace, with everything watched that happens there.
struct Run<'a> {
    test: TestNamespace<'a>,
    pods: Moments,
    claims: Moments,
    percent: u32,
}

/// Moments of a pod: it is bound, and it runs.
const POD: [fn(&Pod) -> bool; 2] =
    [|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()), |pod| phase(pod) == "Running"];

/// Indexes into [`POD`].
const BOUND: usize = 0;
const RUNNING: usize = 1;

impl<'a> Run<'a> {
    async fn begin(world: &'a World, workload: Workload, percent: u32) -> Result<Self> {
        let test = TestNamespace::open(world, workload.name()).await?;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), workload.name());
        let claims: Api<NodeClaim> = Api::all(world.client.clone());
        let ours = Config::default().labels(&test.selector());
        Ok(Self {
            pods: Moments::begin(pods, Config::default(), &POD).await?,
            claims: Moments::begin(claims, ours, &[]).await?,
            test,
            percent,
        })
    }

    /// Name of the namespace, and of everything in it that has a name of its own.
    fn name(&self) -> &'static str {
        self.test.name
    }

    /// Returns the size of this run for `full` at full size.
    fn sized(&self, full: usize) -> usize {
        (full * self.percent as usize).div_ceil(100)
    }
}

/// Runs workloads, each at `percent` of its size, in a world in which nothing of ours is installed yet.
pub async fn run(world: &mut World, workloads: &[Workload], percent: u32) -> Result<Figures> {
    // Drift of all nodes at once, shortly after a start, is held for eleven minutes otherwise (docs/disruption.md, Brakes).
    world.with_setting("DISRUPTION_MASS_DRIFT_PERCENT", "100");
    world.install().await?;
    world.install_class().await?;
    let mut figures = Figures::new(percent);
    for (index, &workload) in workloads.iter().enumerate() {
        let shown = workloads == Workload::ALL && index + 1 == workloads.len();
        let row = one(world, workload, percent, shown)
            .await
            .with_context(|| format!("workload `{}`", workload.name()))?;
        tracing::info!(workload = workload.name(), ?row, "done");
        figures.insert(workload.name(), row);
    }
    world.verdict().await?;
    Ok(figures)
}

/// Measures one workload and clears it away. After the last of all, which together launch, consolidate, replace and lose
/// nodes, what the controller has to show for it is looked at before the series of the pool are gone.
async fn one(world: &World, workload: Workload, percent: u32, shown: bool) -> Result<Row> {
    let run = Run::begin(world, workload, percent).await?;
    let meter = Meter::begin(world).await?;
    let mut row = workload.play(&run).await?;
    row.extend(meter.end(run.claims.ever()).await?);
    if shown {
        scraped::as_declared(world).await?;
    }
    run.test.scale_down().await?;
    // Nodes of a pool that is gone go at once; those of one that is there leave as its budget lets them.
    let pools: Api<NodePool> = Api::all(world.client.clone());
    pools.delete(workload.name(), &DeleteParams::default()).await.context("delete the pool")?;
    nothing_left(world).await?;
    Ok(row)
}
