//! Facts about the cluster and the installation that the provider needs (spec aws-provider 2.1).

use std::time::Duration;

/// Settings that do not change while the process runs.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per flag, named as users write them")]
pub struct Settings {
    /// EKS cluster name; part of every tag and template.
    pub cluster_name: String,
    /// URL of the API server that nodes join.
    pub cluster_endpoint: String,
    /// Base64 of the cluster's CA, as configured or from the kubeconfig.
    pub cluster_ca_bundle: Option<String>,
    /// Address of the cluster's DNS, which user data carries.
    pub kube_dns_ip: Option<String>,
    /// True if nodes have IPv6 addresses, as EKS reports; if EKS reports nothing, the address of the DNS decides.
    pub ipv6_cluster: Option<bool>,
    /// No calls to the global price list and to IAM for clean-up.
    pub isolated_vpc: bool,
    /// File of prices that users have written down for types.
    pub price_file: Option<std::path::PathBuf>,
    /// The Kubernetes version is read from EKS instead of from the API server.
    pub eks_control_plane: bool,
    /// Memory the hypervisor takes, in parts per million of the advertised memory.
    pub vm_memory_overhead_ppm: u32,
    /// Network interfaces per node that pods do not get.
    pub reserved_enis: u32,
    /// Skip the dry runs that prove a `NodeClass` can be launched.
    pub disable_dry_run: bool,
    /// The `ReservedCapacity` gate.
    pub reserved_capacity: bool,
    /// Zonal shifts of the cluster are followed.
    pub zonal_shift: bool,
    /// Name of the queue with notices about instances; without one only their status is polled.
    pub interruption_queue: Option<String>,
    /// Time for which an image lookup is reused, in seconds.
    pub ami_refresh_seconds: u64,
    /// Time for which a subnet lookup is reused, in seconds.
    pub subnet_refresh_seconds: u64,
    /// Time for which a lookup of security groups is reused, in seconds.
    pub security_group_refresh_seconds: u64,
    /// Longest an offering that keeps lacking capacity is left alone, in seconds.
    pub capacity_backoff_seconds: u64,
    /// Features of the provider that are off until they are stable.
    pub gates: Gates,
}

/// The feature gates of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per gate, named as users write them")]
pub struct Gates {
    /// Expressions in `spec.kubelet` are evaluated.
    pub node_class_cel: bool,
    /// Types list the NVIDIA devices they publish.
    pub dra_nvidia_gpu: bool,
    /// Types list the EFA devices they publish.
    pub dra_efa: bool,
    /// Repair may reboot an instance.
    pub reboot_for_repair: bool,
}

impl Gates {
    /// Returns whether types list any devices: then resource claims are planned for, even with `ignore-dra-requests`.
    pub fn foresee_devices(self) -> bool {
        self.dra_nvidia_gpu || self.dra_efa
    }
}

impl Settings {
    /// The defaults of the chart for a cluster.
    pub fn new(cluster_name: &str, cluster_endpoint: &str) -> Self {
        Self {
            cluster_name: cluster_name.to_owned(),
            cluster_endpoint: cluster_endpoint.to_owned(),
            cluster_ca_bundle: None,
            kube_dns_ip: None,
            ipv6_cluster: None,
            isolated_vpc: false,
            price_file: None,
            eks_control_plane: false,
            // 7.5 %, the default of the reference (spec aws-provider 2.1).
            vm_memory_overhead_ppm: 75_000,
            reserved_enis: 0,
            disable_dry_run: false,
            reserved_capacity: true,
            zonal_shift: false,
            interruption_queue: None,
            ami_refresh_seconds: 60,
            subnet_refresh_seconds: 60,
            security_group_refresh_seconds: 60,
            capacity_backoff_seconds: 30 * 60,
            gates: Gates::default(),
        }
    }

    /// Returns the times for which lookups of images, subnets and security groups are reused.
    pub(crate) fn refresh(&self) -> [Duration; 3] {
        let seconds =
            [self.ami_refresh_seconds, self.subnet_refresh_seconds, self.security_group_refresh_seconds];
        seconds.map(Duration::from_secs)
    }

    /// Returns whether nodes get IPv6 addresses.
    pub fn ipv6(&self) -> bool {
        let by_dns =
            || self.kube_dns_ip.as_deref().is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
        self.ipv6_cluster.unwrap_or_else(by_dns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eks_decides_the_ip_family_and_else_the_dns_address() {
        let mut settings = Settings::new("demo", "https://demo");
        assert!(!settings.ipv6());
        settings.kube_dns_ip = Some("10.100.0.10".to_owned());
        assert!(!settings.ipv6());
        settings.kube_dns_ip = Some("fd30::a".to_owned());
        assert!(settings.ipv6());
        settings.ipv6_cluster = Some(false);
        assert!(!settings.ipv6());
        settings = Settings { kube_dns_ip: None, ipv6_cluster: Some(true), ..settings };
        assert!(settings.ipv6(), "aws#9602: the DNS Service may have another name");
    }
}
