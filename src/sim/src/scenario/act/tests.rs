//! Steps that last: how long, seen by expectations on a pod that waits for a node meanwhile.

use std::fs;
use std::path::Path;

use crate::scenario::player::play;
use crate::scenario::read::read;

/// Returns the failures when a pod is created at 11 min, with these steps and these expectations, within 25 min.
fn failures(steps: &[&str], expectations: &[&str]) -> Vec<String> {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/manifests");
    let folder = tempfile::tempdir().unwrap();
    for name in ["class.yaml", "general.yaml", "web.yaml"] {
        let text = fs::read_to_string(manifests.join(name)).unwrap();
        fs::write(folder.path().join(name), text.replace("replicas: 6", "replicas: 0")).unwrap();
    }
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("  - {line}\n")).collect::<String>();
    let text = format!(
        "name: steps\nmanifests: [class.yaml, general.yaml, web.yaml]\nduration: 25m\ntimeline:\n{}  - {{at: 11m, scale: \
         {{deployment: web, replicas: 1}}}}\nexpect:\n{}",
        lines(steps),
        lines(expectations)
    );
    let file = folder.path().join("steps.yaml");
    fs::write(&file, text).unwrap();
    let scenario = read(&file).unwrap();
    let played = play(&scenario, scenario.file.seed, false).unwrap();
    played.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn machines_join_when_the_last_of_overlapping_steps_has_ended() {
    let found = failures(
        &["{at: 0s, neverJoin: {for: 10m}, repeat: {every: 5m, times: 3}}"],
        &["{nodes: {exactly: 0}, at: 19m}", "nodes: {exactly: 1}"],
    );
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn capacity_is_back_when_the_last_loss_of_the_same_offerings_has_ended() {
    let found = failures(
        &["{at: 0s, capacityLoss: {for: 12m}}", "{at: 6m, capacityLoss: {for: 12m}}"],
        &["{nodes: {exactly: 0}, at: 17m}", "nodes: {exactly: 1}"],
    );
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn capacity_that_is_lost_to_the_end_does_not_return_with_an_earlier_loss() {
    let found = failures(
        &["{at: 0s, capacityLoss: {for: 12m}}", "{at: 6m, capacityLoss: {}}"],
        &["{nodes: {exactly: 0}, when: always}"],
    );
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_controller_that_is_restarted_while_cut_off_stays_cut_off() {
    let found = failures(
        &["{at: 1m, disconnect: {for: 17m}}", "{at: 2m, restart: {}}"],
        &["{nodes: {exactly: 0}, at: 17m}", "nodes: {exactly: 1}"],
    );
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_controller_is_cut_off_until_the_last_of_overlapping_steps_has_ended() {
    let found = failures(
        &["{at: 1m, disconnect: {for: 17m}}", "{at: 2m, disconnect: {for: 1m}}"],
        &["{nodes: {exactly: 0}, at: 17m}", "nodes: {exactly: 1}"],
    );
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_controller_is_cut_off_from_the_first_moment_on() {
    let found = failures(
        &["{at: 0s, disconnect: {for: 18m}}"],
        &["{nodes: {exactly: 0}, at: 17m}", "nodes: {exactly: 1}"],
    );
    assert_eq!(found, Vec::<String>::new());
}
