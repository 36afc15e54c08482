//! The program as a shell runs it.

mod action;

use std::io::pipe;
use std::process::{Command, Output, Stdio};

/// Runs the program with a standard output that is closed.
fn unread(arguments: &[&str]) -> Output {
    let (reader, writer) = pipe().expect("a pipe can be made");
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    program.args(arguments).stdout(writer).stderr(Stdio::piped());
    let running = program.spawn().expect("the program starts");
    running.wait_with_output().expect("the program ends")
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&["crds"][..], &["test", "--schema"]] {
        let output = unread(arguments);
        assert_eq!(output.status.code(), Some(141), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}
