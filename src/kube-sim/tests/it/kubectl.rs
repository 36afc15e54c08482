//! The real kubectl against the loopback port. Where kubectl is not installed these tests say so on a line that
//! `scripts/test` counts, and fail if `REQUIRE` names it.

use std::{io::Write, path::PathBuf, process::Stdio};

use karpenter_kube_sim::apiserver::{ApiServer, Serving};
use tokio::{io::AsyncWriteExt, net::TcpListener, process::Command};

use crate::world::server;

struct Kubectl {
    serving: Serving,
    config: PathBuf,
    _directory: tempfile::TempDir,
}

impl Kubectl {
    /// `None` when kubectl is not on the path.
    async fn against(server: &ApiServer) -> Option<Self> {
        let found =
            Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status().await;
        if !found.is_ok_and(|status| status.success()) {
            let required = std::env::var("REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name.trim() == "kubectl"), "REQUIRE names `kubectl`");
            // Past the test runner's capture.
            let _unwritten =
                writeln!(std::io::stderr(), "\nskipped: kubectl against the server: not on PATH");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let serving = server.serve(listener).expect("serving");
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("kubeconfig");
        std::fs::write(&config, serving.kubeconfig()).expect("written");
        Some(Self { serving, config, _directory: directory })
    }

    async fn run(&self, arguments: &str, input: &str) -> Result<String, String> {
        let cache = self.config.with_file_name("cache");
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.config)
            .arg("--cache-dir")
            .arg(cache)
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(input.as_bytes()).await.expect("written");
        drop(stdin);
        let output = child.wait_with_output().await.expect("kubectl ends");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    async fn ok(&self, arguments: &str, input: &str) -> String {
        match self.run(arguments, input).await {
            Ok(output) => output,
            Err(error) => panic!("kubectl {arguments} at {}: {error}", self.serving.url()),
        }
    }
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: nginx, resources: {requests: {cpu: 100m}}}]
";

const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;

#[tokio::test]
async fn kubectl_applies_scales_describes_and_deletes() {
    let server = server();
    let Some(kubectl) = Kubectl::against(&server).await else { return };
    assert_eq!(kubectl.ok("apply -f -", DEPLOYMENT).await, "deployment.apps/web created\n");
    assert_eq!(kubectl.ok("apply -f -", DEPLOYMENT).await, "deployment.apps/web unchanged\n");
    let more = DEPLOYMENT.replace("image: nginx", "image: nginx:2");
    assert_eq!(kubectl.ok("apply -f -", &more).await, "deployment.apps/web configured\n");
    assert_eq!(
        kubectl.ok("apply --server-side --force-conflicts -f -", &more).await,
        "deployment.apps/web serverside-applied\n"
    );
    kubectl.ok("scale deployment web --replicas=5", "").await;
    let table = kubectl.ok("get deploy web", "").await;
    assert!(table.starts_with("NAME") && table.contains("0/5"), "{table}");
    let described = kubectl.ok("describe deployment web", "").await;
    assert!(described.contains("5 desired"), "{described}");
    kubectl.ok("delete deployment web", "").await;
    assert!(kubectl.run("get deployment web", "").await.expect_err("gone").contains("NotFound"));
}

#[tokio::test]
async fn kubectl_labels_taints_cordons_and_drains() {
    let server = server();
    let Some(kubectl) = Kubectl::against(&server).await else { return };
    kubectl.ok("create -f -", NODE).await;
    kubectl.ok("label node n1 team=a", "").await;
    kubectl.ok("annotate node n1 note=b", "").await;
    kubectl.ok("taint node n1 dedicated=x:NoSchedule", "").await;
    kubectl.ok("drain n1 --ignore-daemonsets --timeout=10s", "").await;
    let table = kubectl.ok("get nodes --show-labels", "").await;
    assert!(table.contains("Ready,SchedulingDisabled") && table.contains("team=a"), "{table}");
    kubectl.ok("uncordon n1", "").await;
    let taints = kubectl.ok("get node n1 -o jsonpath={.spec.taints[*].key}", "").await;
    assert_eq!(taints, "dedicated");
    let all = kubectl.ok("api-resources", "").await;
    assert!(all.contains("poddisruptionbudgets"), "{all}");
    assert!(kubectl.ok("get nodes,pods,events -A -o wide", "").await.contains("n1"));
    assert!(kubectl.ok("version", "").await.contains("v1.35"));
}
