//! Every way a node leaves, proven in one world: side by side as in `scheduling`, once in peace and once while the
//! controller is killed again and again.
//!
//! What must hold at every moment is looked at all the time, not only at the end: see [`watch`].

mod balanced;
mod blocked;
mod crashes;
mod deletion;
mod demo;
mod drift;
mod expiry;
mod interruption;
mod repair;
mod spot;
mod statics;
mod watch;

use std::time::Duration;

use anyhow::Result;
use futures::future::FutureExt;
use serde_json::{Value, json};

use super::behaviour::{self, Behaviour, Only};
use super::scraped;
use crate::world::World;

/// How long a step may take in which a node is replaced: quiet time, second look, boot, drain; and all of it again
/// when the controller dies in between.
const WITHIN: Duration = Duration::from_secs(300);

/// What these behaviours need beyond the defaults.
const GATES: &str = "SpotToSpotConsolidation=true,NodeRepair=true,StaticCapacity=true";

/// Runs all behaviours in a world in which nothing of ours is installed yet, and looks at what the controller has to
/// show for it.
pub async fn run(world: &mut World, only: &Only) -> Result<()> {
    install(world).await?;
    let proven = behaviour::prove(behaviours(world), only).await;
    world.check_controller()?;
    proven?;
    if only.0.is_none() {
        scraped::as_declared(world).await?;
    }
    behaviour::clear_away(world).await
}

/// The same; `seed` decides when the controller dies and is printed, so that a failure can be repeated.
pub async fn run_with_crashes(world: &mut World, seed: u64, only: &Only) -> Result<()> {
    install(world).await?;
    let proven = crashes::during(world, seed, behaviour::prove(behaviours(world), only)).await;
    world.check_controller()?;
    proven?;
    behaviour::clear_away(world).await
}

/// Without election: who leads is proven elsewhere, and a machine busy with a dozen behaviours may renew too late.
async fn install(world: &mut World) -> Result<()> {
    world.without_election();
    world.with_feature_gates(GATES);
    world.install().await?;
    world.install_class().await
}

fn behaviours(world: &World) -> Vec<Behaviour<'_>> {
    vec![
        ("fewer pods, fewer and smaller nodes", demo::run(world).boxed_local()),
        ("a new image replaces one node at a time", drift::image(world).boxed_local()),
        ("nodes that no longer satisfy their pool are replaced", drift::requirements(world).boxed_local()),
        ("an expired node goes, however its pods resist", expiry::run(world).boxed_local()),
        ("a pod that must not be disrupted keeps its node", blocked::by_annotation(world).boxed_local()),
        ("a disruption budget of pods keeps their node", blocked::by_pod_budget(world).boxed_local()),
        ("a node deleted by hand is drained and replaced", deletion::of_a_node(world).boxed_local()),
        ("the nodes of a deleted pool move to another one", deletion::of_a_pool(world).boxed_local()),
        ("a spot node gives way to a cheaper spot node", spot::run(world).boxed_local()),
        ("a spot node that is taken back is drained and replaced", interruption::run(world).boxed_local()),
        ("a balanced pool leaves a small saving alone", balanced::run(world).boxed_local()),
        ("an unhealthy node is replaced", repair::run(world).boxed_local()),
        ("a pool of fixed size has that many nodes", statics::run(world).boxed_local()),
    ]
}

/// A patch that lets a pool consolidate by this policy, five seconds after the last pod came or went.
fn consolidating(policy: &str) -> Value {
    json!({"spec": {"disruption": {"consolidationPolicy": policy, "consolidateAfter": "5s"}}})
}
