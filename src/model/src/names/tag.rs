//! Tags of what is created on AWS, as far as they are no labels (spec aws-provider 1.9). IAM policies are scoped by them.

/// The cluster an object belongs to.
pub const CLUSTER_NAME: &str = "eks:eks-cluster-name";
/// The claim an instance was launched for.
pub const NODE_CLAIM: &str = "karpenter.sh/nodeclaim";
/// The cluster whose node classes find the object by it.
pub const DISCOVERY: &str = "karpenter.sh/discovery";
/// Prefix of the key that marks an object as owned by the cluster; the cluster's name follows.
pub const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
