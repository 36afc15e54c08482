//! The built `karpenter view` in a pseudo-terminal, on a real control plane: keys in, screen out. What the controller says
//! comes by a port-forward through the API server, from a kubelet that answers nothing else.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use k8s_openapi::api::core::v1::ServiceAccount;
use karpenter_api::NodeClaim;
use karpenter_e2e::cluster::local::LocalCluster;
use karpenter_e2e::wait::{self, PATIENCE};
use karpenter_e2e::{command_line, manifests, prepare};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use super::kubelet::Kubelet;

const NODE: &str = "ip-10-0-0-1.eu-west-1.compute.internal";
/// The pod that leads.
const LEADER: &str = "karpenter-5d9c-x7k2p";
const ANSWER: &str = r#"{"about": "node/ip-10-0-0-1", "verdict": "stays", "reasons": [{"code": "PodBlocksDrain",
    "text": "pod shop/api-0 must not be disrupted"}], "facts": []}"#;

/// A terminal of a size with the program in it.
struct Terminal {
    screen: vt100::Parser,
    output: Receiver<Vec<u8>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    size: PtySize,
    /// The program's end of it would end with this one.
    master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Terminal {
    fn start(cluster: &LocalCluster, rows: u16, cols: u16) -> Self {
        let size = PtySize { rows, cols, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).expect("there are pseudo-terminals");
        let mut command = CommandBuilder::new(command_line::binary().unwrap());
        command.args(["view", "--offerings", "memory"]);
        command.env("KUBECONFIG", cluster.kubeconfig());
        for (name, value) in
            [("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8"), ("NO_COLOR", "")]
        {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        // Ends with the terminal.
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(read) = reader.read(&mut buffer) {
                if read == 0 || sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keys = pair.master.take_writer().unwrap();
        let (high, wide) = lines_and_columns(size);
        let screen = vt100::Parser::new(high, wide, 0);
        Self { screen, output, keys, child, size, master: pair.master }
    }

    /// Gives the terminal another size, as a user does with the window of it.
    fn resize(&mut self, rows: u16, cols: u16) {
        self.size = PtySize { rows, cols, ..self.size };
        let (high, wide) = lines_and_columns(self.size);
        self.screen.screen_mut().set_size(high, wide);
        self.master.resize(self.size).unwrap();
    }

    /// Returns the cell where a text begins, in the first line with this start.
    fn cell_of(&self, start: &str, text: &str) -> vt100::Cell {
        let screen = self.screen.screen();
        let place = screen.rows(0, self.size.cols).enumerate().find_map(|(row, line)| {
            let byte = line.starts_with(start).then(|| line.find(text)).flatten()?;
            let column = line[..byte].chars().count();
            Some((u16::try_from(row).ok()?, u16::try_from(column).ok()?))
        });
        let (row, column) = place.unwrap_or_else(|| panic!("no `{text}` in\n{}", self.text()));
        screen.cell(row, column).expect("the text is on the screen").clone()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// The lines of the screen, whatever the emulator takes for one line that is broken.
    fn text(&self) -> String {
        self.screen.screen().rows(0, self.size.cols).collect::<Vec<_>>().join("\n")
    }

    /// Reads what the program draws until its screen has all of `parts`.
    fn until(&mut self, parts: &[&str]) {
        self.until_it(|text| parts.iter().all(|part| text.contains(part)), &format!("{parts:?}"));
    }

    fn until_it(&mut self, holds: impl Fn(&str) -> bool, what: &str) {
        let end = Instant::now() + PATIENCE;
        while !holds(&self.text()) {
            let rest = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.output.recv_timeout(rest) else {
                panic!("not on the screen: {what}\n{}", self.text())
            };
            self.screen.process(&bytes);
        }
    }

    /// Presses `q`: the program ends well, and the terminal is as it was.
    fn quit(mut self) {
        assert!(self.screen.screen().alternate_screen(), "the program has a screen of its own");
        self.press("q");
        assert!(self.child.wait().unwrap().success());
        while let Ok(bytes) = self.output.recv_timeout(std::time::Duration::from_secs(1)) {
            self.screen.process(&bytes);
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
    }
}

/// The size in lines and columns, of which a terminal has some.
fn lines_and_columns(size: PtySize) -> (NonZero<u16>, NonZero<u16>) {
    let some = |count| NonZero::new(count).expect("a terminal has lines and columns");
    (some(size.rows), some(size.cols))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
    }
}

/// Drives the program at both sizes the page names.
pub(crate) async fn view_shows_the_cluster_and_answers_keys(cluster: &LocalCluster) {
    let kubelet = Kubelet::answering(ANSWER).await;
    furnish(&cluster.client(), kubelet.address.port()).await;
    explain_reaches_the_leader(cluster).await;
    for (rows, cols) in [(24, 80), (50, 200)] {
        let terminal = Terminal::start(cluster, rows, cols);
        // Reading and waiting blocks.
        tokio::task::spawn_blocking(move || drive(terminal)).await.unwrap();
    }
    let asked = kubelet.asked.lock().clone();
    // A page that stays open asks again.
    assert!(asked.len() >= 3, "{asked:?}");
    for (path, request) in asked {
        assert!(path.starts_with(&format!("/portForward/kube-system/{LEADER}")), "{path}");
        assert!(request.contains("GET /explain?node=ip-10-0-0-1"), "{request}");
    }
}

fn drive(mut terminal: Terminal) {
    let is_wide = terminal.size.cols == 200;
    let node = if is_wide { NODE } else { "ip-10-0-0-1" };
    terminal.until(&["NODE", node, "m5.xlarge", "ready", "web-1", "pending", " waiting", "q quit"]);
    assert_eq!(terminal.text().contains("POOL"), is_wide, "{}", terminal.text());
    assert!(terminal.text().lines().next().is_some_and(|line| line.contains("UTC")), "{}", terminal.text());
    // The selected line is reversed and without colours; the state of the other one is coloured.
    assert!(terminal.cell_of("ip-10-0-0-1", "ready").inverse(), "{}", terminal.text());
    assert_eq!(terminal.cell_of("web-1", "pending").fgcolor(), vt100::Color::Idx(6), "{}", terminal.text());
    let PtySize { rows, cols, .. } = terminal.size;
    let other = if is_wide { (24, 80) } else { (50, 200) };
    for ((rows, cols), has_pools) in [(other, !is_wide), ((12, 60), false), ((rows, cols), is_wide)] {
        terminal.resize(rows, cols);
        let drawn = |text: &str| {
            let keys = text.lines().last().unwrap_or_default();
            // The keys are on the last line, and they are cut where there is no room.
            text.lines().count() == usize::from(rows)
                && text.contains("POOL") == has_pools
                && keys.starts_with("enter open")
        };
        terminal.until_it(drawn, &format!("a frame of {cols} x {rows}"));
    }
    terminal.press("w");
    terminal.until(&["the oldest first", "default/waits", "nodes are available"]);
    terminal.press("\x1b");
    terminal.until(&["NODE", "web-1"]);
    // Of two machines only the one of this type has a line.
    terminal.press("/type=m5.xlarge");
    terminal.until_it(|text| text.contains("type=m5.xlarge") && !text.contains("web-1"), "the filter");
    terminal.press("\r");
    terminal.press("\r");
    terminal.until(&[NODE, "ready", "stays", "pod shop/api-0 must not be disrupted"]);
    terminal.press("y");
    terminal.until(&["apiVersion: v1", "kind: Node", NODE]);
    terminal.press("\x1b");
    // Two of these keys in one read are another key.
    terminal.until(&["y yaml"]);
    terminal.press("\x1b");
    terminal.until(&["NODE", "m5.xlarge"]);
    terminal.press("p");
    // There is no pool for the pod that waits.
    terminal.until(&["the plan of this moment", "would stay pending"]);
    terminal.press("\x1b");
    terminal.until(&["NODE", "m5.xlarge"]);
    terminal.press("?");
    terminal.until(&["The bars are the cost"]);
    terminal.press("\x1b");
    terminal.until(&["NODE"]);
    terminal.quit();
}

/// Explains a node by the other program, without the address of the controller: with the rights of the page and not without
/// them.
async fn explain_reaches_the_leader(cluster: &LocalCluster) {
    let client = cluster.client();
    let name = "viewer";
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    manifests::apply_json(&client, account).await.unwrap();
    let kubeconfig = cluster.service_account_kubeconfig("default", name).await.unwrap();
    let (code, said) = karpenter(&kubeconfig, &["explain", "node/ip-10-0-0-1"]).await;
    assert!(code == 1 && said.contains("grant verb `get` on leases"), "{said}");

    let page = fs::read_to_string(prepare::cache::repository().join("docs/view.md")).unwrap();
    let roles = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    manifests::apply(&client, roles).await.unwrap();
    for (kind, namespace) in [("ClusterRole", Value::Null), ("Role", json!(manifests::NAMESPACE))] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"),
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "karpenter-viewer"},
            "subjects": [subject],
        });
        manifests::apply_json(&client, binding).await.unwrap();
    }
    // Roles take a moment to count.
    let explained = wait::until("the roles to count", || async {
        let (code, said) = karpenter(&kubeconfig, &["explain", "node/ip-10-0-0-1"]).await;
        Ok(if code == 0 { Ok(said) } else { Err(said) })
    });
    assert!(explained.await.unwrap().contains("stays"));
    let (code, said) = karpenter(&kubeconfig, &["view", "--once", "--no-prices"]).await;
    assert!(code == 0 && said.contains(NODE), "nothing it may not read: {said}");
}

/// Runs the built program: exit code, and all that it says.
async fn karpenter(kubeconfig: &Path, arguments: &[&str]) -> (i32, String) {
    let output = tokio::process::Command::new(command_line::binary().unwrap())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await
        .expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// One node that is ready, with a pod and the controller on it, a claim without a node, and a pod that waits.
async fn furnish(client: &Client, kubelet: u16) {
    // Other tests of this control plane may have left claims.
    let claims: Api<NodeClaim> = Api::all(client.clone());
    claims.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let labels = json!({
        "karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "m5.xlarge",
        "topology.kubernetes.io/zone": "eu-west-1a", "karpenter.sh/capacity-type": "spot",
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels},
        "spec": {"providerID": "aws:///eu-west-1a/i-1"}});
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "58"});
    let status = json!({
        "capacity": amounts, "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
    });
    make(client, node, Some(status)).await;
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "web-1"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "web"}}});
    make(client, claim, None).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "kube-system");
    wait::until("the default account of kube-system", || async {
        Ok(accounts.get_opt("default").await?.ok_or_else(|| "it is missing".to_owned()).map(drop))
    })
    .await
    .unwrap();
    let pod = |namespace: &str, name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec});
    let ports = json!([{"name": "http-metrics", "containerPort": 8000}]);
    let controller =
        json!({"nodeName": NODE, "containers": [{"name": "controller", "image": "none", "ports": ports}]});
    make(client, pod("kube-system", LEADER, controller), None).await;
    let selector = json!({"no": "such-node"});
    let waits = json!({"nodeSelector": selector, "containers": [{"name": "c", "image": "none"}]});
    make(client, pod("default", "waits", waits), None).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": manifests::LEASE, "namespace": manifests::NAMESPACE},
        "spec": {"holderIdentity": format!("{LEADER}_0123456789abcdef")},
    });
    make(client, lease, None).await;
}

/// Applies an object, then its status.
async fn make(client: &Client, object: Value, status: Option<Value>) {
    let named: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    manifests::apply_json(client, object).await.unwrap();
    let (Some(status), Some(name), Some(types)) = (status, named.metadata.name, named.types) else { return };
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
}
