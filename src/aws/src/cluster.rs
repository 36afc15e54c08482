//! Facts about the cluster that are learnt after the start: its version and its service CIDR
//! (spec aws-provider 6.4, 6.5).

use std::sync::Arc;

use karpenter_aws_api::eks::Eks;
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Error, Result};
use parking_lot::RwLock;

/// Oldest and newest minor version of Kubernetes 1 that is supported.
pub(crate) const SUPPORTED_MINORS: (u32, u32) = (26, 36);

/// Facts about the cluster.
#[derive(Debug)]
pub struct Cluster {
    eks: Arc<dyn Eks>,
    name: String,
    facts: RwLock<Facts>,
}

#[derive(Clone, Debug, Default)]
struct Facts {
    version: Option<String>,
    service_cidr: Option<String>,
    arn: Option<Arn>,
}

impl Cluster {
    /// Creates it with nothing known.
    pub fn new(eks: Arc<dyn Eks>, name: &str) -> Self {
        Self { eks, name: name.to_owned(), facts: RwLock::default() }
    }

    /// `1.34`, once known.
    pub fn version(&self) -> Option<String> {
        self.facts().version
    }

    /// Takes over a version, as the API server or EKS reports it; `1.34+` is `1.34`. Returns whether it changed.
    pub fn set_version(&self, version: &str) -> bool {
        // EKS reports its minor versions with a plus; images are published under the number alone.
        let version = version.trim_end_matches('+').to_owned();
        let mut facts = self.facts.write();
        let changed = facts.version.as_ref() != Some(&version);
        facts.version = Some(version);
        changed
    }

    /// Asks EKS for the version.
    ///
    /// # Errors
    /// When EKS cannot be asked; the old version stays.
    pub async fn refresh_version(&self) -> Result<bool> {
        let cluster = self.eks.describe_cluster(&self.name).await?;
        Ok(self.set_version(&cluster.version))
    }

    /// Range of service addresses, once known.
    pub fn service_cidr(&self) -> Option<String> {
        self.facts().service_cidr
    }

    /// Takes over a range that is known from elsewhere.
    pub fn set_service_cidr(&self, cidr: &str) {
        self.facts.write().service_cidr = Some(cidr.to_owned());
    }

    /// Asks EKS for the range once; it cannot change during a cluster's life.
    ///
    /// # Errors
    /// When EKS gives no answer, or one without a range.
    pub async fn resolve_service_cidr(&self) -> Result<String> {
        if let Some(cidr) = self.service_cidr() {
            return Ok(cidr);
        }
        let cluster = self.eks.describe_cluster(&self.name).await?;
        let ranges = [cluster.service_ipv4_cidr, cluster.service_ipv6_cidr];
        let [first, second] = match cluster.ip_family.as_deref() {
            // The DNS of the cluster has an address of this range, and nodes take their family of addresses
            // from it (aws#9602).
            Some("ipv6") => {
                let [v4, v6] = ranges;
                [v6, v4]
            }
            _ => ranges,
        };
        let cidr = first.or(second).ok_or_else(|| {
            Error::missing_field("DescribeCluster", self.name.as_str(), "kubernetesNetworkConfig")
        })?;
        self.set_service_cidr(&cidr);
        Ok(cidr)
    }

    /// Asks EKS for the cluster's ARN once.
    ///
    /// # Errors
    /// When EKS cannot be asked.
    pub(crate) async fn resolve_arn(&self) -> Result<Arn> {
        if let Some(arn) = self.facts().arn {
            return Ok(arn);
        }
        let arn = self.eks.describe_cluster(&self.name).await?.arn;
        self.facts.write().arn = Some(arn.clone());
        Ok(arn)
    }

    fn facts(&self) -> Facts {
        self.facts.read().clone()
    }
}

/// Returns whether this release supports a version; false for a text that cannot be read.
pub fn is_supported(version: &str) -> bool {
    let Some(("1", minor)) = version.split_once('.') else { return false };
    let (oldest, newest) = SUPPORTED_MINORS;
    minor.parse::<u32>().is_ok_and(|minor| (oldest..=newest).contains(&minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_window_has_two_ends() {
        for (version, supported) in
            [("1.25", false), ("1.26", true), ("1.36", true), ("1.37", false), ("2.30", false), ("", false)]
        {
            assert_eq!(is_supported(version), supported, "{version}");
        }
    }
}
