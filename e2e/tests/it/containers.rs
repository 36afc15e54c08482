//! Suites on containers: a kind cluster, on the machine's Docker engine or on one of our own.
//!
//! An engine of our own is started where `KARPENTER_CONTAINERS=own` says so. It must leave this machine as it was.

use std::collections::BTreeSet;
use std::process::Command;

use karpenter_e2e::engine::{Choice, Engine};

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

/// Returns everything that an engine, a kind node and a kubelet could leave behind: interfaces, mounts, packet filter rules,
/// control groups and kernel settings. Those that change by themselves are left out.
fn machine() -> BTreeSet<String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    };
    let mut found = BTreeSet::new();
    let mut add = |what: &str, text: &str| found.extend(text.lines().map(|line| format!("{what}: {line}")));
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
    let folder = format!("{}/containers/{}", env!("CARGO_TARGET_TMPDIR"), test.replace(' ', "-"));
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_karpenter-e2e"))
        .arg("run")
        .args(arguments)
        .args(["--folder", &folder])
        .output()
        .await
        .expect("the harness starts");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{test}:\n{said}");
    let after = machine();
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(
        Choice::from_environment().ok() != Some(Choice::Own) || left.is_empty(),
        "left behind: {left:#?}"
    );
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
