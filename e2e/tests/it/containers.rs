//! Suites on containers: a kind cluster, on the machine's Docker engine or on one of our own.
//!
//! An engine of our own is started where `KARPENTER_CONTAINERS=own` says so. It must leave this machine as it was.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use anyhow::ensure;
use karpenter_e2e::engine::{Choice, Engine};
use karpenter_e2e::wait;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::skipped::skip;

/// One engine at a time.
static ENGINE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns whether this machine has, or may start, an engine and the parts of a kind cluster.
async fn can_run(test: &str) -> bool {
    let choice = Choice::from_environment().expect("KARPENTER_CONTAINERS is understood");
    if choice == Choice::Own {
        return true;
    }
    let engine = Engine::start(choice).await.err().map(|error| format!("{error:#}"));
    if let Some(why) = &engine {
        skip(test, "docker", why);
    }
    engine.is_none()
}

/// Returns everything that an engine, a kind node and a kubelet could leave behind: containers, interfaces, mounts, packet filter
/// rules, control groups and kernel settings. Those that change by themselves are left out, and of a machine with an engine
/// everything but our containers.
fn machine() -> BTreeSet<String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    let mut found = BTreeSet::new();
    let mut add = |what: &str, text: &str| found.extend(text.lines().map(|line| format!("{what}: {line}")));
    if Choice::from_environment().ok() == Some(Choice::Machine) {
        add("container", &said("docker", &["ps", "--all", "--quiet", "--filter", "name=karpenter-e2e-"]));
        return found;
    }
    add("interface", &said("ls", &["/sys/class/net"]));
    add("mount", &std::fs::read_to_string("/proc/self/mounts").unwrap_or_default());
    add("control group", &said("find", &["/sys/fs/cgroup", "-type", "d", "-name", "karpenter-e2e*"]));
    add("rule", &said("iptables", &["-S"]));
    add("rule", &said("iptables", &["-t", "nat", "-S"]));
    for folder in ["/proc/sys/vm", "/proc/sys/kernel", "/proc/sys/net/ipv4"] {
        let settings = said("grep", &["-s", "", "-r", "--exclude-dir=random", "--exclude-dir=neigh", folder]);
        let changing =
            ["pid_max", "ns_last_pid", "tcp_mem", "udp_mem", "perf_event", "sched_domain", "/conf/"];
        let lasting = settings.lines().filter(|line| !changing.iter().any(|name| line.contains(name)));
        add("setting", &lasting.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// Runs the harness as a person would, and expects everything to be proven and nothing to be left.
async fn prove(test: &str, arguments: &[&str]) {
    if !can_run(test).await {
        return;
    }
    let _one = ENGINE.lock().await;
    let before = machine();
    let output = harness(test, "run", arguments).output().await.expect("the harness starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{test}:\n{said}");
    let left = left_since(&before);
    assert!(left.is_empty(), "left behind: {left:#?}");
}

fn left_since(before: &BTreeSet<String>) -> Vec<String> {
    machine().symmetric_difference(before).cloned().collect()
}

fn harness(test: &str, command: &str, arguments: &[&str]) -> tokio::process::Command {
    let folder = format!("{}/containers/{}", env!("CARGO_TARGET_TMPDIR"), test.replace(' ', "-"));
    let mut harness = tokio::process::Command::new(env!("CARGO_BIN_EXE_karpenter-e2e"));
    harness.arg(command).args(arguments).args(["--folder", &folder]);
    harness
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_pass_on_kind() {
    let suites = ["launch", "bootstrap", "scheduling", "disruption-with-crashes"];
    prove("suites on kind", &[&suites[..], &["--cluster", "kind", "--aws", "moto"]].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_pass_on_kind_with_localstack() {
    let suites = ["launch", "bootstrap", "scheduling", "disruption"];
    prove(
        "suites on kind with LocalStack",
        &[&suites[..], &["--cluster", "kind", "--aws", "localstack"]].concat(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_pass_with_the_controller_from_the_chart() {
    let suites = ["launch", "restart", "scheduling", "disruption-with-crashes"];
    let parts = ["--cluster", "kind", "--aws", "moto", "--controller", "chart"];
    prove("suites on kind with the chart", &[&suites[..], &parts].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_pass_with_localstack_and_the_controller_from_the_chart() {
    let parts = ["--cluster", "kind", "--aws", "localstack", "--controller", "chart"];
    let suites = ["launch", "disruption-with-crashes"];
    prove("suites on kind with LocalStack and the chart", &[&suites[..], &parts].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suites_pass_with_localstack_beside_a_local_cluster() {
    prove("suites with LocalStack", &["launch", "--aws", "localstack"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_harness_that_was_killed() {
    let test = "killed with LocalStack";
    if !can_run(test).await {
        return;
    }
    let _one = ENGINE.lock().await;
    let before = machine();
    let mut up = harness(test, "up", &["--bare", "--aws", "localstack"]);
    let mut up = up.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("the harness starts");
    let mut said = BufReader::new(up.stdout.take().expect("a pipe")).lines();
    while !said.next_line().await.unwrap().expect("it gets ready").starts_with("# ready") {}
    assert!(!left_since(&before).is_empty(), "it runs");
    up.kill().await.unwrap();
    wait::settles("everything it has started to be gone", || async {
        let left = left_since(&before);
        ensure!(left.is_empty(), "left behind: {left:#?}");
        Ok(())
    })
    .await
    .unwrap();
}
