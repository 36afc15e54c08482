//! Finalizers.

/// Finalizer of claims and their Nodes.
pub const TERMINATION: &str = "karpenter.sh/termination";
/// Finalizer of EC2NodeClasses.
pub const EC2_NODE_CLASS: &str = "karpenter.k8s.aws/termination";
