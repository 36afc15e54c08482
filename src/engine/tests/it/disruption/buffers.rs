//! Machines that hold the room of capacity buffers (spec scheduling 23, spec disruption 3.6).

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{RejectionKind, Standing, confirm};
use karpenter_model::report::ReasonCode;
use karpenter_model::{BufferKey, Method, NodeOutcome, Plan, Pod, PodKey, PodOutcome, Snapshot};
use karpenter_testkit::snapshot;

use super::decided;

const TYPES: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
type  large cpu=8 mem=16Gi pods=40 od=0.40 spot=0.16 zones=a,b
pool  web types=* budget=100%
";

fn world(text: &str) -> Snapshot {
    snapshot(&format!("{TYPES}{text}"))
}

/// Counts this number of virtual pods on a machine, as a provisioning pass did.
fn counted(snapshot: &mut Snapshot, node: &str, pods: usize) {
    let found = snapshot.nodes.iter_mut().find(|known| known.display_name() == node);
    let found = found.expect("the machine is in the text");
    Arc::make_mut(found).buffer_pods = pods;
}

/// Returns a virtual pod that requests `millicores`.
fn virtual_pod(snapshot: &Snapshot, name: &str, millicores: i64) -> Arc<Pod> {
    let pod = Pod::pending(PodKey::new("default", name), name, snapshot.now);
    let requests = pod.requests.clone().with("cpu", karpenter_model::Quantity::from_millis(millicores));
    Arc::new(pod.with(|pod| {
        pod.requests = requests;
        pod.buffer = Some(Arc::new(BufferKey::new("default", "spare")));
    }))
}

const TWO_EMPTY: &str = "
node  a pool=web type=small zone=a capacity=spot
node  b pool=web type=small zone=a capacity=spot
";

#[test]
fn only_the_machine_that_holds_room_stays_and_zero_does_not_protect() {
    let mut snapshot = world(TWO_EMPTY);
    counted(&mut snapshot, "a", 2);
    counted(&mut snapshot, "b", 0);
    let decision = decided(&snapshot);
    let [command] = &decision.commands[..] else { panic!("{:#?}", decision.commands) };
    assert_eq!(command.method, Method::Emptiness);
    let names: Vec<&str> = command.candidates.iter().map(|one| one.target.node.as_str()).collect();
    assert_eq!(names, ["b"]);
    let kept = decision.nodes.values().find_map(|outcome| match outcome {
        NodeOutcome::Kept(reason) => Some(reason.clone()),
        NodeOutcome::Removed(_) | NodeOutcome::Rebooted => None,
    });
    assert_eq!(kept.unwrap().code, ReasonCode::BufferPods);
    let told: Vec<&str> = decision.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(told, ["Node has buffer pods, 2 virtual pods"]);
}

#[test]
fn a_second_look_keeps_the_machine_that_holds_room_by_then() {
    let mut snapshot = world(TWO_EMPTY);
    let commands = [decided(&snapshot).commands[0].clone()];
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    counted(&mut snapshot, "a", 1);
    assert_eq!(confirm(&snapshot, &commands, &standing)[0].clone().unwrap().candidates.len(), 1);
    counted(&mut snapshot, "b", 1);
    assert_eq!(confirm(&snapshot, &commands, &standing)[0].clone().unwrap_err().kind, RejectionKind::Churn);
}

#[test]
fn drift_replaces_a_machine_that_holds_nothing_but_room_and_launches_for_it() {
    let mut snapshot = world("node  a pool=web type=small zone=a capacity=spot drifted=1h\n");
    snapshot.pending.push(virtual_pod(&snapshot, "v1", 1_500));
    counted(&mut snapshot, "a", 1);
    let decision = decided(&snapshot);
    let [command] = &decision.commands[..] else { panic!("{:#?}", decision.commands) };
    assert_eq!((command.method, command.replacements.len()), (Method::Drift, 1));
    assert_eq!(command.replacements[0].pods, [PodKey::new("default", "v1")]);
    let plan = Plan { commands: decision.commands.clone(), ..Plan::default() };
    assert_eq!(audit(&snapshot, &plan), []);
}

#[test]
fn consolidation_pays_for_the_room_it_would_take_away() {
    // The pod fits on the other machine; beside it there is no room for the virtual one.
    let text = "
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=small zone=a capacity=on-demand
pod   p cpu=300m select=capacity=on-demand on=a
pod   q cpu=300m select=capacity=on-demand on=b
";
    let mut snapshot = world(text);
    assert!(!decided(&snapshot).commands.is_empty(), "one of them is enough without the buffer");
    snapshot.pending.push(virtual_pod(&snapshot, "v1", 1_500));
    let decision = decided(&snapshot);
    let deletions = decision.commands.iter().filter(|command| command.replacements.is_empty());
    assert_eq!(deletions.count(), 0, "{:#?}", decision.commands);
}

#[test]
fn pods_that_exist_are_placed_before_larger_virtual_ones() {
    let mut snapshot = world("node  a pool=web type=small zone=a capacity=spot\npod   p cpu=1500m\n");
    snapshot.pending.push(virtual_pod(&snapshot, "v1", 1_700));
    let (plan, report) = karpenter_engine::plan(&snapshot);
    assert_eq!(report.pods[&PodKey::new("default", "p")], PodOutcome::Existing("a".into()));
    assert!(matches!(report.pods[&PodKey::new("default", "v1")], PodOutcome::New(_)));
    assert_eq!(audit(&snapshot, &plan), []);
}
