//! Settings that an instance's user data gives its kubelet: the formats of the EKS images, read the way those images read them
//! at boot.
//!
//! The node agent knows nothing about the machine's purpose except what it finds here, so a mistake in generated user
//! data shows as a node that joins wrong, or not at all.

mod bottlerocket;
mod flags;
mod mime;
mod nodeadm;
mod script;

use std::collections::BTreeMap;

use karpenter_model::taint::Taint;

/// The image that reads the user data, by the format of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Image {
    /// AL2023: nodeadm merges what the user data says into its own configuration, key by key.
    #[default]
    Nodeadm,
    /// AL2: flags of the bootstrap script take the place of its configuration.
    Script,
    Windows,
    Bottlerocket,
}

/// Settings for the node from the user data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bootstrap {
    /// Image that reads it.
    pub image: Image,
    /// Cluster to join.
    pub cluster_name: String,
    /// Labels the kubelet registers with.
    pub labels: BTreeMap<String, String>,
    /// Taints the kubelet registers with.
    pub taints: Vec<Taint>,
    /// Most pods the kubelet runs; `None` for what the image computes.
    pub max_pods: Option<u32>,
    /// Most pods per core; `None` for no such bound.
    pub pods_per_core: Option<u32>,
    /// Resources kept back for Kubernetes, by name; what is absent the image computes.
    pub kube_reserved: BTreeMap<String, String>,
    /// Resources kept back for the system, by name.
    pub system_reserved: BTreeMap<String, String>,
    /// Number of CPUs that are listed as reserved, which replaces both amounts of `cpu`; `None` for no list.
    pub reserved_cpus: Option<u32>,
    /// Hard eviction thresholds, by signal.
    pub eviction_hard: BTreeMap<String, String>,
    /// Addresses of the cluster DNS.
    pub cluster_dns: Vec<String>,
    /// True if local disks become one ephemeral volume.
    pub local_disks: bool,
}

/// Reason why a machine with this user data does not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing in it.
    #[error("the user data is empty; nothing tells the machine which cluster to join")]
    Empty,
    #[error("the user data is no UTF-8 text")]
    NotText,
    /// A multipart archive that cannot be taken apart.
    #[error("the MIME archive is malformed: {why}")]
    Mime {
        /// Description of what is missing.
        why: &'static str,
    },
    /// A `NodeConfig` that does not parse.
    #[error("the nodeadm configuration does not parse: {why}")]
    Nodeadm {
        /// The parser's words.
        why: String,
    },
    /// Settings that do not parse.
    #[error("the Bottlerocket settings do not parse: {why}")]
    Bottlerocket {
        /// The parser's words.
        why: String,
    },
    /// Readable, but nothing in it starts a kubelet.
    #[error(
        "nothing in the user data starts a kubelet: no NodeConfig, no bootstrap script, no Bottlerocket settings"
    )]
    NoBootstrap,
}

/// Reads decoded user data.
pub fn parse(user_data: &[u8]) -> Result<Bootstrap, Error> {
    let text = std::str::from_utf8(user_data).map_err(|_| Error::NotText)?;
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(Error::Empty);
    }
    let bootstrap = if trimmed.starts_with("MIME-Version:") || trimmed.starts_with("Content-Type:") {
        parse_parts(&mime::parts(trimmed)?)?
    } else if trimmed.contains("[settings") {
        bottlerocket::parse(trimmed)?
    } else if let Some(config) = nodeadm::read(trimmed)? {
        nodeadm::bootstrap(&config)
    } else {
        script::parse(trimmed).ok_or(Error::NoBootstrap)?
    };
    if bootstrap.cluster_name.is_empty() { Err(Error::NoBootstrap) } else { Ok(bootstrap) }
}

/// All `NodeConfig` parts merge into one, later ones winning; without any, the last script that bootstraps counts.
fn parse_parts(parts: &[mime::Part]) -> Result<Bootstrap, Error> {
    let mut merged = None;
    let mut scripted = None;
    for part in parts {
        if part.content_type == "application/node.eks.aws" {
            let config = nodeadm::read(&part.body)?.ok_or(Error::NoBootstrap)?;
            merged = Some(match merged {
                Some(before) => nodeadm::merged(&before, &config),
                None => config,
            });
        } else if let Some(found) = script::parse(&part.body) {
            scripted = Some(found);
        }
    }
    merged.as_ref().map(nodeadm::bootstrap).or(scripted).ok_or(Error::NoBootstrap)
}

/// Number of CPUs in a list such as `0-1,4`; what is no number is not counted.
fn cpus(list: &str) -> Option<u32> {
    let size = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|end| end.trim().parse::<u32>().ok());
        Some(last?.checked_sub(first?)? + 1)
    };
    Some(list.split(',').filter_map(size).sum()).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests;
