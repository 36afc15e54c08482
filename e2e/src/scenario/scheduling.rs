//! What pods may ask of nodes, proven in one world: every behaviour has a [`Corner`](corner::Corner) of its own and
//! all of them happen at once, so that the suite takes as long as its slowest part.
//!
//! A failure names its behaviour and does not keep the others from finishing. At the end everything is scaled to
//! zero, the pools and classes are deleted, and nothing may be left.

mod accelerators;
mod architectures;
mod capacity;
mod corner;
mod hostnames;
mod impossible;
mod limits;
mod ports;
mod preferences;
mod readiness;
mod refusals;
mod volumes;
mod zones;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::future::{FutureExt, LocalBoxFuture, join_all};
use karpenter_api::{EC2NodeClass, NodePool};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};

use super::facts::nothing_left;
use crate::wait;
use crate::world::World;

/// How long each step of a behaviour may take. Everything happens within seconds; the rest is for slow machines.
const WITHIN: Duration = Duration::from_secs(120);

/// What a behaviour is called and what proves it.
type Behaviour<'a> = (&'static str, LocalBoxFuture<'a, Result<()>>);

/// Runs all behaviours in a world in which nothing of ours is installed yet.
pub async fn run(world: &mut World) -> Result<()> {
    world.install().await?;
    world.install_class().await?;
    let failures: Vec<String> = join_all(behaviours(world).into_iter().map(timed)).await.concat();
    world.check_controller()?;
    ensure!(failures.is_empty(), "{} behaviours failed:\n{}", failures.len(), failures.join("\n"));

    corner::scale_all_down(world).await?;
    nothing_left(world, WITHIN).await?;
    nothing_of_ours_left(world).await
}

fn behaviours(world: &World) -> Vec<Behaviour<'_>> {
    vec![
        ("pods spread evenly over three zones", zones::run(world).boxed_local()),
        ("pods that avoid each other get a node each", hostnames::run(world).boxed_local()),
        ("one pool serves both architectures", architectures::run(world).boxed_local()),
        ("a pod that needs a GPU gets one, behind the pool's taint", accelerators::run(world).boxed_local()),
        ("a full pool overflows into the next one", limits::run(world).boxed_local()),
        ("pods with the same host port get a node each", ports::run(world).boxed_local()),
        ("a preference nothing can meet is given up", preferences::run(world).boxed_local()),
        ("a pod that fits nowhere is told why", impossible::run(world).boxed_local()),
        ("a missing node class is told and forgiven", readiness::missing_class(world).boxed_local()),
        (
            "a class without subnets is told and forgiven",
            readiness::class_without_subnets(world).boxed_local(),
        ),
        ("malformed pools are refused by field", refusals::run(world).boxed_local()),
        ("a type without capacity is passed over", capacity::dry_type(world).boxed_local()),
        ("a pool without capacity yields to the next one", capacity::dry_pool(world).boxed_local()),
        ("a pod follows the volume of its claim", volumes::bound_claim(world).boxed_local()),
        ("a late claim is provisioned where its class allows", volumes::late_claim(world).boxed_local()),
    ]
}

/// Runs one behaviour to its end; its failure as text, if it failed.
async fn timed((name, behaviour): Behaviour<'_>) -> Vec<String> {
    let start = Instant::now();
    let outcome = behaviour.await;
    let seconds = start.elapsed().as_secs_f32();
    match outcome {
        Ok(()) => {
            tracing::info!("ok after {seconds:.1}s: {name}");
            Vec::new()
        }
        Err(error) => {
            tracing::error!("failed after {seconds:.1}s: {name}");
            vec![format!("{name}: {error:#}")]
        }
    }
}

/// Deletes pools and classes, which takes their finalizers, and looks for what nobody else would miss.
async fn nothing_of_ours_left(world: &World) -> Result<()> {
    let (pools, classes) =
        (Api::<NodePool>::all(world.client.clone()), Api::<EC2NodeClass>::all(world.client.clone()));
    pools
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("delete the pools")?;
    classes
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .context("delete the classes")?;
    wait::until("no pool and no class", WITHIN, || async {
        let mut left: Vec<String> =
            pools.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        left.extend(classes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any));
        Ok(if left.is_empty() { Ok(()) } else { Err(left.join(", ")) })
    })
    .await?;
    let profiles = world.aws.iam.list_instance_profiles("/karpenter/").await?;
    if let Some(profile) = profiles.first() {
        bail!("instance profile `{}` outlived its class", profile.name);
    }
    Ok(())
}
