//! Annotations that exist only on AWS (spec aws-provider 1.9).

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
/// EC2NodeClasses: `true` writes what a node of the type reserves for Kubernetes into its user data.
pub const EXPLICIT_RESERVATIONS: &str = "karpenter.k8s.aws/explicit-reservations";
