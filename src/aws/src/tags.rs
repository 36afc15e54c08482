//! Tags on everything we create (spec aws-provider 1.9).
//!
//! The controller's IAM policy is scoped by these tags, and the instances of a predecessor are found by them:
//! the set must not change.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::ec2nodeclass::Ec2NodeClassSpec;
use karpenter_model::names::{label, tag};

pub use karpenter_model::names::tag::{CLUSTER_NAME, NODE_CLAIM};

/// Shown as the instance's name in the console.
pub const NAME: &str = "Name";

/// Tags that EC2 and IAM take of one thing, without those of AWS.
const MOST: usize = 50;
/// Tags that we add to a launch.
const OURS: usize = 5;

/// Returns how many more tags a thing with these can have.
pub(crate) fn room(tags: &BTreeMap<String, String>) -> usize {
    MOST.saturating_sub(tags.keys().filter(|key| !key.starts_with("aws:")).count())
}

/// Tags of the `NodeClass` that nothing is launched with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would take over one of ours.
    #[error("tag `{0}` is reserved for the controller; remove it from spec.tags of the node class")]
    Reserved(String),
    /// EC2 takes no such key or value.
    #[error("{0}; correct spec.tags of the node class")]
    Invalid(String),
    /// IAM does not take it for the instance profile of `spec.role`.
    #[error(
        "IAM refuses the instance profile of spec.role: {0}; correct spec.tags of the node class, or name a profile \
             of your own in spec.instanceProfile"
    )]
    OfProfile(String),
}

/// Key of the tag that marks objects as owned by the cluster.
pub(crate) fn owned_key(cluster: &str) -> String {
    format!("{}{cluster}", tag::CLUSTER_PREFIX)
}

/// The `NodeClass`'s tags, when AWS takes all of them and none is reserved.
///
/// # Errors
/// [`Refused`] names the first that cannot be used.
pub fn of_class(spec: &Ec2NodeClassSpec) -> Result<BTreeMap<String, String>, Refused> {
    let tags = spec.tags.clone().unwrap_or_default();
    if let Some(key) = tags.keys().find(|key| reserved(key)) {
        return Err(Refused::Reserved(key.clone()));
    }
    if let Some(problem) = invalid(&tags) {
        return Err(Refused::Invalid(problem));
    }
    Ok(tags)
}

/// The `NodeClass`'s tags, when IAM takes all of them for the instance profile of `spec.role`. A profile that is there has
/// taken those that it was made with.
///
/// # Errors
/// [`Refused`] names the first that cannot be used.
pub(crate) fn of_profile(spec: &Ec2NodeClassSpec) -> Result<BTreeMap<String, String>, Refused> {
    let tags = of_class(spec)?;
    match invalid_of_profile(&tags) {
        Some(problem) => Err(Refused::OfProfile(problem)),
        None => Ok(tags),
    }
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions>
fn invalid(tags: &BTreeMap<String, String>) -> Option<String> {
    if tags.len() + OURS > MOST {
        return Some(format!(
            "{} tags, and {OURS} of the controller, are more than the {MOST} of AWS",
            tags.len()
        ));
    }
    tags.iter().find_map(|(key, value)| {
        let problem = if key.starts_with("aws:") {
            "begins with `aws:`, which is reserved for AWS"
        } else if key.chars().count() > 128 {
            "has a key of more than 128 characters"
        } else if value.chars().count() > 256 {
            "has a value of more than 256 characters"
        } else {
            return None;
        };
        Some(format!("tag `{key}` {problem}"))
    })
}

/// IAM has fewer characters than EC2, and takes keys that differ by case for the same
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html>).
fn invalid_of_profile(tags: &BTreeMap<String, String>) -> Option<String> {
    let mut keys = BTreeSet::new();
    tags.iter().find_map(|(key, value)| {
        if !keys.insert(key.to_lowercase()) {
            return Some(format!("tag `{key}` stands there in another case, too"));
        }
        let known = |one: char| one.is_alphanumeric() || one.is_whitespace() || "_.:/=+-@".contains(one);
        let unknown = key.chars().chain(value.chars()).find(|one| !known(*one))?;
        Some(format!(
            "tag `{key}` has the character `{unknown}`, and IAM takes letters, digits, spaces and `_.:/=+-@`"
        ))
    })
}

/// Tags of an instance, its volumes, interfaces, template and fleet.
///
/// # Errors
/// [`Refused`] as in [`of_class`].
pub(crate) fn of_launch(
    spec: &Ec2NodeClassSpec,
    class: &str,
    cluster: &str,
    pool: &str,
) -> Result<BTreeMap<String, String>, Refused> {
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
    fn tags_that_aws_does_not_take_are_refused_by_name() {
        let of = |tags: &[(&str, &str)], profile: bool| {
            let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let spec = Ec2NodeClassSpec { tags: Some(tags.collect()), ..Default::default() };
            let tags = if profile { of_profile(&spec) } else { of_class(&spec) };
            tags.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let keys: Vec<String> = (0..46).map(|number| format!("k{number}")).collect();
        let many: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "")).collect();
        let long = "k".repeat(257);
        for (tags, of_machines, of_a_profile) in [
            (&[("team", "Ä b/c=d+e-f@g_h.i:j"), ("empty", "")][..], "", ""),
            (&[("aws:team", "x")], "`aws:team` begins with", "`aws:team` begins with"),
            (&[("aws", "x")], "", ""),
            (&[(&long[..129], "x")], "more than 128", "more than 128"),
            (&[("k", &long)], "more than 256", "more than 256"),
            (&[(&long[..128], &long[..256])], "", ""),
            (&many, "46 tags, and 5", "46 tags, and 5"),
            (&many[..45], "", ""),
            (&[("Env", "x"), ("env", "x")], "", "`env` stands there in another case"),
            (&[("k", "a,b")], "", "the character `,`"),
            (&[("k*", "")], "", "the character `*`"),
        ] {
            for (profile, expected) in [(false, of_machines), (true, of_a_profile)] {
                let said = of(tags, profile);
                assert_eq!(said.is_empty(), expected.is_empty(), "{tags:?}: {said}");
                assert!(said.contains(expected), "{tags:?}: {said}");
            }
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
