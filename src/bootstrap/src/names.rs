//! Names of what bootstrap creates, kept within AWS's limits.
//!
//! EKS allows cluster names of 100 characters while a role name ends at 64 (spec aws-operations 1.14, P-1).
//! A name that would be too long is cut and gets a short hash of the full name, so that it stays the same
//! on every run and two long cluster names never meet.

use sha2::{Digest, Sha256};

/// Longest name of a role in IAM.
pub const ROLE_NAME_MAX: usize = 64;
/// Longest name of a managed policy or instance profile in IAM.
pub(crate) const POLICY_NAME_MAX: usize = 128;
/// Length that the longest beginning and number of a policy's name leave of it; EKS allows as much for a cluster's name.
pub(crate) const POLICY_SUFFIX_MAX: usize = 100;
/// Longest name of a queue in SQS.
pub const QUEUE_NAME_MAX: usize = 80;
/// Longest name of a rule in `EventBridge`.
pub(crate) const RULE_NAME_MAX: usize = 64;

/// Longest name of a stack in `CloudFormation`.
pub(crate) const STACK_NAME_MAX: usize = 128;

const HASH_LENGTH: usize = 8;

/// `prefix + cluster + suffix`, with the cluster part shortened when the whole exceeds `max` characters.
///
/// The result is deterministic and at most `max` long, provided that `prefix` and `suffix` leave room for the
/// hash and its dash.
pub fn bounded(prefix: &str, cluster: &str, suffix: &str, max: usize) -> String {
    let full = format!("{prefix}{cluster}{suffix}");
    if full.len() <= max {
        return full;
    }
    let hash = short_hash(&full);
    let keep = max.saturating_sub(prefix.len() + suffix.len() + HASH_LENGTH + 1);
    let cut: String = cluster.chars().take(keep).collect();
    format!("{prefix}{}-{hash}{suffix}", cut.trim_end_matches(['-', '_']))
}

fn short_hash(text: &str) -> String {
    hash(text, HASH_LENGTH)
}

/// The first `length` hexadecimal digits, at most 64, of a digest of `text`. `length` is even.
pub(crate) fn hash(text: &str, length: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(length / 2).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_left_alone() {
        assert_eq!(bounded("KarpenterNodeRole-", "prod", "", ROLE_NAME_MAX), "KarpenterNodeRole-prod");
    }

    #[test]
    fn the_longest_cluster_name_fits_every_limit() {
        let cluster = "c".repeat(100);
        for (prefix, suffix, max) in [
            ("KarpenterNodeRole-", "", ROLE_NAME_MAX),
            ("", "-karpenter", ROLE_NAME_MAX),
            ("KarpenterNodeLifecycle-", "-2", POLICY_NAME_MAX),
            ("KarpenterNodeInstanceProfile-", "", POLICY_NAME_MAX),
            ("", "", QUEUE_NAME_MAX),
            ("Karpenter-", "", RULE_NAME_MAX - 20),
        ] {
            let name = bounded(prefix, &cluster, suffix, max);
            assert!(name.len() <= max, "{name} has {} characters", name.len());
            assert!(name.starts_with(prefix) && name.ends_with(suffix), "{name}");
            assert_eq!(name, bounded(prefix, &cluster, suffix, max));
        }
    }

    #[test]
    fn long_names_that_differ_at_the_end_stay_different() {
        let one = bounded("KarpenterNodeRole-", &format!("{}a", "c".repeat(99)), "", ROLE_NAME_MAX);
        let other = bounded("KarpenterNodeRole-", &format!("{}b", "c".repeat(99)), "", ROLE_NAME_MAX);
        assert_ne!(one, other);
    }
}
