//! An idle cluster is not looked at again and again, and nothing is overlooked because of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_engine::disrupt::{Decision, Memory, Standing, decide};
use karpenter_model::{Method, Snapshot};
use karpenter_testkit::snapshot;

const WORLD: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
pool  web types=* budget=1 budget=0@@0_12_*_*_*/1h
pool  tight types=small limit=nodes=1 budget=100%
node  a pool=web type=small zone=a capacity=on-demand drifted=1h
node  b pool=tight type=small zone=a capacity=on-demand drifted=1h
pod   p cpu=1500m on=a
pod   q cpu=1500m select=pool=none on=b
";

fn look(snapshot: &Snapshot, memory: &mut Memory) -> Decision {
    decide(snapshot, memory, &Standing { proposed: &[], running: &BTreeSet::new() })
}

fn at(minutes: i64) -> Snapshot {
    let mut world = snapshot(WORLD);
    world.now += SignedDuration::from_mins(minutes);
    world
}

#[test]
fn what_found_nothing_is_not_simulated_again_but_says_the_same() {
    let memory = &mut Memory::default();
    let first = look(&at(0), memory);
    assert_eq!(first.methods[&Method::Drift].simulations, 1, "a has no budget, b is simulated");
    let second = look(&at(1), memory);
    assert_eq!(second.methods[&Method::Drift].simulations, 0);
    assert_eq!(first.nodes, second.nodes);
    let third = look(&at(6), memory);
    assert_eq!(third.methods[&Method::Drift].simulations, 1, "after five minutes it is looked at again");
}

#[test]
fn a_window_that_closes_is_noticed_although_nothing_else_has_changed() {
    let memory = &mut Memory::default();
    assert_eq!(look(&at(58), memory).commands, []);
    let open = look(&at(60), memory);
    assert_eq!(open.commands.len(), 1);
    assert_eq!(open.commands[0].nodes().map(ToString::to_string).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_new_revision_is_looked_at() {
    let memory = &mut Memory::default();
    look(&at(0), memory);
    let mut changed = at(1);
    changed.revision += 1;
    assert_eq!(look(&changed, memory).methods[&Method::Drift].simulations, 1);
}

#[test]
fn the_memory_never_changes_what_is_decided() {
    let fresh = look(&at(60), &mut Memory::default());
    let memory = &mut Memory::default();
    for minute in 0..60 {
        look(&at(minute), memory);
    }
    assert_eq!(look(&at(60), memory).commands, fresh.commands);
    let mut other = at(60);
    Arc::make_mut(&mut other.settings).disruption.simulations_per_pass = 1;
    assert_eq!(
        look(&other, &mut Memory::default()).commands,
        fresh.commands,
        "one simulation is enough here"
    );
}
