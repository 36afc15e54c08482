//! The program as a shell runs it whose pipe is read by `head`.

use std::io::pipe;
use std::process::{Command, Output, Stdio};

/// Runs the program with a standard output that is closed.
fn unread(arguments: &[&str]) -> Output {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_karpenter-sim"));
    program.args(arguments).stdout(writer).stderr(Stdio::piped());
    program.spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [
        &["run", "--seed", "0", "--history"][..],
        &["swarm", "--histories", "0"],
        &["defects", "--histories", "0"],
        &["week", "--hours", "1", "--machines", "1"],
        &["test", "--schema"],
    ] {
        let output = unread(arguments);
        assert_eq!(output.status.code(), Some(141), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
