//! The same seed gives the same history to the last byte: in one process, and in another one.

use std::process::Command;

use karpenter_sim::{Fault, History, run};

/// Seeds whose histories between them have every fault.
const SEEDS: [u64; 3] = [3, 5, 11];

#[test]
fn two_runs_in_one_process_are_equal() {
    for seed in SEEDS {
        let history = History::of(seed);
        assert_eq!(run(&history, false).unwrap(), run(&history, false).unwrap(), "seed {seed}");
    }
}

#[test]
fn a_run_in_another_process_is_equal() {
    for seed in SEEDS {
        let output = Command::new(env!("CARGO_BIN_EXE_karpenter-sim"))
            .args(["run", "--seed", &seed.to_string()])
            .output()
            .unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let hash = run(&History::of(seed), false).unwrap().hash;
        assert!(told.contains(&format!("hash {hash},")), "seed {seed}: {hash} here, there {told}");
    }
}

#[test]
fn the_histories_above_have_every_fault() {
    let histories = SEEDS.map(History::of);
    for fault in Fault::ALL {
        assert!(histories.iter().any(|history| history.has(fault)), "{fault:?}");
    }
}
