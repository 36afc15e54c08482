//! A command that a second look refused is not proposed again at once, and again, and again.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_engine::disrupt::{Decision, Memory, Rejection, RejectionKind, Standing, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, NodeOutcome, Snapshot};
use karpenter_testkit::snapshot;

const WORLD: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
pool  web types=* budget=100%
node  a pool=web type=small zone=a capacity=on-demand
node  other pool=web type=small zone=a capacity=on-demand annotation=karpenter.sh/do-not-disrupt=true
pod   p cpu=1 on=a
";

fn at(text: &str, seconds: i64) -> Snapshot {
    let mut world = snapshot(text);
    world.now += SignedDuration::from_secs(seconds);
    world
}

fn look(world: &Snapshot, memory: &mut Memory) -> Arc<Decision> {
    decide(world, memory, &Standing { proposed: &[], running: &BTreeSet::new() })
}

/// The rejection of all machines of `command` by a second look.
fn against(command: &Command) -> Rejection {
    let nodes = command.nodes().cloned().collect();
    Rejection { kind: RejectionKind::Scheduling, nodes, detail: "no place for p".into() }
}

#[test]
fn a_machine_waits_twice_as_long_after_every_refusal_up_to_five_minutes() {
    let memory = &mut Memory::default();
    let mut now = 0;
    for wait in [30, 60, 120, 240, 300, 300] {
        let world = at(WORLD, now);
        let proposed = look(&world, memory).commands.clone();
        assert_eq!(proposed.len(), 1, "proposed at {now}");
        memory.rejected(&proposed[0], &against(&proposed[0]), world.now);
        for seconds in [0, 10, wait - 1] {
            let decision = look(&at(WORLD, now + seconds), memory);
            assert_eq!(decision.commands, [], "{seconds} s after the refusal at {now}");
            let Some(NodeOutcome::Kept(why)) = decision.nodes.get("a") else { panic!("{decision:?}") };
            assert_eq!(why.code, ReasonCode::Rejected);
            assert!(why.detail.starts_with("scheduling: no place for p, until 2026-"), "{}", why.detail);
        }
        now += wait;
    }
    // Long quiet: the next refusal is the first again.
    now += 900;
    let world = at(WORLD, now);
    let again = look(&world, memory).commands[0].clone();
    memory.rejected(&again, &against(&again), world.now);
    assert_eq!(look(&at(WORLD, now + 29), memory).commands, []);
    assert_eq!(look(&at(WORLD, now + 30), memory).commands.len(), 1);
}

#[test]
fn a_refused_consolidation_does_not_hold_up_drift() {
    let memory = &mut Memory::default();
    let command = look(&at(WORLD, 0), memory).commands[0].clone();
    assert_eq!(command.method, Method::SingleNode);
    memory.rejected(&command, &against(&command), at(WORLD, 0).now);
    let decision = look(&at(&drifted(), 1), memory);
    assert_eq!(decision.commands.iter().map(|one| one.method).collect::<Vec<_>>(), [Method::Drift]);
}

#[test]
fn a_command_that_is_carried_out_wipes_the_slate() {
    let memory = &mut Memory::default();
    let command = look(&at(WORLD, 0), memory).commands[0].clone();
    memory.rejected(&command, &against(&command), at(WORLD, 0).now);
    memory.started(&command, &[], at(WORLD, 1).now);
    assert_eq!(look(&at(WORLD, 2), memory).commands, [], "it has proven nothing yet");
    memory.succeeded(&command);
    assert_eq!(look(&at(WORLD, 3), memory).commands.len(), 1);
}

#[test]
fn machines_of_a_command_that_failed_wait_longer_after_every_failure() {
    for (text, method) in [(WORLD.to_owned(), Method::SingleNode), (only_drifted(), Method::Drift)] {
        let memory = &mut Memory::default();
        let mut now = 0;
        for wait in [30, 60, 120, 240, 300] {
            let command = look(&at(&text, now), memory).commands[0].clone();
            assert_eq!(command.method, method);
            memory.started(&command, &[], at(&text, now).now);
            memory.rolled_back(&command, "pool `web` is at its limits", at(&text, now).now);
            let decision = look(&at(&text, now + wait - 1), memory);
            assert_eq!(decision.commands, [], "{wait} s after the failure at {now}");
            let Some(NodeOutcome::Kept(why)) = decision.nodes.get("a") else { panic!("{decision:?}") };
            let said = "rolled back, pool `web` is at its limits, until 2026-";
            assert!(why.detail.starts_with(said), "{}", why.detail);
            now += wait;
        }
    }
}

fn drifted() -> String {
    WORLD.replacen("capacity=on-demand", "capacity=on-demand drifted=1m", 1)
}

/// Returns the world where nothing but drift takes the machine.
fn only_drifted() -> String {
    drifted().replace("budget=100%", "budget=100% consolidate=never")
}

#[test]
fn only_the_machines_a_second_look_names_wait() {
    let text = format!("{WORLD}node b pool=web type=small zone=a capacity=on-demand\n");
    let both = text.replace("pod   p cpu=1 on=a\n", "");
    let memory = &mut Memory::default();
    let command = look(&at(&both, 0), memory).commands[0].clone();
    assert_eq!(command.nodes().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
    let rejection = Rejection { nodes: vec!["a".into()], ..against(&command) };
    memory.rejected(&command, &rejection, at(&both, 0).now);
    let next = look(&at(&both, 1), memory).commands.clone();
    assert_eq!(next.iter().flat_map(Command::nodes).map(ToString::to_string).collect::<Vec<_>>(), ["b"]);
}

/// Two machines that may go together, and each of them alone.
const TWO: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
pool  web types=* budget=100%
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=small zone=a capacity=on-demand
node  other pool=web type=small zone=a capacity=on-demand annotation=karpenter.sh/do-not-disrupt=true
pod   p cpu=500m on=a
pod   q cpu=500m on=b
";

#[test]
fn what_speaks_against_machines_together_does_not_speak_against_each() {
    let together = |memory: &mut Memory| {
        let command = look(&at(TWO, 0), memory).commands[0].clone();
        assert_eq!((command.method, command.candidates.len()), (Method::MultiNode, 2));
        command
    };
    let methods = |memory: &mut Memory| -> Vec<Method> {
        look(&at(TWO, 1), memory).commands.iter().map(|command| command.method).collect()
    };
    for kind in [RejectionKind::Scheduling, RejectionKind::Price, RejectionKind::Score] {
        let memory = &mut Memory::default();
        let command = together(memory);
        memory.rejected(&command, &Rejection { kind, ..against(&command) }, at(TWO, 0).now);
        // The other one stays for the pods of the first.
        assert_eq!(methods(memory), [Method::SingleNode], "{kind}");
    }
    for kind in [RejectionKind::Churn, RejectionKind::Budget] {
        let memory = &mut Memory::default();
        let command = together(memory);
        memory.rejected(&command, &Rejection { kind, ..against(&command) }, at(TWO, 0).now);
        assert_eq!(methods(memory), [], "{kind} is about the machines");
    }
}
