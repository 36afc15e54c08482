//! Nodes that go before what takes their place, while the process is killed: what refills their pool rests on what is there, so
//! nothing is lost and nothing is bought twice.

use std::cell::RefCell;
use std::time::Duration;

use karpenter_model::Settings;
use karpenter_model::settings::FeatureGates;

use super::*;

/// A moment of a command at which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The node is marked, and its claim still there.
    Marked,
    /// Its claim is being deleted.
    Deleting,
    /// What takes its place is coming up.
    Coming,
}

const MOMENTS: [Moment; 3] = [Moment::Marked, Moment::Deleting, Moment::Coming];

impl Moment {
    fn has_come(self, world: &World, old: &BTreeSet<String>) -> bool {
        let claims = world.claims();
        let ends = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
        match self {
            Self::Marked => claims.iter().any(|claim| condition(claim, "DisruptionReason") == "True"),
            Self::Deleting => claims.iter().any(ends),
            Self::Coming => claims
                .iter()
                .any(|claim| !old.contains(&claim.name_any()) && condition(claim, "Initialized") != "True"),
        }
    }
}

/// A pool of three nodes at its limit that loses those `broken` by `breaks`; the process is killed at `moment`. Returns the
/// machines that there ever were.
async fn killed_at(moment: Moment, gates: FeatureGates, breaks: fn(&World), broken: usize) -> usize {
    let world = World::new().await;
    let budgets = json!({"budgets": [{"nodes": "1"}]});
    world.pool("fixed", &json!({"replicas": 3, "limits": {"nodes": "3"}, "disruption": budgets}));
    let start = || world.start_deciding(Settings { gates, ..Settings::default() });
    let process = start();
    world.until("three nodes", 10 * MINUTE, || initialized(&world, 3)).await;
    let old = world.claim_names();
    let machines = RefCell::new(BTreeSet::new());
    let look = || {
        machines.borrow_mut().extend(world.account.machines().into_iter().map(|one| one.instance_id));
        assert!(world.claims().len() <= 3, "{moment:?}: the limit is three nodes");
    };
    look();
    breaks(&world);
    world.until("a node goes", 60 * MINUTE, || Moment::Marked.has_come(&world, &old)).await;
    let limit = tokio::time::Instant::now() + 10 * MINUTE;
    // What follows may take no time at all.
    while !moment.has_come(&world, &old) {
        assert!(tokio::time::Instant::now() < limit, "{moment:?} does not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    look();
    process.kill();
    let process = start();
    let over = || {
        look();
        let names = world.claim_names();
        names.intersection(&old).count() == 3 - broken && initialized(&world, 3)
    };
    world.until("the nodes are new", 120 * MINUTE, over).await;
    tokio::time::sleep(30 * MINUTE).await;
    look();
    assert!(initialized(&world, 3), "{moment:?}: it stays so");
    world.one_machine_per_claim().await;
    process.stop().await;
    machines.into_inner().len()
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_drift_that_terminates_first_loses_and_buys_nothing() {
    let gates =
        FeatureGates { static_capacity: true, terminate_first_drift: true, ..FeatureGates::default() };
    for moment in MOMENTS {
        assert_eq!(killed_at(moment, gates, drift_all, 3).await, 6, "{moment:?}: three old and three new");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_repair_that_terminates_first_loses_and_buys_nothing() {
    let gates = FeatureGates {
        static_capacity: true,
        node_repair: true,
        terminate_first_repair: true,
        ..FeatureGates::default()
    };
    let breaks = |world: &World| {
        let broken = world.account.machines().remove(0);
        world.agent.behave(broken.instance_id.as_str(), Behaviour::NotReady);
    };
    for moment in MOMENTS {
        assert_eq!(killed_at(moment, gates, breaks, 1).await, 4, "{moment:?}: three old and a new one");
    }
}
