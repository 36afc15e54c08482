//! The flags of each program. All paths are relative to the run folder, which is their working directory.

use anyhow::Result;

use super::{ADMISSION_PLUGINS, SERVICE_CIDR};
use crate::prepare::Release;
use crate::process::free_ports;

/// Policy for what the API server records.
pub(super) const AUDIT_POLICY_FILE: &str = "audit-policy.yaml";
/// File of the records.
pub(super) const AUDIT_LOG: &str = "audit.log";

/// The gate of pods that ask for a resource that a class of devices stands for. 1.34 is the first release that has it, and 1.36 the
/// first where it is on by default.
fn gates(release: Release) -> Option<String> {
    matches!(release.minor(), 34..36).then(|| "--feature-gates=DRAExtendedResource=true".to_owned())
}

/// The loopback ports of one attempt to start.
pub(super) struct Addresses {
    pub(super) etcd: u16,
    etcd_peer: u16,
    pub(super) apiserver: u16,
    pub(super) scheduler: u16,
    pub(super) controller_manager: u16,
}

impl Addresses {
    /// Ports that were free a moment ago.
    pub(super) fn choose() -> Result<Self> {
        let [etcd, etcd_peer, apiserver, scheduler, controller_manager] = free_ports()?;
        Ok(Self { etcd, etcd_peer, apiserver, scheduler, controller_manager })
    }

    /// The URL of the API server.
    pub(super) fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver)
    }
}

/// Durability is off: the data is thrown away with the run, and waiting for the disk would dominate.
pub(super) fn etcd(addresses: &Addresses) -> Vec<String> {
    let client = format!("https://127.0.0.1:{}", addresses.etcd);
    let peer = format!("http://127.0.0.1:{}", addresses.etcd_peer);
    vec![
        "--data-dir=etcd".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--cert-file=serving.crt".to_owned(),
        "--key-file=serving.key".to_owned(),
        "--trusted-ca-file=ca.crt".to_owned(),
        "--client-cert-auth".to_owned(),
        "--unsafe-no-fsync".to_owned(),
    ]
}

/// Like a real cluster where it matters to a node autoscaler: RBAC, the Node authoriser and its admission
/// plugin (which refuses nodes that label themselves too freely), token signing.
pub(super) fn apiserver(addresses: &Addresses, release: Release) -> Vec<String> {
    let mut arguments = serving(addresses.apiserver);
    arguments.extend([
        format!("--etcd-servers=https://127.0.0.1:{}", addresses.etcd),
        "--etcd-cafile=ca.crt".to_owned(),
        "--etcd-certfile=serving.crt".to_owned(),
        "--etcd-keyfile=serving.key".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--client-ca-file=ca.crt".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--audit-policy-file={AUDIT_POLICY_FILE}"),
        format!("--audit-log-path={AUDIT_LOG}"),
        // Megabytes; a log that is rotated away could not be read as a whole.
        "--audit-log-maxsize=1000".to_owned(),
        format!("--enable-admission-plugins={ADMISSION_PLUGINS}"),
        "--allow-privileged=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-account-key-file=service-accounts.pub".to_owned(),
        "--service-account-signing-key-file=service-accounts.key".to_owned(),
        format!("--service-cluster-ip-range={SERVICE_CIDR}"),
    ]);
    arguments.extend(gates(release));
    arguments
}

/// The default client limits (50 requests a second) would make the scheduler the bottleneck of scale tests.
pub(super) fn scheduler(addresses: &Addresses, release: Release) -> Vec<String> {
    let mut arguments = serving(addresses.scheduler);
    arguments.extend(own_kubeconfig("kube-scheduler"));
    arguments.extend(["--kube-api-qps=500", "--kube-api-burst=1000"].map(str::to_owned));
    arguments.extend(gates(release));
    arguments
}

/// Arguments of the controller-manager: those of [`scheduler`], and the authority that it publishes to every namespace.
pub(super) fn controller_manager(addresses: &Addresses, release: Release) -> Vec<String> {
    let mut arguments = serving(addresses.controller_manager);
    arguments.extend(own_kubeconfig("kube-controller-manager"));
    arguments.extend([
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        "--root-ca-file=ca.crt".to_owned(),
        "--service-account-private-key-file=service-accounts.key".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
    ]);
    arguments.extend(gates(release));
    arguments
}

fn serving(port: u16) -> Vec<String> {
    vec![
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        "--tls-cert-file=serving.crt".to_owned(),
        "--tls-private-key-file=serving.key".to_owned(),
    ]
}

fn own_kubeconfig(name: &str) -> Vec<String> {
    let file = format!("{name}.kubeconfig");
    vec![
        format!("--kubeconfig={file}"),
        format!("--authentication-kubeconfig={file}"),
        format!("--authorization-kubeconfig={file}"),
        "--leader-elect=false".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_is_on_loopback() {
        let addresses = Addresses::choose().unwrap();
        let release = "1.35.4".parse().unwrap();
        for arguments in [
            etcd(&addresses),
            apiserver(&addresses, release),
            scheduler(&addresses, release),
            controller_manager(&addresses, release),
        ] {
            let listeners: Vec<_> = arguments
                .iter()
                .filter(|argument| argument.contains("listen-") || argument.contains("bind-address"))
                .collect();
            assert!(!listeners.is_empty());
            assert!(listeners.iter().all(|argument| argument.contains("127.0.0.1")), "{listeners:?}");
        }
    }
}
