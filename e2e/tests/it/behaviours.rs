//! The suites of behaviours, each in a world of its own: real control plane, emulated account, the built controller.
//!
//! They wait more than they compute, so several run side by side: as many as the test runner has threads. Tests start in
//! the order of their names: those that take longest have such as begin early, or they would run alone at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;

use karpenter_e2e::cluster::{self, local};
use karpenter_e2e::controller;
use karpenter_e2e::machines::Pace;
use karpenter_e2e::rights::{Rights, idle};
use karpenter_e2e::scenario::scale::{self, Workload};
use karpenter_e2e::scenario::{Chosen, Suite, end, run};
use karpenter_e2e::world::{self, Options, Site, World};
use parking_lot::Mutex;

/// Returns the folder in which logs and dumps of a scenario stay.
pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A world of processes on this machine.
pub(crate) fn options(folder: PathBuf) -> Options {
    Options {
        cluster: cluster::Choice::Local(local::Options {
            folder: Some(folder.join("control-plane")),
            binaries: None,
        }),
        account: world::moto(folder.join("account")),
        controller: controller::Choice::Process,
        folder,
        pace: Pace::HURRIED,
        site: Site::default(),
    }
}

/// Runs a suite; panics with what went wrong after keeping what was there.
async fn prove(suite: Suite) {
    let outcome =
        run(suite, options(folder(suite.name())), &Chosen::default()).await.expect("the world starts");
    if let Some(failure) = outcome.failure() {
        panic!("{failure}\nwhat was there is in {}", outcome.world.folder().display());
    }
    end(outcome.world).await.expect("everything ends");
    hand_in(suite, outcome.rights);
}

static RIGHTS: Mutex<BTreeMap<Suite, Rights>> = Mutex::new(BTreeMap::new());

/// Every suite but `disruption`, whose behaviours `disruption-with-crashes` proves under harder conditions.
const PROVEN: [Suite; 8] = [
    Suite::Bootstrap,
    Suite::Launch,
    Suite::Restart,
    Suite::Scheduling,
    Suite::Classes,
    Suite::Devices,
    Suite::DisruptionWithCrashes,
    Suite::Faults,
];

/// Hands in the rights that a suite used: together the suites use every right; the last one says which they do not.
fn hand_in(suite: Suite, rights: Rights) {
    let mut handed_in = RIGHTS.lock();
    handed_in.insert(suite, rights);
    if PROVEN.iter().all(|suite| handed_in.contains_key(suite)) {
        let mut all = Rights::default();
        handed_in.values().for_each(|rights| all.absorb(rights.clone()));
        std::fs::write(folder("rights.txt"), all.report()).expect("the report can be written");
        idle::check(&all).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_what_it_asks_of_a_node() {
    prove(Suite::Scheduling).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_what_its_class_asks_for() {
    prove(Suite::Classes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_claims_come_with_machines_and_are_allocated_there() {
    prove(Suite::Devices).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_is_repeatable_repairs_and_takes_back_only_its_own() {
    prove(Suite::Bootstrap).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_become_nodes_and_disappear_again() {
    prove(Suite::Launch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_five_times_loses_and_doubles_nothing() {
    prove(Suite::Restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_keeps_dying_lets_nodes_leave_as_they_should() {
    prove(Suite::DisruptionWithCrashes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_world_in_trouble_loses_nothing_and_buys_nothing_twice() {
    prove(Suite::Faults).await;
}

/// Small enough for every run of the tests; the figures of this size mean nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_of_every_kind_ends_with_its_figures() {
    let mut world = World::start(options(folder("scale"))).await.expect("the world starts");
    let figures = scale::run(&mut world, &Workload::ALL, 1).await;
    if figures.is_err() {
        world.dump().await;
    }
    end(world).await.expect("everything ends");
    let figures = figures.expect("every workload ends");
    let value: serde_json::Value = serde_json::from_str(&figures.to_json().expect("JSON")).expect("JSON");
    for workload in Workload::ALL {
        let row = &value["workloads"][workload.name()];
        for name in [
            "nodes_launched",
            "controller_cpu_seconds",
            "controller_peak_mib",
            "aws_calls_per_node",
            "writes_per_node",
        ] {
            assert!(row[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} of {workload:?}: {row}");
        }
    }
    assert!(figures.regressions(&figures, 0.0).expect("the same size").is_empty());
}

/// Returns the answer of the command line to these arguments, without a cluster: exit code, standard output, standard error.
pub(crate) fn harness(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_karpenter-e2e")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_suite_lists_its_behaviours_and_refuses_an_unknown_one_before_anything_starts() {
    let (code, list, _) = harness(&["run", "scheduling", "--list"]);
    assert!(
        code == Some(0) && list.lines().any(|name| name == "pods spread evenly over three zones"),
        "{list}"
    );
    let folder = folder("refused");
    let arguments =
        ["run", "disruption", "--only", "volcano", "--folder", folder.to_str().expect("a UTF-8 path")];
    let (code, _, said) = harness(&arguments);
    assert!(code == Some(1) && said.contains("no behaviour has `volcano` in its name"), "{said}");
    assert!(said.contains("an expired node goes, however its pods resist"), "{said}");
    assert!(!folder.exists(), "nothing was started");
}
