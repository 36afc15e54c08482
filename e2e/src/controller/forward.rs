//! A port of this machine's loopback that leads to a port of a pod, by `kubectl port-forward` as users have it.
//!
//! The controller explains itself to callers on its own loopback only, and that is where such a connection comes from.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tokio::net::TcpStream;

use crate::manifests::NAMESPACE;
use crate::prepare;
use crate::process::{Guard, Process, Program};
use crate::wait;

/// `kubectl` ends when the pod breaks one connection; the next one finds the port open again.
const AGAIN_AND_AGAIN: &str = r#"while :; do "$@"; sleep 0.2; done"#;

/// A forwarded port; ends when stopped or dropped.
pub(super) struct Forward {
    process: Process,
}

impl Forward {
    /// Forwards `port` to port `to` of a pod and returns when it is open; the log is in `folder`.
    pub(super) async fn start(
        port: u16,
        kubeconfig: &Path,
        pod: &str,
        to: u16,
        folder: &Path,
        guard: &Arc<Guard>,
    ) -> Result<Self> {
        let kubectl = tokio::task::spawn_blocking(prepare::kubectl).await.context("prepare kubectl")??;
        let process = Process::start(program(kubectl, kubeconfig, pod, port, to), folder, false, guard)?;
        let mut forward = Self { process };
        wait::until(&format!("127.0.0.1:{port} to lead to pod `{pod}`"), || {
            let ended = forward.process.ended();
            let words = forward.process.last_words();
            async move {
                ensure!(ended?.is_none(), "the shell around `kubectl port-forward` ended; {words}");
                let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
                Ok(connected.map(drop).map_err(|error| format!("{error}; {words}")))
            }
        })
        .await?;
        Ok(forward)
    }

    /// Returns when the port is free again.
    pub(super) async fn stop(self) -> Result<()> {
        self.process.kill().await
    }
}

fn program(kubectl: PathBuf, kubeconfig: &Path, pod: &str, port: u16, to: u16) -> Program {
    let mut arguments = ["-c", AGAIN_AND_AGAIN, "forward"].map(Into::into).to_vec();
    arguments.push(kubectl.into_os_string());
    arguments.extend(["--kubeconfig".into(), kubeconfig.as_os_str().to_owned()]);
    arguments.extend(["--namespace", NAMESPACE, "port-forward"].map(Into::into));
    arguments.extend(["--address", "127.0.0.1"].map(Into::into));
    arguments.extend([format!("pod/{pod}").into(), format!("{port}:{to}").into()]);
    Program {
        name: "port-forward",
        binary: "/bin/sh".into(),
        arguments,
        // The cluster is on this machine, whatever proxy the environment names.
        environment: vec![("NO_PROXY", "*".into())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_forward_that_ends_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        let kubectl = folder.path().join("kubectl");
        std::fs::write(&kubectl, "#!/bin/sh\necho \"$@\"\n").unwrap();
        std::fs::set_permissions(&kubectl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let guard = Arc::new(Guard::start().unwrap());
        let program = program(kubectl, Path::new("/k"), "a", 1, 2);
        let process = Process::start(program, folder.path(), false, &guard).unwrap();
        let expected = "--kubeconfig /k --namespace kube-system port-forward --address 127.0.0.1 pod/a 1:2";
        wait::settles("the program to be started a second time", || async {
            let log = std::fs::read_to_string(folder.path().join("port-forward.log"))?;
            ensure!(log.lines().filter(|line| *line == expected).count() > 1, "{log}");
            Ok(())
        })
        .await
        .unwrap();
        process.kill().await.unwrap();
    }
}
