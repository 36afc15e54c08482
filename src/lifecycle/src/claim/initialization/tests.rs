//! The checks in their order, and that each alone holds a node back.

use karpenter_model::{Effect as TaintEffect, Quantity, Resources};

use super::*;
use crate::fixture::{claim, holding, node, ready, with_condition};

fn registered() -> Claim {
    holding(claim(), &[ConditionType::Launched, ConditionType::Registered])
}

fn run(claim: &Claim, nodes: &[&NodeObject]) -> Step {
    step(claim, Facts { nodes, slices: None })
}

fn obstacle(step: &Step) -> (&str, &str) {
    let verdict = step.conditions[0].to.as_ref().expect("a verdict");
    (verdict.reason.as_str(), verdict.message.as_str())
}

fn gpu(count: i64) -> Resources {
    Resources::new().with("nvidia.com/gpu", Quantity::from_units(count))
}

#[test]
fn a_ready_node_is_labelled_and_the_claim_initialized() {
    let node = node();
    let step = run(&registered(), &[&node]);
    let [Effect::PatchNode(patch), Effect::Milestone(_)] = &step.effects[..] else { panic!("{step:?}") };
    assert_eq!(patch.labels.get(label::INITIALIZED).map(karpenter_model::LabelValue::as_str), Some("true"));
    assert_eq!(step.conditions, [Change::holds(ConditionType::Initialized)]);
}

#[test]
fn waits_for_registration_and_never_goes_back() {
    assert_eq!(run(&claim(), &[&node()]), Step::idle());
    let done = holding(registered(), &[ConditionType::Initialized]);
    let step = run(&done, &[&ready(node(), false)]);
    assert_eq!(step, Step::idle().and_condition(Change::holds(ConditionType::Initialized)));
}

#[test]
fn a_node_is_not_initialized_again_before_its_reboot_is_over() {
    let rebooting = holding(registered(), &[ConditionType::Rebooting]);
    assert_eq!(run(&rebooting, &[&node()]), Step::idle());
    let over = with_condition(registered(), ConditionType::Rebooting, ConditionStatus::False, 9);
    assert_eq!(run(&over, &[&node()]).conditions, [Change::holds(ConditionType::Initialized)]);
}

#[test]
fn the_first_failing_check_is_the_reason() {
    // Everything is wrong at first; each line repairs one thing.
    let mut claim = registered();
    claim.startup_taints = vec![Taint::new("starting", "x", TaintEffect::NoSchedule)];
    claim.requests = gpu(1).with("zero.example/none", Quantity::ZERO);
    let mut node = ready(node(), false);
    node.taints = vec![
        Taint::new("starting", "y", TaintEffect::NoSchedule),
        Taint::new("readiness.k8s.io/cni", "", TaintEffect::NoSchedule),
    ];
    node.allocatable = gpu(0);

    assert_eq!(obstacle(&run(&claim, &[])).0, "NodeNotFound");
    assert_eq!(obstacle(&run(&claim, &[&node, &node])).0, "NodeNotFound");
    assert_eq!(obstacle(&run(&claim, &[&node])).0, "NodeNotReady");
    let mut node = ready(node, true);
    let (reason, message) = (obstacle(&run(&claim, &[&node])).0.to_owned(), run(&claim, &[&node]));
    assert_eq!(reason, "StartupTaintsExist");
    assert!(obstacle(&message).1.contains("starting=x:NoSchedule"), "{message:?}");
    node.taints.remove(0);
    let step = run(&claim, &[&node]);
    assert_eq!(obstacle(&step).0, "KnownEphemeralTaintsExist");
    assert!(obstacle(&step).1.contains("readiness.k8s.io/cni:NoSchedule"));
    node.taints.clear();
    let step = run(&claim, &[&node]);
    assert_eq!(obstacle(&step).0, "ResourceNotRegistered");
    assert!(obstacle(&step).1.contains("nvidia.com/gpu"));
    node.allocatable = gpu(1);
    assert_eq!(run(&claim, &[&node]).conditions, [Change::holds(ConditionType::Initialized)]);
}

#[test]
fn every_known_ephemeral_taint_holds_a_node_back() {
    for (key, effect) in karpenter_model::taint::EPHEMERAL {
        let node = NodeObject { taints: vec![Taint::new(key, "any", effect)], ..node() };
        assert_eq!(obstacle(&run(&registered(), &[&node])).0, "KnownEphemeralTaintsExist", "{key}");
    }
}

fn slice(driver: &str, pool: &str, generation: i64, slices: i64) -> ResourceSlice {
    ResourceSlice { driver: driver.to_owned(), pool: pool.to_owned(), generation, slices }
}

#[test]
fn every_requested_driver_must_have_a_complete_pool() {
    let mut claim = registered();
    claim.annotations.insert(
        karpenter_model::names::annotation::REQUESTED_DRIVERS.to_owned(),
        "gpu.example,nic.example".to_owned(),
    );
    let node = node();
    let nic = slice("nic.example", "p", 1, 1);
    let table = [
        (vec![], Some("gpu.example")),
        (vec![nic.clone()], Some("gpu.example")),
        (vec![slice("gpu.example", "p", 1, 1)], Some("nic.example")),
        (vec![slice("gpu.example", "p", 1, 2), nic.clone()], Some("gpu.example")),
        (vec![slice("gpu.example", "p", 1, 2), slice("gpu.example", "p", 1, 2), nic.clone()], None),
        // Complete at generation 1, incomplete at 2: the old slices do not count.
        (
            vec![slice("gpu.example", "p", 1, 1), slice("gpu.example", "p", 2, 2), nic.clone()],
            Some("gpu.example"),
        ),
        (vec![slice("gpu.example", "p", 1, 0), nic], Some("gpu.example")),
    ];
    for (slices, missing) in table {
        let step = step(&claim, Facts { nodes: &[&node], slices: Some(&slices) });
        match missing {
            Some(driver) => {
                assert_eq!(obstacle(&step).0, "DRADriverPoolsNotPublished", "{slices:?}");
                assert!(obstacle(&step).1.contains(driver), "{slices:?}");
            }
            None => assert_eq!(step.conditions, [Change::holds(ConditionType::Initialized)], "{slices:?}"),
        }
    }
    let off = step(&claim, Facts { nodes: &[&node], slices: None });
    assert_eq!(off.conditions, [Change::holds(ConditionType::Initialized)]);
}

#[test]
fn without_the_annotation_drivers_do_not_matter() {
    let node = node();
    let step = step(&registered(), Facts { nodes: &[&node], slices: Some(&[]) });
    assert_eq!(step.conditions, [Change::holds(ConditionType::Initialized)]);
}
