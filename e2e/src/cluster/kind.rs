//! A kind cluster: made for a run and deleted after it, or one that exists and is left as it was.
//!
//! One that is made here differs from kind's default in what the suites rely on: pods stay off the control plane's own
//! node, the API server writes an audit log that can be read from outside, and services get the addresses that the
//! emulated EKS names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{Access, local};
use crate::engine::{Engine, finish, node_image::node_image};
use crate::prepare;
use crate::process::free_ports;
use crate::rights;

/// A kind cluster; deleted by [`KindCluster::stop`] if it was created here.
pub struct KindCluster {
    name: String,
    created: bool,
    access: Access,
    engine: Arc<Engine>,
    kind: PathBuf,
    folder: TempDir,
}

impl KindCluster {
    /// Uses the kind cluster `name` of `engine`, creating it if there is none.
    pub async fn start(name: &str, engine: Arc<Engine>) -> Result<Self> {
        let kind = tokio::task::spawn_blocking(prepare::kind).await.context("prepare kind")??;
        let folder = tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?;
        let kubeconfig = folder.path().join("admin.kubeconfig");
        let existing = run(&engine, &kind, &["get", "clusters"]).await?;
        let created = !existing.lines().any(|line| line.trim() == name);
        if created {
            create(&engine, &kind, name, &kubeconfig, folder.path()).await?;
        } else {
            let arguments = ["export", "kubeconfig", "--name", name, "--kubeconfig", path(&kubeconfig)?];
            run(&engine, &kind, &arguments).await?;
        }
        let access = Access::from_kubeconfig(&kubeconfig, folder.path()).await?;
        Ok(Self { name: name.to_owned(), created, access, engine, kind, folder })
    }

    /// Returns the access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the API server's record of the controller's requests; `None` for a cluster that was there before, whose API
    /// server is configured by its owner.
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.created.then(|| audit_folder(self.folder.path()).join(AUDIT_LOG))
    }

    /// The engine its nodes are containers of.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The names of its nodes, which are those of their containers.
    pub async fn nodes(&self) -> Result<Vec<String>> {
        let list = run(&self.engine, &self.kind, &["get", "nodes", "--name", &self.name]).await?;
        Ok(list.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    /// Copies an image of the engine into its nodes; done already costs little.
    pub async fn load(&self, image: &str) -> Result<()> {
        run(&self.engine, &self.kind, &["load", "docker-image", image, "--name", &self.name]).await.map(drop)
    }

    /// Deletes the cluster if it was created here.
    pub async fn stop(self) -> Result<()> {
        if self.created {
            run(&self.engine, &self.kind, &["delete", "cluster", "--name", &self.name]).await?;
        }
        Ok(())
    }
}

const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = "policy.yaml";

fn audit_folder(folder: &Path) -> PathBuf {
    folder.join("audit")
}

async fn create(engine: &Engine, kind: &Path, name: &str, kubeconfig: &Path, folder: &Path) -> Result<()> {
    let audit = audit_folder(folder);
    std::fs::create_dir(&audit).context("make the folder of the audit log")?;
    std::fs::write(audit.join(AUDIT_POLICY), rights::cluster::AUDIT_POLICY)
        .context("write the audit policy")?;
    let configuration = folder.join("kind.yaml");
    // kind would look for one on an address that may be another network's.
    let [port] = free_ports()?;
    std::fs::write(&configuration, configure(engine, port, path(&audit)?))
        .context("write kind's configuration")?;
    let mut arguments =
        vec!["create", "cluster", "--name", name, "--wait", "600s", "--config", path(&configuration)?];
    arguments.extend(["--kubeconfig", path(kubeconfig)?]);
    let image = node_image(engine).await?;
    arguments.extend(image.iter().flat_map(|image| ["--image", image]));
    tracing::info!(name, ?image, "creating a kind cluster");
    run(engine, kind, &arguments).await.map(drop)
}

/// kind takes the control plane's usual taint away and fails if it is not there; cluster DNS tolerates the second one, which
/// stays. The last two patches do nothing on a machine that has version 2 of control groups and all capabilities.
fn configure(engine: &Engine, port: u16, audit: &str) -> String {
    format!(
        "\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  apiServerAddress: {address}
  apiServerPort: {port}
  serviceSubnet: {services}
nodes:
  - role: control-plane
    extraMounts:
      - {{ hostPath: {audit}, containerPath: /audit }}
    kubeadmConfigPatches:
      - |
        kind: InitConfiguration
        nodeRegistration:
          taints:
            - {{ key: node-role.kubernetes.io/control-plane, effect: NoSchedule }}
            - {{ key: CriticalAddonsOnly, effect: NoSchedule }}
      - |
        kind: ClusterConfiguration
        apiServer:
          extraArgs:
            audit-policy-file: /audit/{AUDIT_POLICY}
            audit-log-path: /audit/{AUDIT_LOG}
            audit-log-maxsize: \"1000\"
            enable-admission-plugins: {plugins}
          extraVolumes:
            - {{ name: audit, hostPath: /audit, mountPath: /audit, readOnly: false, pathType: Directory }}
      - |
        kind: KubeletConfiguration
        failCgroupV1: false
containerdConfigPatches:
  - |-
    [plugins.\"io.containerd.grpc.v1.cri\"]
      restrict_oom_score_adj = true
",
        address = engine.address(),
        plugins = local::ADMISSION_PLUGINS,
        services = local::SERVICE_CIDR,
    )
}

async fn run(engine: &Engine, kind: &Path, arguments: &[&str]) -> Result<String> {
    finish(engine.command(kind).args(arguments), &format!("kind {}", arguments.join(" "))).await
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("`{}` is not valid UTF-8", path.display()))
}
