//! Labels every cloud shares, and what is known about them (spec scheduling 2).

pub mod aws;

/// Owning pool.
pub const NODE_POOL: &str = "karpenter.sh/nodepool";
/// `spot`, `on-demand` or `reserved`.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
/// `true` on a Node after initialization.
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// `true` on a Node after registration.
pub const REGISTERED: &str = "karpenter.sh/registered";
/// `true` on a joining Node: registration leaves its taints alone.
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";
/// Set to `karpenter` on a Node that is being terminated.
pub const EXCLUDE_FROM_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Availability zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// CPU architecture: `amd64`, `arm64`.
pub const ARCH: &str = "kubernetes.io/arch";
/// Operating system.
pub const OS: &str = "kubernetes.io/os";
/// Host name, the finest topology domain.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Windows build.
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

/// Labels users may require although they are in a restricted domain, or although no pool mentions them.
pub const WELL_KNOWN: [&str; 8] =
    [NODE_POOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD];

/// The name of a Namespace, which the API server writes on each.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Values of [`CAPACITY_TYPE`].
pub const CAPACITY_TYPES: [&str; 3] = ["on-demand", "spot", "reserved"];

/// The domain of the labels above, reserved for the controller with its subdomains.
pub const DOMAIN: &str = "karpenter.sh";

/// Labels users may not set whatever their domain.
pub(crate) const RESTRICTED: [&str; 1] = [HOSTNAME];

const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Labels of a volume to which the scheduler keeps as to its node affinity; `__` stands between several values.
pub const PLACES_OF_VOLUMES: [&str; 4] = [ZONE, REGION, OLD_ZONE, OLD_REGION];

/// The hash of its template on pods of a Deployment.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// The revision of its template on pods of a StatefulSet or DaemonSet.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// The name of a pod of a StatefulSet.
pub const STATEFUL_SET_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The number of a pod of a StatefulSet.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The name of its Job on a pod, by both keys that it has.
pub const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// The number of a pod of an indexed Job.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Old name and present name; applied wherever a requirement is made.
pub const NORMALIZED: [(&str, &str); 5] = [
    (OLD_ZONE, ZONE),
    (OLD_REGION, REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
];

/// The label of nodes that a Provisioner of a version before v1beta1 made.
pub const PROVISIONER_NAME: &str = "karpenter.sh/provisioner-name";

/// Names of versions before v1 and present names. No node has the old ones any more.
pub const RENAMED: [(&str, &str); 2] =
    [(PROVISIONER_NAME, NODE_POOL), ("node.k8s.aws/capacity-type", CAPACITY_TYPE)];

/// The part of a key before the first `/`; empty for keys without one.
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or("", |(domain, _)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_is_the_text_before_the_first_slash() {
        assert_eq!(domain("a.b/c/d"), "a.b");
        assert_eq!(domain("plain"), "");
    }

    #[test]
    fn well_known_labels_are_listed_once() {
        let mut all: Vec<&str> = WELL_KNOWN.iter().chain(&aws::WELL_KNOWN).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
