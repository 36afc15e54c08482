//! Demands of pods on nodes, proven in one world: every behaviour has a [`TestNamespace`](test_namespace::TestNamespace) of its own and all of them
//! happen at once, so that the suite takes as long as its slowest part. Behaviours that affect all of them come afterwards.
//!
//! A failure names its behaviour and does not keep the others from finishing. At the end everything is scaled to
//! zero, the pools and classes are deleted, and nothing may be left.

mod accelerators;
mod architectures;
mod buffers;
mod capacity;
mod hostnames;
mod impossible;
mod labels;
mod limits;
mod overlays;
mod partitions;
mod ports;
mod preferences;
mod readiness;
mod refusals;
mod reserved;
mod shift;
mod volumes;
mod zones;

use anyhow::Result;
use futures::future::FutureExt;

use super::behaviour::{self, Behaviour, Only};
use crate::world::World;

/// Feature gates of these behaviours beyond the defaults.
const GATES: &str = "ReservedCapacity=true,NodeOverlay=true,CapacityBuffer=true";

/// The names of the behaviours.
pub fn behaviours() -> Vec<&'static str> {
    behaviour::names(&[BEHAVIOURS, FOR_ALL])
}

/// Runs all behaviours in a world in which nothing of ours is installed yet. Without election: that is proven
/// elsewhere, and a machine busy with a dozen behaviours may renew too late.
pub async fn run(world: &mut World, only: &Only) -> Result<()> {
    world.without_election();
    world.with_feature_gates(GATES);
    world.install().await?;
    world.install_class().await?;
    let failures = behaviour::prove(world, "scheduling", &[BEHAVIOURS, FOR_ALL], only).await;
    world.check_controller().await?;
    failures?;
    behaviour::clear_away(world).await
}

const BEHAVIOURS: &[Behaviour] = &[
    Behaviour { name: "pods spread evenly over three zones", proof: |world| zones::run(world).boxed_local() },
    Behaviour {
        name: "pods that avoid each other get a node each",
        proof: |world| hostnames::run(world).boxed_local(),
    },
    Behaviour {
        name: "one pool serves both architectures",
        proof: |world| architectures::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pod that needs a GPU gets one, behind the pool's taint",
        proof: |world| accelerators::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pod selects its machine by any label of the provider",
        proof: |world| labels::run(world).boxed_local(),
    },
    Behaviour {
        name: "a full pool overflows into the next one",
        proof: |world| limits::run(world).boxed_local(),
    },
    Behaviour {
        name: "an overlaid price decides which type is bought",
        proof: |world| overlays::price(world).boxed_local(),
    },
    Behaviour {
        name: "a device of an overlay can be asked for",
        proof: |world| overlays::device(world).boxed_local(),
    },
    Behaviour {
        name: "room is kept for pods that do not exist yet",
        proof: |world| buffers::run(world).boxed_local(),
    },
    Behaviour {
        name: "pods with the same host port get a node each",
        proof: |world| ports::run(world).boxed_local(),
    },
    Behaviour {
        name: "a preference nothing can meet is given up",
        proof: |world| preferences::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pod that fits nowhere gets the reason",
        proof: |world| impossible::run(world).boxed_local(),
    },
    Behaviour {
        name: "a missing node class is reported until it exists",
        proof: |world| readiness::missing_class(world).boxed_local(),
    },
    Behaviour {
        name: "a class without subnets is reported until it has some",
        proof: |world| readiness::class_without_subnets(world).boxed_local(),
    },
    Behaviour {
        name: "malformed pools are refused by field",
        proof: |world| refusals::run(world).boxed_local(),
    },
    Behaviour {
        name: "a type without capacity is passed over",
        proof: |world| capacity::dry_type(world).boxed_local(),
    },
    Behaviour {
        name: "a pool without capacity yields to the next one",
        proof: |world| capacity::dry_pool(world).boxed_local(),
    },
    Behaviour {
        name: "reserved capacity is used first, and what it lacks is bought",
        proof: |world| reserved::first(world).boxed_local(),
    },
    Behaviour {
        name: "a reservation that has less than it says keeps no pod waiting",
        proof: |world| reserved::overstated(world).boxed_local(),
    },
    Behaviour {
        name: "nodes of a placement group say their partition",
        proof: |world| partitions::run(world).boxed_local(),
    },
    Behaviour {
        name: "a pod follows the volume of its claim",
        proof: |world| volumes::bound_claim(world).boxed_local(),
    },
    Behaviour {
        name: "a late claim is provisioned where its class allows",
        proof: |world| volumes::late_claim(world).boxed_local(),
    },
    Behaviour {
        name: "a set's pod comes back to its volume",
        proof: |world| volumes::of_a_set(world).boxed_local(),
    },
    Behaviour {
        name: "a claim that binds at once lies where its class allows",
        proof: |world| volumes::early_claim(world).boxed_local(),
    },
    Behaviour {
        name: "a volume more than a node attaches brings another node",
        proof: |world| volumes::past_the_limit(world).boxed_local(),
    },
];

/// Behaviours that affect the whole cluster, one after the other.
const FOR_ALL: &[Behaviour] = &[Behaviour {
    name: "a zone the cluster is shifted away from is left alone until it is over",
    proof: |world| shift::run(world).boxed_local(),
}];
