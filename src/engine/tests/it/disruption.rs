//! Disruption from outside: golden scenarios, each of which must pass the audit.

mod properties;

use std::collections::BTreeSet;
use std::path::Path;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{Decision, Memory, Standing, decide};
use karpenter_model::{Plan, Snapshot};
use karpenter_testkit::{render, scenario, snapshot};

/// What is decided when nothing is under way.
fn decided(snapshot: &Snapshot) -> Decision {
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
        render::disruption(&decision.commands, &decision.nodes)
    });
}
