//! Properties of every cluster: commands pass the audit, alone and together with those under way; budgets are never
//! exceeded; every machine has an outcome; order does not matter; nothing changed means nothing rejected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{Decision, Memory, RejectionKind, Standing, confirm, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, NodeId, NodeOutcome, Plan, PoolName, Snapshot};
use karpenter_testkit::disruptable;

use super::decided;

/// Clusters per property, unless the environment asks for more; a failure names its number.
const SEEDS: u64 = 300;

/// Number of clusters a property is tried on.
pub(super) fn seeds() -> u64 {
    karpenter_testkit::seeds(SEEDS)
}

fn clusters() -> impl Iterator<Item = (u64, Snapshot)> {
    (0..seeds()).map(|seed| (seed, disruptable::cluster(seed)))
}

fn plan(snapshot: &Snapshot, commands: Vec<Command>) -> Plan {
    Plan { revision: snapshot.revision, commands, ..Plan::default() }
}

/// `snapshot` with its lists in another order.
fn shuffled(snapshot: &Snapshot, seed: u64) -> Snapshot {
    let rng = &mut Rng::with_seed(seed);
    let mut shuffled = snapshot.clone();
    rng.shuffle(&mut shuffled.nodes);
    rng.shuffle(&mut shuffled.pools);
    rng.shuffle(&mut shuffled.pending);
    let mut budgets: Vec<_> = snapshot.budgets.iter().cloned().collect();
    rng.shuffle(&mut budgets);
    shuffled.budgets = budgets.into_iter().collect();
    for types in shuffled.instance_types.values_mut() {
        let mut list = types.to_vec();
        rng.shuffle(&mut list);
        *types = list.into();
    }
    shuffled
}

#[test]
fn every_decision_passes_the_audit() {
    for (seed, snapshot) in clusters() {
        let decision = decided(&snapshot);
        let findings = audit(&snapshot, &plan(&snapshot, decision.commands.clone()));
        assert!(findings.is_empty(), "seed {seed}: {findings:#?}\n{}", disruptable::text(seed));
    }
}

#[test]
fn the_generated_clusters_reach_every_method_and_most_reasons() {
    let (mut methods, mut reasons) = (BTreeSet::new(), BTreeSet::new());
    for (_, snapshot) in clusters() {
        for outcome in decided(&snapshot).nodes.values() {
            match outcome {
                NodeOutcome::Removed(method) => drop(methods.insert(*method)),
                NodeOutcome::Rebooted => drop(methods.insert(Method::Repair)),
                NodeOutcome::Kept(reason) => drop(reasons.insert(reason.code)),
            }
        }
    }
    assert!(methods.len() >= 5, "{methods:?}");
    assert!(reasons.len() >= 18, "{reasons:?}");
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for (seed, snapshot) in clusters() {
        let again = decided(&shuffled(&snapshot, seed));
        assert_eq!(format!("{:#?}", decided(&snapshot)), format!("{again:#?}"), "seed {seed}");
    }
}

#[test]
fn every_machine_has_an_outcome_and_is_in_at_most_one_command() {
    for (seed, snapshot) in clusters() {
        let Decision { commands, nodes, .. } = &*decided(&snapshot);
        let mut chosen: BTreeMap<NodeId, _> = BTreeMap::new();
        for command in commands {
            for node in command.nodes() {
                let outcome = if command.is_reboot() {
                    NodeOutcome::Rebooted
                } else {
                    NodeOutcome::Removed(command.method)
                };
                let twice = chosen.insert(node.clone(), outcome);
                assert!(twice.is_none(), "seed {seed}: {node} is in two commands");
            }
        }
        for node in &snapshot.nodes {
            let outcome = nodes.get(&node.id).unwrap_or_else(|| panic!("seed {seed}: {}", node.id));
            let removed =
                matches!(outcome, NodeOutcome::Removed(_) | NodeOutcome::Rebooted).then_some(outcome);
            assert_eq!(chosen.get(&node.id), removed, "seed {seed}: {}", node.id);
        }
    }
}

#[test]
fn budgets_hold_at_the_start_of_every_command() {
    for (seed, snapshot) in clusters() {
        let decision = decided(&snapshot);
        let mut gone: BTreeMap<PoolName, u32> = BTreeMap::new();
        for command in &decision.commands {
            for candidate in &command.candidates {
                let node = snapshot.nodes.iter().find(|node| node.id == candidate.target.id);
                // It counted before, and goes on counting.
                if command.method == Method::Emptiness && node.is_some_and(|node| !node.ready) {
                    continue;
                }
                *gone.entry(candidate.pool.clone()).or_default() += 1;
                let state = decision.budgets[&(candidate.pool.clone(), command.reason)];
                let disrupted = state.consuming + gone[&candidate.pool];
                assert!(disrupted <= state.allowed, "seed {seed}: {} {state:?}", candidate.pool);
            }
        }
    }
}

#[test]
fn a_second_look_at_an_unchanged_world_changes_nothing() {
    for (seed, snapshot) in clusters() {
        let commands = decided(&snapshot).commands.clone();
        let standing = Standing { proposed: &[], running: &BTreeSet::new() };
        for (command, answer) in commands.iter().zip(confirm(&snapshot, &commands, &standing)) {
            assert_eq!(answer.as_ref(), Ok(command), "seed {seed}:\n{}", disruptable::text(seed));
        }
        assert_eq!(audit(&snapshot, &plan(&snapshot, commands)), [], "seed {seed}");
    }
}

#[test]
fn commands_of_one_pass_are_confirmed_in_whatever_order_they_are_looked_at() {
    let mut among_others = 0;
    for (seed, snapshot) in clusters() {
        let commands = decided(&snapshot).commands.clone();
        let running: BTreeSet<NodeId> = commands.iter().flat_map(Command::nodes).cloned().collect();
        // Every command has started, and each is looked at by itself: rounds may come in any order.
        let standing = Standing { proposed: &commands, running: &running };
        // Empty nodes have no pods that commands could send to different places.
        for command in commands.iter().filter(|command| command.method != Method::Emptiness) {
            let answer = confirm(&snapshot, std::slice::from_ref(command), &standing).remove(0);
            // A budget counts every node that goes, whatever is asked for first.
            if answer.as_ref().is_err_and(|rejection| rejection.kind == RejectionKind::Budget) {
                continue;
            }
            assert_eq!(answer.as_ref(), Ok(command), "seed {seed}:\n{}", disruptable::text(seed));
            among_others += usize::from(commands.len() > 1);
        }
    }
    assert!(among_others > 40, "only {among_others} commands had others beside them");
}

#[test]
fn looking_at_commands_together_says_what_looking_at_one_after_the_other_says() {
    for ((seed, before), (_, after)) in clusters().zip(clusters().skip(1)).take(300) {
        let commands = decided(&before).commands.clone();
        // The world has changed: that of the next seed has machines of the same names.
        for snapshot in [&before, &after] {
            let running = BTreeSet::new();
            let mut started: Vec<Command> = Vec::new();
            let mut apart = Vec::new();
            for command in &commands {
                let standing = Standing { proposed: &started, running: &running };
                let answer = confirm(snapshot, std::slice::from_ref(command), &standing).remove(0);
                started.extend(answer.clone().ok());
                apart.push(answer);
            }
            let together = confirm(snapshot, &commands, &Standing { proposed: &[], running: &running });
            assert_eq!(together, apart, "seed {seed}");
            let findings = audit(snapshot, &plan(snapshot, started));
            let removed: Vec<_> =
                findings.iter().filter(|finding| finding.rule == karpenter_audit::Rule::Removal).collect();
            assert!(removed.is_empty(), "seed {seed}: {removed:?}");
        }
    }
}

#[test]
fn what_is_decided_next_to_commands_under_way_goes_together_with_them() {
    for (seed, snapshot) in clusters() {
        let memory = &mut Memory::default();
        let running = BTreeSet::new();
        let mut all: Vec<Command> = Vec::new();
        for _ in 0..3 {
            let more =
                decide(&snapshot, memory, &Standing { proposed: &all, running: &running }).commands.clone();
            let before: BTreeSet<NodeId> = all.iter().flat_map(Command::nodes).cloned().collect();
            assert!(more.iter().flat_map(Command::nodes).all(|node| !before.contains(node)), "seed {seed}");
            all.extend(more);
        }
        let findings = audit(&snapshot, &plan(&snapshot, all));
        let budgets: Vec<_> =
            findings.iter().filter(|finding| finding.rule == karpenter_audit::Rule::Budget).collect();
        assert!(budgets.is_empty(), "seed {seed}: {budgets:?}");
    }
}

#[test]
fn however_little_a_pass_may_simulate_every_machine_has_its_turn() {
    for (seed, mut frugal) in clusters().take(100) {
        let settings = Arc::make_mut(&mut frugal.settings);
        settings.disruption.simulations_per_pass = 1;
        settings.disruption.brakes.commands_per_minute = 0;
        let memory = &mut Memory::default();
        let running = BTreeSet::new();
        let mut proposed: Vec<Command> = Vec::new();
        let mut waiting = BTreeSet::new();
        // No machine is looked at twice before all were looked at once, whatever is decided meanwhile.
        for pass in 0..40 {
            let standing = Standing { proposed: &proposed, running: &running };
            let decision = decide(&frugal, memory, &standing);
            waiting = decision
                .nodes
                .iter()
                .filter(|(_, outcome)| matches!(outcome, NodeOutcome::Kept(why) if why.code == ReasonCode::NextPass))
                .map(|(node, _)| node.clone())
                .collect();
            proposed.extend(decision.commands.iter().cloned());
            if pass > 10 && waiting.is_empty() {
                break;
            }
        }
        assert!(waiting.is_empty(), "seed {seed}: {waiting:?}");
    }
}
