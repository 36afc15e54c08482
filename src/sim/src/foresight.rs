//! Whether `karpenter plan` says what the controller then does: a plan of a world's export, and the world left to the
//! controller.
//!
//! The cluster comes about by the controller's own work. Then it changes: while no controller runs, which a plan of the
//! changed cluster foresees, or under a running one, which a plan with `--what-if` foresees. What the controller begins
//! with afterwards is compared claim by claim, node by node and pod by pod; docs/plan.md says what counts as equal, and what
//! is left out.

mod draw;
mod expected;
mod observed;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::registry::label_registry;
use karpenter_compose::offered::OfferingsReader;
use karpenter_kube_sim::apiserver::store::ListQuery;
use karpenter_model::Clock as _;
use karpenter_plan::{About, Forecast, Ground, Objects, Offerings, WhatIf, forecast};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::history::History;
use crate::process::{self, aws_settings, settings};
use crate::run::alone;
use crate::scenario::{Manifest, apply};
use crate::trace::Trace;
use crate::world::World;

/// Longest time until the cluster has come about.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long nothing is missing before it has: `consolidateAfter` of every pool has passed by then.
const REST: Duration = Duration::from_secs(90);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_secs(10);
/// How long a change takes to be there: pods are made and the scheduler has tried them.
const CHANGE: Duration = Duration::from_secs(10);

/// Kinds a plan reads.
const KINDS: [&str; 18] = [
    "NodePool",
    "NodeClaim",
    "EC2NodeClass",
    "NodeOverlay",
    "Node",
    "Pod",
    "DaemonSet",
    "PodDisruptionBudget",
    "Namespace",
    "LimitRange",
    "RuntimeClass",
    "PriorityClass",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
];

/// How a plan and the controller compare in one world.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    /// What the controller did otherwise; empty when it did what the plan said.
    pub differences: Vec<String>,
    /// The plan, as people read it.
    pub text: String,
    /// Claims that were foreseen.
    pub launches: usize,
    /// Nodes whose removal was foreseen, where that was compared.
    pub removals: usize,
    /// Pods that were foreseen to stay pending.
    pub pending: usize,
}

/// Plans for the world of a seed, and holds what the controller does against it.
pub fn foresee(seed: u64) -> Result<Foreseen> {
    alone(seed, move || async move { foreseen(seed).await })
}

async fn foreseen(seed: u64) -> Result<Foreseen> {
    let drawn = draw::world(seed);
    let history = Arc::new(History::quiet(seed, Duration::ZERO));
    let world = Arc::new(World::on(&history, drawn.ground()?, Trace::new(false)).await?);
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    let first = stop.child_token();
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, first.clone()));
    settle(&world).await;
    let manifests: Vec<Manifest> =
        drawn.changes.iter().map(|change| Manifest { line: 0, what: change.clone() }).collect();
    let forecast = if drawn.under_way {
        let what_if = WhatIf { manifests: drawn.changes.clone(), ..WhatIf::default() };
        planned(&world, what_if).await?
    } else {
        first.cancel();
        if let Some(life) = world.lives().get(&0) {
            life.die();
        }
        apply(&world, &manifests).await?;
        sleep(CHANGE).await;
        planned(&world, WhatIf::default()).await?
    };
    let mut observer = observed::Observer::new(&world);
    if drawn.under_way {
        apply(&world, &manifests).await?;
    } else {
        tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.child_token()));
    }
    let observed = observer.watch(&forecast).await;
    stop.cancel();
    let mut differences = expected::differences(&forecast, &observed);
    // A limit that is set below what there is, is exceeded.
    let violations = world.truth.violations();
    let broken = violations.iter().filter(|violation| violation.rule != "limit");
    differences.extend(broken.map(|violation| format!("rule {violation:?}")));
    Ok(Foreseen {
        differences,
        text: format!("{drawn}{}", forecast.text()),
        launches: forecast.launches.len(),
        removals: if expected::pods_come(&forecast) {
            0
        } else {
            forecast.removals.iter().map(|removal| removal.nodes.len()).sum()
        },
        pending: forecast.pending.len(),
    })
}

/// Waits until nothing has been missing for a while, or for as long as there is patience: pods that no pool takes wait for
/// ever.
async fn settle(world: &World) {
    let began = Instant::now();
    let (mut missing, mut since) = (world.truth.unfinished(), began);
    while began.elapsed() < PATIENCE && since.elapsed() < REST {
        sleep(LOOK).await;
        let now = world.truth.unfinished();
        // What waits for ever is missing in every look.
        if now != missing {
            (missing, since) = (now, Instant::now());
        }
    }
}

/// The plan of an export of the world; that of the world itself has to be the same.
async fn planned(world: &World, what_if: WhatIf) -> Result<Forecast> {
    let at = world.clock.now();
    let ground = Ground {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        settings: settings(&world.settings)?.decisions,
    };
    let look = |objects: Vec<Value>, what_if: WhatIf| {
        karpenter_plan::World::new(objects, at, ground.clone(), what_if).context("cannot read the world")
    };
    let seen = look(objects(world), what_if.clone())?;
    let mut reader =
        OfferingsReader::new(world.account.clients(), aws_settings(world), world.clock.clone()).await?;
    let offerings = reader.offerings(&seen.pools(), &seen.node_classes()).await;
    let stream = look(objects(world), WhatIf::default())?.export(&offerings, About::default(), false);
    let read = Objects::read("export", &stream)?;
    let exported = look(read, what_if)?;
    let told = |world: &karpenter_plan::World, offerings: &Offerings| {
        let (snapshot, notes) = world.snapshot(offerings);
        forecast(&snapshot, notes)
    };
    let of_export = exported.exported().ok_or_else(|| anyhow!("an export is not taken for one"))?;
    let (of_world, of_export) = (told(&seen, &offerings), told(&exported, of_export));
    if of_world != of_export {
        return Err(anyhow!("the export plans otherwise:\n{}\n{}", of_world.text(), of_export.text()));
    }
    Ok(of_export)
}

/// Every object of the kinds a plan reads, as one look at the cluster finds them.
fn objects(world: &World) -> Vec<Value> {
    world.server.read(|store| {
        let resources = store.registry().iter().filter(|one| KINDS.contains(&one.kind.as_str()));
        let pages = resources.filter_map(|resource| store.list(resource, &ListQuery::default()).ok());
        pages.flat_map(|page| page.items).map(|object| Value::clone(&object)).collect()
    })
}
