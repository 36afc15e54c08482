//! User data: what an instance receives at boot so that it joins the cluster as the node we asked for.
//!
//! One renderer per AMI family under `userdata/`; this file holds what they share: the inputs, the rule which
//! labels a kubelet may be given, and the dispatch. Rendering is pure, and the same input always gives the
//! same bytes, because the bytes are part of the launch template's name (spec aws-provider 6.6 to 6.11).

pub mod al2;
pub mod al2023;
pub mod bottlerocket;
mod cloud_init;
pub mod kubelet;
pub mod mime;
pub mod overruled;
pub mod reserved;
mod settings_text;
pub mod unread;
pub mod windows;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_api::ec2nodeclass::{AmiFamily, KubeletBlock, KubeletConfiguration};

/// EC2 refuses user data above this many decoded bytes.
pub(crate) const LIMIT_BYTES: usize = 16_384;

/// Returns whether `bytes`, after decoding, exceed nine tenths of EC2's limit: one more label may be one too many.
pub(crate) fn is_nearly_full(bytes: usize) -> bool {
    bytes * 10 > LIMIT_BYTES * 9
}

/// Label domains a kubelet may not set on its own node; these and their subdomains never reach user data.
const FORBIDDEN_DOMAINS: [&str; 3] = ["node-restriction.kubernetes.io", "kubernetes.io", "k8s.io"];

/// Everything a node needs to join, for one group of instance types and one AMI.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bootstrap {
    /// EKS cluster name.
    pub cluster_name: String,
    /// URL of the API server.
    pub cluster_endpoint: String,
    /// Base64 of the CA certificate, when known.
    pub ca_bundle: Option<String>,
    /// Service CIDR, which only AL2023's nodeadm needs.
    pub cluster_cidr: Option<String>,
    /// The settings of the `NodeClass`'s kubelet block, expressions evaluated, with `maxPods` and `clusterDNS` filled in.
    pub kubelet: KubeletConfiguration,
    /// The block as it is written; only AL2023 takes what is not among the settings.
    pub block: KubeletBlock,
    /// Taints the node registers with, in order.
    pub taints: Vec<NodeTaint>,
    /// Labels the kubelet sets, already filtered by [`kubelet_labels`].
    pub labels: BTreeMap<String, String>,
    /// The `NodeClass`'s own user data.
    pub custom: Option<String>,
    /// Stripe the local disks into one volume (`instanceStorePolicy: RAID0`).
    pub raid0: bool,
    /// True if Bottlerocket's image is too old to bind the ephemeral directories by itself.
    pub bottlerocket_binds_directories: bool,
}

/// A taint as the kubelet prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    /// Taint key.
    pub key: String,
    /// Taint value; empty when it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Reason why user data could not be rendered. Nothing is launched with half a script.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The `NodeClass`'s user data starts like MIME and is not.
    #[error(
        "user data looks like a MIME document but cannot be split into parts: {0}; fix spec.userData of the node class"
    )]
    Mime(String),
    /// Nothing on the node would read the `NodeClass`'s user data, or a part of it.
    #[error("user data would not be read by its nodes: {0}; fix spec.userData of the node class")]
    Unread(String),
    /// The `NodeClass`'s user data for Bottlerocket is not TOML.
    #[error("user data is not valid TOML: {0}; fix spec.userData of the node class")]
    Toml(String),
    /// The cluster CA is not base64.
    #[error("the cluster CA bundle is not valid base64: {0}; check the cluster CA setting")]
    CaBundle(String),
    /// The node configuration could not be written down.
    #[error("the node configuration cannot be written as {format}: {reason}")]
    Encode {
        /// `YAML` or `TOML`.
        format: &'static str,
        /// Error text of the encoder.
        reason: String,
    },
}

/// Renders the user data of a family as plain text (before base64).
///
/// # Errors
/// When the `NodeClass`'s own user data cannot be merged; see [`Error`].
pub fn render(family: AmiFamily, bootstrap: &Bootstrap) -> Result<String, Error> {
    match family {
        AmiFamily::AL2 => al2::render(bootstrap),
        AmiFamily::AL2023 => al2023::render(bootstrap),
        AmiFamily::Bottlerocket => bottlerocket::render(bootstrap),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            windows::render(bootstrap)
        }
        // Custom images own their boot: nothing is merged and nothing is checked.
        AmiFamily::Custom => Ok(bootstrap.custom.clone().unwrap_or_default()),
    }
}

/// The form EC2 takes user data in.
pub fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

/// The labels a kubelet is allowed to set on its node.
///
/// The API server refuses a kubelet that sets labels of the Kubernetes domains, so zone, architecture and
/// instance type are left to the cloud controller and to registration.
pub(crate) fn kubelet_labels(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.iter().filter(|(key, _)| !forbidden(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn forbidden(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    FORBIDDEN_DOMAINS.iter().any(|banned| {
        domain == *banned || domain.strip_suffix(banned).is_some_and(|rest| rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests;
