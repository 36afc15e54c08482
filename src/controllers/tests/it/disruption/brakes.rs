//! The brakes: each holds, says so in a metric, an event and an explanation, lets go again, and can be set.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_kube_sim::kubelet::Behaviour;
use karpenter_model::settings::{Brakes, DisruptionSettings, FeatureGates};
use karpenter_model::{CapacityType, Settings};
use karpenter_testkit::objects::one_of;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::Instant;

use super::{drift_all, drift_only, initialized, pool, replacements_never_join, settled};
use crate::world::{MINUTE, Process, SECOND, World};

fn braking(brakes: Brakes) -> Settings {
    let disruption = DisruptionSettings { brakes, ..DisruptionSettings::default() };
    let gates = FeatureGates { static_capacity: true, ..FeatureGates::default() };
    Settings { disruption, gates, ..Settings::default() }
}

/// Returns whether `brake` holds this number of machines.
fn holds(process: &Process, brake: &str, machines: u32) -> bool {
    (process.metrics.disruption.held_nodes.value([brake]) - f64::from(machines)).abs() < f64::EPSILON
}

/// Checks that event and explanation report the brake, by this reason and text.
fn told(world: &World, process: &Process, code: &str, text: &str) {
    let events = process.events.messages("DisruptionHeld");
    assert!(events.iter().any(|message| message.contains(text)), "{events:?}");
    let nodes = world.nodes();
    let answers = nodes.iter().map(|node| process.explain(&format!("node/{}", node.name_any())));
    let codes: BTreeSet<String> =
        answers.flat_map(|answer| answer.reasons).map(|reason| reason.code).collect();
    assert!(codes.contains(code), "{codes:?}");
}

/// Three machines that drift at once, a few minutes after the start of a process with these brakes.
async fn three_drift(brakes: Brakes) -> (World, Process, BTreeSet<String>) {
    let world = World::with_pool(&pool(&["small"], &drift_only("100%"))).await;
    world.set("web", 3, "1500m");
    let process = world.start_deciding(braking(brakes));
    settled(&world, 3, 3).await;
    let old = world.claim_names();
    drift_all(&world);
    (world, process, old)
}

async fn all_new(world: &World, old: &BTreeSet<String>, machines: usize, limit: Duration) {
    world
        .until("all machines are new", limit, || {
            world.claim_names().is_disjoint(old) && initialized(world, machines)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn drift_of_most_machines_after_a_start_waits_until_it_has_lasted() {
    let brakes = Brakes { mass_drift_least: 3, ..Brakes::default() };
    let (world, process, old) = three_drift(brakes.clone()).await;
    world.until("drift is held", 6 * MINUTE, || holds(&process, "mass_drift", 3)).await;
    told(&world, &process, "MassDrift", "3 of 3 nodes");
    tokio::time::sleep(brakes.mass_drift_hold - 2 * MINUTE).await;
    assert_eq!(world.claim_names(), old, "it has not lasted yet");
    all_new(&world, &old, 3, 20 * MINUTE).await;
    assert!(holds(&process, "mass_drift", 0));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_that_was_a_mistake_of_the_provider_costs_no_machine() {
    let (world, process, old) = three_drift(Brakes { mass_drift_least: 3, ..Brakes::default() }).await;
    world.until("drift is held", 6 * MINUTE, || holds(&process, "mass_drift", 3)).await;
    for machine in world.account.machines() {
        world.account.drift(&machine.provider_id, None);
    }
    tokio::time::sleep(30 * MINUTE).await;
    assert_eq!(world.claim_names(), old);
    assert!(holds(&process, "mass_drift", 0));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_of_few_machines_and_with_the_brake_off_does_not_wait() {
    let off = Brakes { mass_drift_least: 3, mass_drift_percent: 100, ..Brakes::default() };
    for brakes in [Brakes::default(), off] {
        let (world, process, old) = three_drift(brakes).await;
        // Noticed within five minutes, believed at once.
        all_new(&world, &old, 3, 9 * MINUTE).await;
        process.stop().await;
    }
}

/// One drifted machine whose replacements never join, under these brakes.
async fn no_replacement_joins(brakes: Brakes) -> (World, Process, BTreeSet<String>) {
    let world = World::with_pool(&pool(&["small"], &drift_only("100%"))).await;
    world.set("web", 1, "1");
    let process = world.start_deciding(braking(brakes));
    settled(&world, 1, 1).await;
    let old = world.claim_names();
    replacements_never_join(&world);
    drift_all(&world);
    let failures = &process.metrics.disruption.queue_failures_total;
    world
        .until("a command has failed", 20 * MINUTE, || failures.value(["replace", "drifted", ""]) == 1)
        .await;
    (world, process, old)
}

fn drift_commands(process: &Process) -> u64 {
    process.metrics.disruption.decisions_total.value(["replace", "drifted", ""])
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_replacements_do_not_come_up_keeps_its_machines_but_for_one_try_now_and_then() {
    let brakes = Brakes { health_gate_failures: 1, ..Brakes::default() };
    let (world, process, old) = no_replacement_joins(brakes.clone()).await;
    // The replacement that hangs is deleted after a quarter of an hour; until then pods could go there.
    world.until("the gate is closed", 10 * MINUTE, || holds(&process, "health_gate", 1)).await;
    told(&world, &process, "HealthGate", "pool default");
    // It was closed when the command failed, before the claim that hung was gone.
    tokio::time::sleep(brakes.health_gate_pause - 12 * MINUTE).await;
    assert_eq!(drift_commands(&process), 1, "none is tried meanwhile");
    world.agent.behave_all(Behaviour::Healthy);
    all_new(&world, &old, 1, 30 * MINUTE).await;
    assert_eq!(drift_commands(&process), 2, "one more try was enough");
    assert!(holds(&process, "health_gate", 0));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_health_gate_the_next_try_follows_at_once() {
    let (world, process, _old) =
        no_replacement_joins(Brakes { health_gate_failures: 0, ..Brakes::default() }).await;
    world.until("another try", 10 * MINUTE, || drift_commands(&process) == 2).await;
    assert!(holds(&process, "health_gate", 0));
    process.stop().await;
}

fn is_of(world: &World, capacity_type: &str) -> bool {
    let nodes = world.nodes();
    nodes.len() == 1
        && initialized(world, 1)
        && world.runs(1)
        && nodes.iter().all(|node| node.labels()["karpenter.sh/capacity-type"] == capacity_type)
}

/// A machine on demand that took over from a spot machine a moment ago, when there was no spot capacity; now there is.
async fn went_from_spot_to_on_demand(brakes: Brakes) -> (World, Process) {
    let world = World::new().await;
    let types = [one_of("node.kubernetes.io/instance-type", &["small"])];
    let after = json!({"consolidateAfter": "30s"});
    world.pool("default", &json!({"template": {"spec": {"requirements": types}}, "disruption": after}));
    world.set("web", 1, "1");
    let process = world.start_deciding(braking(brakes));
    world.until("a spot machine", 5 * MINUTE, || is_of(&world, "spot")).await;
    world.exhaust("small", &[CapacityType::Spot]);
    drift_all(&world);
    world.until("one on demand", 20 * MINUTE, || is_of(&world, "on-demand")).await;
    world.restock("small", &[CapacityType::Spot]);
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn a_machine_does_not_go_back_to_what_it_just_was() {
    let brakes = Brakes::default();
    let (world, process) = went_from_spot_to_on_demand(brakes.clone()).await;
    world.until("going back is held", 5 * MINUTE, || holds(&process, "anti_flap", 1)).await;
    told(&world, &process, "AntiFlap", "from small (spot)");
    assert!(is_of(&world, "on-demand"));
    let began = Instant::now();
    world.until("later it may", 30 * MINUTE, || is_of(&world, "spot")).await;
    assert!(began.elapsed() > brakes.anti_flap_window / 2, "{:?}", began.elapsed());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_memory_of_what_was_it_does() {
    let brakes = Brakes { anti_flap_window: Duration::ZERO, ..Brakes::default() };
    let (world, process) = went_from_spot_to_on_demand(brakes).await;
    world.until("it is spot again", 5 * MINUTE, || is_of(&world, "spot")).await;
    assert!(holds(&process, "anti_flap", 0));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_commands_start_within_a_minute_than_are_allowed() {
    let (world, process, old) = three_drift(Brakes { commands_per_minute: 1, ..Brakes::default() }).await;
    let mut at = Vec::new();
    for count in 1..=3 {
        world.until("one more command", 10 * MINUTE, || drift_commands(&process) >= count).await;
        assert_eq!(drift_commands(&process), count);
        at.push(Instant::now());
        if count == 1 {
            world.until("the others wait", MINUTE, || holds(&process, "command_rate", 2)).await;
            told(&world, &process, "CommandRate", "1 per minute");
        }
    }
    // Looked at every second.
    let least = MINUTE - 2 * SECOND;
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= least), "{at:?}");
    all_new(&world, &old, 3, 10 * MINUTE).await;
    process.stop().await;
}

/// A drifted machine of a fixed pool, in a cloud that has sold out; and what claims there were before.
async fn nothing_to_be_had(brakes: Brakes) -> (World, Process, BTreeSet<String>) {
    let world = World::new().await;
    let mut fixed = pool(&["small"], &json!({"budgets": [{"nodes": "100%"}]}));
    fixed["replicas"] = json!(1);
    world.pool("fixed", &fixed);
    // A launch that fails is a replacement that does not come up, which is another brake's business.
    let process = world.start_deciding(braking(Brakes { health_gate_failures: 0, ..brakes }));
    world.until("a node", 5 * MINUTE, || initialized(&world, 1)).await;
    let old = world.claim_names();
    world.exhaust("small", &[CapacityType::OnDemand]);
    drift_all(&world);
    (world, process, old)
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_fixed_pool_stays_while_nothing_can_be_launched_in_its_place() {
    let (world, process, old) = nothing_to_be_had(Brakes::default()).await;
    world.until("drift is held", 10 * MINUTE, || holds(&process, "no_capacity", 1)).await;
    told(&world, &process, "NoCapacity", "pool fixed");
    tokio::time::sleep(10 * MINUTE).await;
    assert!(old.is_subset(&world.claim_names()), "the machine stays");
    // A lack of capacity is believed for three minutes, and then there is one more try.
    assert!(drift_commands(&process) <= 6, "{} tries", drift_commands(&process));
    world.restock("small", &[CapacityType::OnDemand]);
    all_new(&world, &old, 1, 10 * MINUTE).await;
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_that_brake_off_it_stays_all_the_same_but_launches_are_tried_again_and_again() {
    let brakes = Brakes { launchable_capacity: false, ..Brakes::default() };
    let (world, process, old) = nothing_to_be_had(brakes).await;
    // Each waits for longer after the one before it failed.
    world.until("several tries", 30 * MINUTE, || drift_commands(&process) > 5).await;
    assert!(holds(&process, "no_capacity", 0));
    assert!(old.is_subset(&world.claim_names()));
    process.stop().await;
}
