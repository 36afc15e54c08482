//! Capacity that was paid for ahead is used first, as far as it goes, and no pod waits for capacity that is
//! not there.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use karpenter_aws_api::id::ReservationId;
use karpenter_model::names::{self, label::aws};
use serde_json::{Value, json};

use crate::account::control::NewReservation;
use crate::manifests::{self, merged};
use crate::scenario::facts::{self, label};
use crate::scenario::test_namespace::{
    TestNamespace, by_label, class_like_default, class_says, needs, refers_to, requiring, told,
};
use crate::world::World;

/// Two pods that do not share a node, and a reservation for one: the other node is bought.
pub(super) async fn first(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "reserved").await?;
    let wanted = NewReservation { tags: bought_for("reserved"), ..NewReservation::of("m5.large", ZONE, 1) };
    let reservation = world.control()?.reserve(&wanted).await?;
    pool(&test, "reserved").await?;
    let apart = json!({
        "topologyKey": names::label::HOSTNAME,
        "labelSelector": {"matchLabels": {"app": "worker"}},
    });
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}});
    test.pods("worker", 2, json!({"spec": {"affinity": affinity}})).await?;

    let nodes = test.running("worker", 2).await?;
    let kinds = by_label(&nodes, names::label::CAPACITY_TYPE);
    let expected: BTreeMap<_, _> = [("on-demand".to_owned(), 1), ("reserved".to_owned(), 1)].into();
    ensure!(kinds == expected, "pods by capacity type: {kinds:?}");
    let reserved = nodes.iter().find(|node| label(*node, names::label::CAPACITY_TYPE) == "reserved");
    let reserved = reserved.context("one of two nodes is reserved")?;
    for (key, value) in [
        (aws::CAPACITY_RESERVATION_ID, reservation.as_str()),
        (aws::CAPACITY_RESERVATION_TYPE, "default"),
        (names::label::ZONE, ZONE),
    ] {
        let found = label(reserved, key);
        ensure!(found == value, "the reserved node has {key}={found}, expected {value}");
    }
    let id = reserved.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    let instances = facts::instances(world).await?;
    let instance = instances.iter().find(|instance| id.ends_with(instance.id.as_str()));
    let runs_in = instance.and_then(|instance| instance.reservation.as_ref()).map(ReservationId::as_str);
    ensure!(runs_in == Some(reservation.as_str()), "`{id}` runs in {runs_in:?}, not in {reservation}");
    Ok(())
}

/// EC2 reports two instances left and has none: the first launch finds out, the next is bought.
pub(super) async fn overstated(world: &World) -> Result<()> {
    let test = TestNamespace::open(world, "overstated").await?;
    let wanted = NewReservation {
        tags: bought_for("overstated"),
        overstated: 2,
        ..NewReservation::of("m5.large", ZONE, 0)
    };
    world.control()?.reserve(&wanted).await?;
    pool(&test, "overstated").await?;
    test.pods("worker", 1, json!({})).await?;

    let nodes = test.running("worker", 1).await?;
    let kinds = by_label(&nodes, names::label::CAPACITY_TYPE);
    ensure!(kinds.keys().eq(["on-demand"]), "pods by capacity type: {kinds:?}");
    told(world, "default", "overstated-", "InsufficientCapacityError", "ReservationCapacityExceeded").await
}

/// Zone of the reservations.
const ZONE: &str = "us-west-2a";

fn bought_for(name: &str) -> BTreeMap<String, String> {
    [("bought-for".to_owned(), name.to_owned())].into()
}

/// A class that selects the reservations bought for `name`, and a pool that takes them and what is bought.
async fn pool(test: &TestNamespace<'_>, name: &str) -> Result<()> {
    let world = test.world;
    let terms = json!({"capacityReservationSelectorTerms": [{"tags": bought_for(name)}]});
    manifests::apply_json(&world.client, class_like_default(world, name, terms).await?).await?;
    class_says(world, name, ("CapacityReservationsReady", "True", "CapacityReservationsReady")).await?;
    class_says(world, name, ("Ready", "True", "Ready")).await?;
    test.ready_pool(name, merged(refers_to(name), machines())).await
}

fn machines() -> Value {
    requiring(json!([
        needs(names::label::INSTANCE_TYPE, &["m5.large"]),
        needs(names::label::CAPACITY_TYPE, &["reserved", "on-demand"]),
    ]))
}
