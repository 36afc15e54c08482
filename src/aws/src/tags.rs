//! Tags on everything we create (spec aws-provider 1.9).
//!
//! The controller's IAM policy is scoped by these tags, and the instances of a predecessor are found by them:
//! the set must not change.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::Ec2NodeClassSpec;
use karpenter_model::names::{label, tag};

pub use karpenter_model::names::tag::{CLUSTER_NAME, NODE_CLAIM};

/// Shown as the instance's name in the console.
pub const NAME: &str = "Name";

/// A tag of the `NodeClass` that would take over one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tag `{key}` is reserved for the controller; remove it from spec.tags of the node class")]
pub struct Restricted {
    /// The tag key.
    pub key: String,
}

/// Key of the tag that marks objects as owned by the cluster.
pub(crate) fn owned_key(cluster: &str) -> String {
    format!("{}{cluster}", tag::CLUSTER_PREFIX)
}

/// The `NodeClass`'s tags, when none of them is reserved.
///
/// # Errors
/// [`Restricted`] names the first reserved key.
pub fn of_class(spec: &Ec2NodeClassSpec) -> Result<BTreeMap<String, String>, Restricted> {
    let tags = spec.tags.clone().unwrap_or_default();
    match tags.keys().find(|key| reserved(key)) {
        Some(key) => Err(Restricted { key: key.clone() }),
        None => Ok(tags),
    }
}

/// Tags of an instance, its volumes, interfaces, template and fleet.
///
/// # Errors
/// [`Restricted`] as in [`of_class`].
pub(crate) fn of_launch(
    spec: &Ec2NodeClassSpec,
    class: &str,
    cluster: &str,
    pool: &str,
) -> Result<BTreeMap<String, String>, Restricted> {
    let mut tags = of_class(spec)?;
    tags.insert(owned_key(cluster), "owned".to_owned());
    tags.insert(CLUSTER_NAME.to_owned(), cluster.to_owned());
    tags.insert(label::NODE_POOL.to_owned(), pool.to_owned());
    tags.insert(label::aws::EC2_NODE_CLASS.to_owned(), class.to_owned());
    Ok(tags)
}

fn reserved(key: &str) -> bool {
    let ours = [CLUSTER_NAME, label::NODE_POOL, NODE_CLAIM, label::aws::EC2_NODE_CLASS];
    ours.contains(&key) || key.strip_prefix(tag::CLUSTER_PREFIX).is_some_and(is_cluster_name)
}

/// EKS cluster names: a letter or digit, then letters, digits, dashes and underscores, 100 at most.
fn is_cluster_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(key: &str) -> Ec2NodeClassSpec {
        Ec2NodeClassSpec { tags: Some([(key.to_owned(), "x".to_owned())].into()), ..Default::default() }
    }

    #[test]
    fn reserved_keys_are_refused_by_name() {
        let long = format!("{}{}", tag::CLUSTER_PREFIX, "a".repeat(101));
        for (key, refused) in [
            ("team", false),
            ("Name", false),
            ("karpenter.sh/nodepool", true),
            ("karpenter.sh/nodeclaim", true),
            ("karpenter.k8s.aws/ec2nodeclass", true),
            ("eks:eks-cluster-name", true),
            ("kubernetes.io/cluster/demo", true),
            ("kubernetes.io/cluster/my-cluster_1", true),
            ("kubernetes.io/cluster/", false),
            ("kubernetes.io/cluster/-a", false),
            ("eks:eks-cluster-name-2", false),
            ("karpenter.sh/other", false),
            (long.as_str(), false),
        ] {
            assert_eq!(of_class(&spec(key)).is_err(), refused, "{key}");
        }
    }

    #[test]
    fn launches_carry_the_four_tags_iam_policies_are_scoped_by() {
        let tags = of_launch(&spec("team"), "default", "demo", "web").unwrap();
        let expected = [
            ("eks:eks-cluster-name", "demo"),
            ("karpenter.k8s.aws/ec2nodeclass", "default"),
            ("karpenter.sh/nodepool", "web"),
            ("kubernetes.io/cluster/demo", "owned"),
            ("team", "x"),
        ];
        assert!(tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(expected));
    }
}
