//! Annotation keys and the finalizer names (spec scheduling 2, spec aws-provider 1.9).

/// Pod or Node: `true`; on pods also a positive duration.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// NodePool and NodeClaim: hash of the template, decimal.
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// NodePool and NodeClaim: version of the hash algorithm.
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// NodeClaim: RFC 3339 instant after which termination no longer waits.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// NodeClaim: `true` or `false`.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
/// NodeClaim: sorted, comma-separated DRA driver names.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// NodeClaim: `true` when a candidate type had an overlaid price.
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
/// NodeClaim: `true` when a candidate type had overlaid capacity.
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// NodeClaim: legacy provider blob.
pub const COMPATIBILITY_PROVIDER: &str = "compatibility.karpenter.sh/provider";
/// In-memory pod: `true` when it stands for buffered capacity.
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
/// In-memory pod: name of its buffer.
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
/// In-memory pod: namespace of its buffer.
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";

/// Finalizer of NodeClaims and their Nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";

/// Annotations that exist only on AWS.
pub mod aws {
    /// EC2NodeClass and NodeClaim: hash of the static fields, decimal.
    pub const EC2_NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
    /// EC2NodeClass and NodeClaim: version of the hash algorithm.
    pub const EC2_NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
    /// NodeClaim: the instance carries its name tags.
    pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
    /// NodeClaim: the instance carries the cluster name tag.
    pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
    /// NodeClaim: instance profile the instance was launched with.
    pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";

    /// Finalizer of EC2NodeClasses.
    pub const TERMINATION_FINALIZER: &str = "karpenter.k8s.aws/termination";
}
