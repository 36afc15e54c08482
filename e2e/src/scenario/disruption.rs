//! Every way a node leaves, proven in one world: side by side as in `scheduling`, in peace or while the controller is
//! killed again and again.
//!
//! Invariants are checked all the time, not only at the end: see [`watch`](super::watch).

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

use anyhow::Result;
use futures::future::FutureExt;
use serde_json::{Value, json};

use super::behaviour::{self, Behaviour, Only};
use crate::world::World;

/// Feature gates of these behaviours beyond the defaults.
const GATES: &str = "SpotToSpotConsolidation=true,NodeRepair=true,StaticCapacity=true";

/// The names of the behaviours.
pub fn behaviours() -> Vec<&'static str> {
    behaviour::names(&[BEHAVIOURS])
}

/// Runs all behaviours in a world in which nothing of ours is installed yet.
pub async fn run(world: &mut World, only: &Only) -> Result<()> {
    install(world).await?;
    let proven = behaviour::prove(world, "disruption", &[BEHAVIOURS], only).await;
    world.check_controller().await?;
    proven?;
    behaviour::clear_away(world).await
}

/// Runs all behaviours while the controller dies again and again; `seed` decides when the controller dies and is printed, so
/// that a failure can be repeated.
pub async fn run_with_crashes(world: &mut World, seed: u64, only: &Only) -> Result<()> {
    install(world).await?;
    let proven = crashes::during(
        world,
        seed,
        only.0.is_none(),
        behaviour::prove(world, "disruption-with-crashes", &[BEHAVIOURS], only),
    )
    .await;
    world.check_controller().await?;
    proven?;
    behaviour::clear_away(world).await
}

/// Installs a controller without election: that is proven elsewhere, and a busy machine may renew a Lease too late.
async fn install(world: &mut World) -> Result<()> {
    world.without_election();
    world.with_feature_gates(GATES);
    // Repair as a method counts from the creation of the node, so it takes ten minutes at least.
    world.with_setting("LEGACY_NODE_REPAIR", "true");
    world.install().await?;
    world.install_class().await
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour { name: "fewer pods, fewer and smaller nodes", proof: |world| demo::run(world).boxed_local() },
    Behaviour {
        name: "a new image replaces one node at a time",
        proof: |world| drift::image(world).boxed_local(),
    },
    Behaviour {
        name: "nodes that no longer satisfy their pool are replaced",
        proof: |world| drift::requirements(world).boxed_local(),
    },
    Behaviour {
        name: "an expired node goes, however its pods resist",
        proof: |world| expiry::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pod that must not be disrupted keeps its node",
        proof: |world| blocked::by_annotation(world).boxed_local(),
    },
    Behaviour {
        name: "a disruption budget of pods keeps their node",
        proof: |world| blocked::by_pod_budget(world).boxed_local(),
    },
    Behaviour {
        name: "a budget that lets unhealthy pods go does not keep their node",
        proof: |world| blocked::by_unhealthy_pods(world).boxed_local(),
    },
    Behaviour {
        name: "a node deleted by hand is drained and replaced",
        proof: |world| deletion::of_a_node(world).boxed_local(),
    },
    Behaviour {
        name: "a drain that a budget holds says so, and goes on without it",
        proof: |world| deletion::held_by_a_budget(world).boxed_local(),
    },
    Behaviour {
        name: "the nodes of a deleted pool move to another one",
        proof: |world| deletion::of_a_pool(world).boxed_local(),
    },
    Behaviour {
        name: "a spot node gives way to a cheaper spot node",
        proof: |world| spot::run(world).boxed_local(),
    },
    Behaviour {
        name: "a spot node that is taken back is drained and replaced",
        proof: |world| interruption::of_spot(world).boxed_local(),
    },
    Behaviour {
        name: "an instance that a person stops is replaced",
        proof: |world| interruption::by_a_person(world).boxed_local(),
    },
    Behaviour {
        name: "an instance that fails its status checks is replaced",
        proof: |world| interruption::by_status_checks(world).boxed_local(),
    },
    Behaviour {
        name: "a balanced pool leaves a small saving alone",
        proof: |world| balanced::run(world).boxed_local(),
    },
    Behaviour {
        name: "an unhealthy node is replaced, as v1.14 did",
        proof: |world| repair::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pool of fixed size has that many nodes",
        proof: |world| statics::run(world).boxed_local(),
    },
];

/// A patch that lets a pool consolidate by this policy, five seconds after the last pod was added or removed.
fn consolidating(policy: &str) -> Value {
    json!({"spec": {"disruption": {"consolidationPolicy": policy, "consolidateAfter": "5s"}}})
}
