//! `karpenter demo --stay`: the commands that it prints at its end work against the cluster that it keeps.

use std::process::Stdio;

use karpenter_e2e::command_line;
use karpenter_e2e::wait::PATIENCE;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_the_demo_prints_work_against_it() {
    let folder = tempfile::tempdir().unwrap();
    let karpenter = command_line::binary().unwrap();
    let mut demo = Command::new(&karpenter);
    demo.args(["demo", "--stay", "--folder"]).arg(folder.path()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut demo = demo.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut commands: Vec<String> = Vec::new();
    // The controller is asked last.
    while commands.last().is_none_or(|command| !command.starts_with("explain")) {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("the demo goes on");
        let line = line.unwrap().expect("the demo stays");
        commands.extend(line.split_once("  karpenter ").map(|(_, command)| command.to_owned()));
    }
    let expected = [
        ("view --kubeconfig", "0 nodes"),
        ("plan", "Nothing would change"),
        ("explain", "nodes that are to go"),
    ];
    assert_eq!(commands.len(), expected.len(), "{commands:?}");
    for (command, (start, answer)) in commands.iter().zip(expected) {
        assert!(command.starts_with(start), "{command}");
        // Where there is no terminal the viewer would follow what happens.
        let once = command.starts_with("view").then_some("--once");
        let words = command.split_whitespace().chain(once);
        let output = Command::new(&karpenter).args(words).output().await.unwrap();
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains(answer), "{command}: {text}{errors}");
    }
}
