//! An idle cluster is not looked at again and again, and nothing is overlooked because of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use jiff::SignedDuration;
use karpenter_engine::disrupt::{Decision, Memory, Standing, decide};
use karpenter_model::{Command, Method, Node, PodBudgets, Snapshot};
use karpenter_testkit::{disruptable, snapshot};

use super::properties::seeds;

const WORLD: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
pool  web types=* budget=1 budget=0@@0_12_*_*_*/1h
pool  tight types=small limit=nodes=1 budget=100%
node  a pool=web type=small zone=a capacity=on-demand drifted=1h
node  b pool=tight type=small zone=a capacity=on-demand drifted=1h
pod   p cpu=1500m on=a
pod   q cpu=1500m select=pool=none on=b
";

fn look(snapshot: &Snapshot, memory: &mut Memory) -> Arc<Decision> {
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

/// A deep copy of the cluster: equal objects at other addresses.
fn copied(snapshot: &Snapshot) -> Snapshot {
    let nodes = snapshot.nodes.iter().map(|node| Arc::new(Node::clone(node)));
    Snapshot { nodes: nodes.collect(), ..snapshot.clone() }
}

fn after(snapshot: &Snapshot, seconds: i64) -> Snapshot {
    Snapshot { now: snapshot.now + SignedDuration::from_secs(seconds), ..snapshot.clone() }
}

#[test]
fn a_pass_over_an_unchanged_cluster_allocates_nothing() {
    let cluster = disruptable::cluster(7);
    let (memory, none) = (&mut Memory::default(), BTreeSet::new());
    let mut proposed: Vec<Command> = Vec::new();
    for _ in 0..20 {
        let standing = Standing { proposed: &proposed, running: &none };
        let more = decide(&cluster, memory, &standing).commands.clone();
        proposed.extend(more);
    }
    // As the controller does it: a snapshot of its own for every pass.
    let next = after(&cluster, 1);
    let standing = Standing { proposed: &proposed, running: &none };
    let mut decision = None;
    let allocated = allocation_counter::measure(|| decision = Some(decide(&next, memory, &standing)));
    assert_eq!(allocated.count_total, 0);
    let again = decide(&after(&cluster, 2), memory, &standing);
    assert!(decision.is_some_and(|decision| Arc::ptr_eq(&decision, &again)), "the same decision");
    assert_eq!(decide(&copied(&next), memory, &standing), again, "and the one that looking again gives");
}

#[test]
fn a_decision_that_is_handed_back_is_the_one_that_would_be_made_anew() {
    let (mut handed_back, mut changed) = (0, 0);
    for seed in 0..seeds() / 5 {
        let rng = &mut Rng::with_seed(seed);
        let mut cluster = disruptable::cluster(seed);
        let (memory, none) = (&mut Memory::default(), BTreeSet::new());
        let mut proposed: Vec<Command> = Vec::new();
        let mut last: Option<Arc<Decision>> = None;
        for step in 0..40 {
            // A copy cannot be recognised, so the other memory looks at everything.
            let standing = Standing { proposed: &proposed, running: &none };
            let anew = decide(&copied(&cluster), &mut memory.clone(), &standing);
            let decision = decide(&cluster, memory, &standing);
            assert_eq!(decision.commands, anew.commands, "seed {seed}, step {step}");
            assert_eq!(decision.nodes, anew.nodes, "seed {seed}, step {step}");
            assert_eq!(decision.budgets, anew.budgets, "seed {seed}, step {step}");
            assert_eq!(decision.held, anew.held, "seed {seed}, step {step}");
            match &last {
                Some(last) if Arc::ptr_eq(last, &decision) => handed_back += 1,
                Some(last) if last.commands.is_empty() => changed += u32::from(last.nodes != decision.nodes),
                _ => {}
            }
            proposed.extend(decision.commands.iter().cloned());
            last = Some(decision);
            cluster = after(&cluster, [1, 10, 10, 60, 290][rng.usize(0..5)]);
        }
    }
    assert!(handed_back > 10 * changed && changed > 3, "{handed_back} handed back, {changed} changed");
}

/// Name of a change, and the change.
type Change = (&'static str, fn(&mut Snapshot));

#[test]
fn whatever_changes_is_looked_at() {
    let text = "
set   devices=on
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a,b
slice shelf device=g0
pool  web types=* budget=0
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=small zone=a capacity=on-demand
pod   p cpu=1 on=b
pod   waits cpu=64
daemon logs cpu=100m
namespace other label=team=x
volume data driver=ebs.csi.aws.com at=zone:In:a
pdb   guard label=app=x
";
    let changes: [Change; 12] = [
        ("revision", |world| world.revision += 1),
        ("settings", |world| world.settings = Arc::new((*world.settings).clone())),
        ("registry", |world| world.registry = Arc::new((*world.registry).clone())),
        ("pools", |world| Arc::make_mut(&mut world.pools[0]).disruption.budgets.clear()),
        ("instance types", |world| world.instance_types.clear()),
        ("nodes", |world| Arc::make_mut(&mut world.nodes[0]).ready = false),
        ("pods that wait", |world| world.pending.clear()),
        ("daemons", |world| world.daemons.clear()),
        ("volumes", |world| world.volumes.clear()),
        ("namespaces", |world| world.namespaces.clear()),
        ("devices", |world| Arc::make_mut(&mut world.devices).slices.clear()),
        ("budgets of pods", |world| world.budgets = PodBudgets::default()),
    ];
    for (what, change) in changes {
        let (world, memory) = (snapshot(text), &mut Memory::default());
        look(&world, memory);
        let known = look(&world, memory);
        assert!(Arc::ptr_eq(&known, &look(&world.clone(), memory)), "nothing has changed");
        let mut other = world.clone();
        change(&mut other);
        assert!(!Arc::ptr_eq(&known, &look(&other, memory)), "{what}");
    }
    let (world, memory) = (snapshot(text), &mut Memory::default());
    let known = [look(&world, memory), look(&world, memory)];
    assert!(!Arc::ptr_eq(&known[1], &look(&after(&world, -1), memory)), "a clock that goes back");
    let running: BTreeSet<_> = ["a".into()].into();
    let again = decide(&world, memory, &Standing { proposed: &[], running: &running });
    assert!(!Arc::ptr_eq(&known[1], &again), "what is under way");
}

#[test]
fn a_device_that_appears_is_noticed_although_nothing_else_has_changed() {
    // The pod needs the one device there is, until there is another one where its new machine would be.
    let text = "
set   devices=on
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
deviceclass gpu select=device.driver==\"gpu.test\"
pool  web types=* budget=100%
node  a pool=web type=small zone=a capacity=on-demand drifted=1h
resourceclaim own class=gpu
pod   p cpu=1 claim=own on=a
";
    let (world, memory) = (snapshot(text), &mut Memory::default());
    // As the controller does it: a list of devices of its own for every snapshot.
    let again = |world: &Snapshot, seconds| Snapshot {
        devices: Arc::new((*world.devices).clone()),
        ..after(world, seconds)
    };
    for seconds in [0, 10, 20] {
        assert_eq!(look(&again(&world, seconds), memory).commands, [], "after {seconds} s");
    }
    let known = look(&again(&world, 30), memory);
    assert!(Arc::ptr_eq(&known, &look(&again(&world, 40), memory)), "equal devices are the same");
    let more = |world: Snapshot| Snapshot {
        devices: snapshot(&format!("{text}slice shelf device=g0\n")).devices,
        revision: world.revision + 1,
        ..world
    };
    assert_eq!(look(&more(after(&world, 50)), memory).commands.len(), 1);
    // Decisions about copied nodes are not handed back, but methods may still be settled.
    let settled = &mut Memory::default();
    assert_eq!(look(&copied(&again(&world, 0)), settled).commands, []);
    assert_eq!(look(&more(copied(&after(&world, 10))), settled).commands.len(), 1);
}

#[test]
fn a_place_that_opens_with_time_is_noticed_although_nothing_else_has_changed() {
    let text = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
pool  web types=* budget=100% consolidate=10m
node  a pool=web type=small zone=a capacity=on-demand
node  busy pool=web type=small zone=a capacity=on-demand quiet=8m
pod   p cpu=1 on=a
pod   guard cpu=500m do-not-disrupt on=busy
";
    let (world, memory) = (snapshot(text), &mut Memory::default());
    for seconds in [0, 60, 119] {
        assert_eq!(look(&after(&world, seconds), memory).commands, [], "after {seconds} s");
    }
    let commands = &look(&after(&world, 120), memory).commands;
    assert_eq!(commands.len(), 1, "the other machine takes pods now");
}
