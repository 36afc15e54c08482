//! A control plane of four processes: etcd, kube-apiserver, kube-scheduler, kube-controller-manager.
//!
//! It is the real API server with RBAC, the Node authoriser, admission and service-account tokens, listening
//! on loopback only, with certificates made for this one run. There is no kubelet: nodes are joined by
//! what simulates them. `default/default` exists and `kube-system/kube-dns` has its cluster address when
//! [`LocalCluster::start`] returns, as in any EKS cluster.

mod arguments;
mod certificates;
mod component;
mod furniture;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::prepare::{self, Binaries};
use crate::process::Guard;
use crate::rights;

use super::access::{self, Access, Identity};
use arguments::Addresses;
use certificates::Certificates;
use component::{Components, StartError};

/// Service addresses, as EKS chooses them for a VPC outside 10.0.0.0/8; the emulated account reports the same.
pub const SERVICE_CIDR: &str = "10.100.0.0/16";

/// Admission plugins that are off by default in Kubernetes and on in EKS.
pub(super) const ADMISSION_PLUGINS: &str = "NodeRestriction,ExtendedResourceToleration";

/// A port is given away between asking for it and binding it about never; three times means something else.
const ATTEMPTS: usize = 3;

/// Options of a local cluster.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder of logs, certificates and kubeconfigs; it stays. `None`: a temporary folder that is removed after an orderly stop
    /// and kept after a failure.
    pub folder: Option<PathBuf>,
    /// The programs. `None`: whatever [`prepare::binaries`] finds or builds.
    pub binaries: Option<Binaries>,
}

/// A running control plane; ends when stopped or dropped.
pub struct LocalCluster {
    components: Components,
    certificates: Certificates,
    access: Access,
    folder: PathBuf,
    temporary: Option<TempDir>,
}

impl LocalCluster {
    /// Starts the four processes and returns when each reports ready.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = match options.binaries {
            Some(binaries) => binaries,
            None => tokio::task::spawn_blocking(prepare::binaries).await.context("prepare programs")??,
        };
        let (folder, mut temporary) = run_folder(options.folder)?;
        let started = Self::start_in(&binaries, &folder).await;
        match started {
            Ok((components, certificates, access)) => {
                Ok(Self { components, certificates, access, folder, temporary })
            }
            Err(error) => {
                if let Some(temporary) = temporary.as_mut() {
                    temporary.disable_cleanup(true);
                }
                Err(error.context(format!("start a local control plane in `{}`", folder.display())))
            }
        }
    }

    async fn start_in(binaries: &Binaries, folder: &Path) -> Result<(Components, Certificates, Access)> {
        let certificates = Certificates::generate().context("make certificates")?;
        certificates.write(folder)?;
        start_auditing(folder)?;
        let guard = Arc::new(Guard::start()?);
        let mut attempt = 1;
        let (components, addresses) = loop {
            let addresses = Addresses::choose()?;
            write_kubeconfigs(folder, &addresses, &certificates)?;
            match Components::start(binaries, folder, &addresses, &guard).await {
                Ok(components) => break (components, addresses),
                Err(StartError::PortTaken(error)) if attempt < ATTEMPTS => {
                    tracing::warn!(%error, attempt, "a port was taken meanwhile; trying others");
                    attempt += 1;
                }
                Err(StartError::PortTaken(error) | StartError::Other(error)) => return Err(error),
            }
        };
        let access = Access::from_kubeconfig(&folder.join("admin.kubeconfig"), folder).await?;
        furniture::install(&access.client()).await?;
        tracing::info!(server = addresses.server(), folder = %folder.display(), "control plane is ready");
        Ok((components, certificates, access))
    }

    /// The four processes.
    pub fn processes(&self) -> Vec<(&'static str, Pid)> {
        self.components.processes()
    }

    /// Kills one of the four, and starts it again after it was `dead` for a while; returns before it is ready.
    pub async fn restart(&self, program: &str, dead: Duration) -> Result<()> {
        self.components.restart(program, dead).await
    }

    /// Returns the access to the cluster.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.access.client()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.access.kubeconfig()
    }

    /// Returns the API server's record of the controller's requests, one JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.join(arguments::AUDIT_LOG)
    }

    /// Logs, certificates and kubeconfigs of this run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// See [`Access::service_account_kubeconfig`].
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.access.service_account_kubeconfig(namespace, name).await
    }

    /// Writes a kubeconfig with the identity of the kubelet of node `name`, under the Node authoriser.
    pub fn node_kubeconfig(&self, name: &str) -> Result<PathBuf> {
        let user = format!("system:node:{name}");
        let pair = self.certificates.client(&user, &["system:nodes"]).context("make a node certificate")?;
        let identity = Identity::Certificate { certificate: &pair.certificate, key: &pair.key };
        self.access.identity_kubeconfig(&format!("node-{name}"), &identity)
    }

    /// Ends all processes, the last started first; a temporary run folder is removed with them.
    pub async fn stop(mut self) -> Result<()> {
        self.components.stop().await?;
        if let Some(temporary) = self.temporary.take() {
            temporary.close().context("remove the run folder")?;
        }
        Ok(())
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(temporary) = self.temporary.as_mut()
        {
            temporary.disable_cleanup(true);
            tracing::warn!(folder = %self.folder.display(), "logs of the control plane are kept");
        }
    }
}

fn run_folder(wanted: Option<PathBuf>) -> Result<(PathBuf, Option<TempDir>)> {
    if let Some(folder) = wanted {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("create run folder `{}`", folder.display()))?;
        let folder = folder.canonicalize().context("resolve the run folder")?;
        return Ok((folder, None));
    }
    let temporary = tempfile::Builder::new()
        .prefix("karpenter-e2e-")
        .tempdir()
        .context("create a temporary run folder")?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// Writes the audit policy; a log that an earlier run has left is not ours.
fn start_auditing(folder: &Path) -> Result<()> {
    match std::fs::remove_file(folder.join(arguments::AUDIT_LOG)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("remove an old audit log");
        }
        _ => {}
    }
    std::fs::write(folder.join(arguments::AUDIT_POLICY_FILE), rights::cluster::AUDIT_POLICY)
        .context("write the audit policy")
}

/// One kubeconfig for each of the three clients a control plane has of its own.
fn write_kubeconfigs(folder: &Path, addresses: &Addresses, certificates: &Certificates) -> Result<()> {
    let cluster = access::cluster_entry(&addresses.server(), &certificates.authority);
    for (name, user, groups) in [
        ("admin", "kubernetes-admin", ["system:masters"].as_slice()),
        ("kube-scheduler", "system:kube-scheduler", &[]),
        ("kube-controller-manager", "system:kube-controller-manager", &[]),
    ] {
        let pair =
            certificates.client(user, groups).with_context(|| format!("make a certificate for {user}"))?;
        let identity = Identity::Certificate { certificate: &pair.certificate, key: &pair.key };
        access::write_kubeconfig(&folder.join(format!("{name}.kubeconfig")), &cluster, "default", &identity)?;
    }
    Ok(())
}
