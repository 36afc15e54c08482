//! Disruption from outside: golden scenarios, each of which must pass the audit.

mod alternation;
mod brakes;
mod budgets;
mod buffers;
mod convergence;
mod history;
mod properties;
mod refused;
mod repair;
mod second_look;
mod settled;
mod windows;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{About, Decision, Memory, Standing, decide};
use karpenter_model::{Plan, Snapshot};
use karpenter_testkit::{render, scenario, snapshot};

/// Returns the decision when nothing is under way.
fn decided(snapshot: &Snapshot) -> Arc<Decision> {
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    decide(snapshot, &mut Memory::default(), &standing)
}

#[test]
fn every_scenario_gives_its_commands() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/disruption");
    scenario::check_all(&directory, |fixture| {
        let snapshot = snapshot(fixture);
        let decision = decided(&snapshot);
        let plan = Plan { commands: decision.commands.clone(), ..Plan::default() };
        assert_eq!(audit(&snapshot, &plan), [], "{fixture}");
        rendered(&decision)
    });
}

/// Commands, why the other machines stay, events, and what brakes hold.
fn rendered(decision: &Decision) -> String {
    let mut text = render::disruption(&decision.commands, &decision.nodes);
    for note in decision.notes.iter().filter(|note| !note.kind.as_str().contains("Consolidation")) {
        let about = match &note.about {
            About::Machine(node) => format!("node {node}"),
            About::Pool(pool) => format!("pool {pool}"),
        };
        let _ = writeln!(text, "event {} on {about}: {}", note.kind.as_str(), note.message);
    }
    for (brake, nodes) in &decision.held {
        let _ = writeln!(text, "brake {} holds {nodes}", brake.as_str());
    }
    text
}
