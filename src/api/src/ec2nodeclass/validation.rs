//! Tags users may not set, checked again where they are used (spec aws-provider 1.3): the schema does not
//! apply to objects that are older than it.

use std::collections::BTreeMap;

use karpenter_model::names::{label, tag};

use super::Ec2NodeClassSpec;

/// Tag keys we write ourselves, by exact match.
const RESERVED: [&str; 4] =
    [tag::CLUSTER_NAME, label::NODE_POOL, tag::NODE_CLAIM, label::aws::EC2_NODE_CLASS];

/// A tag users may not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`spec.tags.{key}`: tag `{key}` is set by the controller; remove it")]
pub struct RestrictedTag {
    /// The tag key.
    pub key: String,
}

impl Ec2NodeClassSpec {
    /// Every tag that may not be set, in key order; empty when all is right.
    pub fn restricted_tags(&self) -> Vec<RestrictedTag> {
        let keys = self.tags.iter().flat_map(BTreeMap::keys);
        keys.filter(|key| is_restricted(key)).map(|key| RestrictedTag { key: key.clone() }).collect()
    }
}

fn is_restricted(key: &str) -> bool {
    RESERVED.contains(&key) || key.strip_prefix(tag::CLUSTER_PREFIX).is_some_and(is_cluster_name)
}

/// What EKS accepts as a name: 1 to 100 letters, digits, `-` and `_`, the first a letter or digit.
fn is_cluster_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    first && text.len() <= 100 && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let long = format!("{}{}", tag::CLUSTER_PREFIX, "a".repeat(101));
        let cases = [
            ("team", false),
            ("Name", false),
            ("eks:eks-cluster-name", true),
            ("eks:eks-cluster-name-2", false),
            ("karpenter.sh/nodepool", true),
            ("karpenter.sh/nodeclaim", true),
            ("karpenter.sh/other", false),
            ("karpenter.k8s.aws/ec2nodeclass", true),
            ("kubernetes.io/cluster/my-cluster_1", true),
            ("kubernetes.io/cluster/", false),
            ("kubernetes.io/cluster/-a", false),
            (long.as_str(), false),
        ];
        for (key, restricted) in cases {
            assert_eq!(is_restricted(key), restricted, "{key}");
        }
    }

    #[test]
    fn every_tag_is_reported() {
        let tags = ["karpenter.sh/nodepool", "team", "kubernetes.io/cluster/a"];
        let spec = Ec2NodeClassSpec {
            tags: Some(tags.map(|key| (key.to_owned(), String::new())).into()),
            ..Default::default()
        };
        let keys: Vec<String> = spec.restricted_tags().into_iter().map(|tag| tag.key).collect();
        assert_eq!(keys, ["karpenter.sh/nodepool", "kubernetes.io/cluster/a"]);
    }
}
