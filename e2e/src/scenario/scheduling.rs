//! What pods may ask of nodes, proven in one world: every behaviour has a [`Corner`](corner::Corner) of its own and
//! all of them happen at once, so that the suite takes as long as its slowest part.
//!
//! A failure names its behaviour and does not keep the others from finishing. At the end everything is scaled to
//! zero, the pools and classes are deleted, and nothing may be left.

mod accelerators;
mod architectures;
mod capacity;
mod hostnames;
mod impossible;
mod limits;
mod ports;
mod preferences;
mod readiness;
mod refusals;
mod volumes;
mod zones;

use anyhow::Result;
use futures::future::FutureExt;

use super::behaviour::{self, Behaviour, Only};
use crate::world::World;

/// Runs all behaviours in a world in which nothing of ours is installed yet.
pub async fn run(world: &World, only: &Only) -> Result<()> {
    world.install().await?;
    world.install_class().await?;
    let failures = behaviour::prove(behaviours(world), only).await;
    world.check_controller()?;
    failures?;
    behaviour::clear_away(world).await
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
