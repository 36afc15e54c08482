//! A change of manifests under a running controller: the cluster before it, and what the controller does about it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use karpenter_aws_sim::Options;
use karpenter_plan::{About, WhatIf};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{draw, observed, settle};
use crate::history::History;
use crate::process::{self, planning};
use crate::run::alone;
use crate::scenario::format::Object;
use crate::scenario::{Manifest, apply, delete};
use crate::trace::Trace;
use crate::world::{World, WorldOptions, account};

/// Time for which the controller is left alone after a change: drift is found, budgets of one node at a time are kept, and
/// machines boot.
const WATCHED: Duration = Duration::from_mins(10);

/// A change of the manifests of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Manifests that are applied.
    pub applied: Vec<Value>,
    /// NodePools that are deleted.
    pub deleted_pools: Vec<String>,
}

/// Result of a change.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The cluster before the change, as `karpenter export` writes it.
    pub export: String,
    /// Claims that were created after it.
    pub launched: usize,
    /// Nodes that left after it.
    pub removed: usize,
    /// Pods without a node in the end.
    pub pending: usize,
}

/// Lets a cluster of this name come about from `manifests`, changes it, and leaves it to the controller.
pub fn change(cluster: &str, manifests: Vec<Value>, change: Change) -> Result<Changed> {
    let cluster = cluster.to_owned();
    alone(0, move || async move { changed(cluster, manifests, change).await })
}

async fn changed(cluster: String, manifests: Vec<Value>, change: Change) -> Result<Changed> {
    let drawn = draw::world_options(manifests, [].into())?;
    let account = Options { cluster: cluster.clone(), ..account() };
    let options = WorldOptions { cluster, account, ..drawn };
    let history = Arc::new(History::quiet(0, Duration::ZERO));
    let world = Arc::new(World::on(&history, options, Trace::new(false)).await?);
    let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
    world.spawn(&mut tasks, &stop);
    tasks.spawn(process::keep_running(Arc::clone(&world), 0, stop.child_token()));
    settle(&world).await;
    let seen = planning::read(&world, planning::objects(&world), WhatIf::default())?;
    let export = seen.export(&planning::offerings(&world, &seen).await?, About::default(), false);
    let mut observer = observed::Observer::new(&world);
    let applied: Vec<Manifest> = change.applied.into_iter().map(|what| Manifest { line: 0, what }).collect();
    apply(&world, &applied).await?;
    for name in change.deleted_pools {
        delete(&world, &Object { kind: "NodePool".to_owned(), name, namespace: String::new() }).await?;
    }
    let seen = observer.watch(WATCHED).await;
    stop.cancel();
    Ok(Changed {
        export,
        launched: seen.claims.len(),
        removed: seen.leaving.len(),
        pending: seen.pending.len(),
    })
}
