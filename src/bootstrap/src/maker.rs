//! Who made a thing that stands under one of our names, as far as its tags say.

use karpenter_aws_api::Tags;

use crate::desired::{CLUSTER_TAG, OWNER_TAG};

/// CloudFormation gives it to most of what it makes.
const STACK_TAG: &str = "aws:cloudformation:stack-name";
/// `eksctl` gives it to everything, with the name of the cluster.
const EKSCTL_TAG: &str = "alpha.eksctl.io/cluster-name";

/// The tool that made something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Bootstrap, for this cluster.
    Us,
    /// For another cluster, whatever the tool.
    OtherCluster(String),
    /// The stack of this name, which would change or delete it with the next update.
    Stack(String),
    /// `eksctl`.
    Eksctl,
    /// It carries the cluster's tag: Terraform or a stack that does not say so.
    OfCluster,
    /// Its tags do not say.
    Unknown,
}

impl Maker {
    /// Who made a thing with these tags.
    pub(crate) fn of(tags: &Tags, cluster: &str) -> Self {
        match (tags.get(OWNER_TAG), tags.get(CLUSTER_TAG)) {
            (Some(owner), _) if owner == cluster => return Self::Us,
            (Some(other), _) => return Self::OtherCluster(other.clone()),
            (None, Some(other)) if other != cluster => return Self::OtherCluster(other.clone()),
            _ => {}
        }
        if let Some(stack) = tags.get(STACK_TAG) {
            return Self::Stack(stack.clone());
        }
        match tags.get(EKSCTL_TAG) {
            Some(other) if other != cluster => Self::OtherCluster(other.clone()),
            Some(_) => Self::Eksctl,
            None if tags.contains_key(CLUSTER_TAG) => Self::OfCluster,
            None => Self::Unknown,
        }
    }

    /// The end of a sentence about the thing; empty when there is nothing to say.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::Us | Self::Unknown => String::new(),
            Self::OtherCluster(cluster) => format!(", it is of cluster `{cluster}`"),
            Self::Stack(stack) => format!(", it is of CloudFormation stack `{stack}`"),
            Self::Eksctl => ", it is of eksctl".to_owned(),
            Self::OfCluster => {
                ", it carries the cluster's tag, as what Terraform or a stack makes".to_owned()
            }
        }
    }

    /// Whether `--adopt` may take it over.
    pub(crate) fn may_be_adopted(&self) -> bool {
        !matches!(self, Self::OtherCluster(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_say_who_made_a_thing() {
        for (tags, maker) in [
            (vec![], Maker::Unknown),
            (vec![(OWNER_TAG, "prod")], Maker::Us),
            (vec![(OWNER_TAG, "other")], Maker::OtherCluster("other".to_owned())),
            (vec![(CLUSTER_TAG, "other")], Maker::OtherCluster("other".to_owned())),
            (vec![(STACK_TAG, "Karpenter-prod")], Maker::Stack("Karpenter-prod".to_owned())),
            (vec![(CLUSTER_TAG, "prod")], Maker::OfCluster),
            (vec![(EKSCTL_TAG, "prod")], Maker::Eksctl),
            (vec![(EKSCTL_TAG, "other")], Maker::OtherCluster("other".to_owned())),
        ] {
            let tags = tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert_eq!(Maker::of(&tags, "prod"), maker, "{tags:?}");
        }
    }
}
