//! The same seed gives the same history to the last byte: in one process, and in another one.

use std::process::Command;

use karpenter_sim::{History, run};

const SEED: u64 = 3;

#[test]
fn runs_of_one_seed_are_equal_in_one_process_and_in_two() {
    let history = History::of(SEED);
    let outcome = run(&history, false).unwrap();
    assert_eq!(run(&history, false).unwrap(), outcome);
    let output = Command::new(env!("CARGO_BIN_EXE_karpenter-sim"))
        .args(["run", "--seed", &SEED.to_string()])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains(&format!("hash {},", outcome.hash)), "{} here, there {told}", outcome.hash);
}
