//! Owner of an AWS resource that has one of our names: the tool or cluster that created it, as far as its tags show.

use karpenter_aws_api::Tags;

use crate::desired::{CLUSTER_TAG, OWNER_TAG, REGION_TAG};
use crate::settings::Settings;

/// Tag of most resources that CloudFormation creates.
const STACK_TAG: &str = "aws:cloudformation:stack-name";
/// Tag of all resources that `eksctl` creates; its value is the name of the cluster.
const EKSCTL_TAG: &str = "alpha.eksctl.io/cluster-name";

/// Tool or cluster that created a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourceOwner {
    /// Bootstrap, for this cluster.
    Us,
    /// Any tool, for another cluster.
    OtherCluster(String),
    /// Bootstrap, for a cluster of this name in another region.
    OtherRegion {
        /// Name of both clusters.
        cluster: String,
        /// Region of the other one.
        region: String,
    },
    /// The stack of this name, which would change or delete it with the next update.
    Stack(String),
    Eksctl,
    /// An unknown tool, for this cluster: the resource has the cluster's tag, as Terraform sets it.
    OfCluster,
    /// The tags name neither tool nor cluster.
    Unknown,
}

impl ResourceOwner {
    /// Returns the owner of a resource with these tags.
    pub(crate) fn of(tags: &Tags, settings: &Settings) -> Self {
        let cluster = &settings.cluster;
        match (tags.get(OWNER_TAG), tags.get(CLUSTER_TAG)) {
            (Some(owner), _) if owner == cluster => return Self::of_region(tags, settings),
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

    /// Bootstrap made it for a cluster of this name. A thing without that tag is of this region: it is regional, or was made
    /// before the tag was given.
    fn of_region(tags: &Tags, settings: &Settings) -> Self {
        match tags.get(REGION_TAG).filter(|region| **region != settings.region) {
            Some(region) => Self::OtherRegion { cluster: settings.cluster.clone(), region: region.clone() },
            None => Self::Us,
        }
    }

    /// The end of a sentence about the thing; empty when the maker adds nothing to it.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Self::Us | Self::Unknown => String::new(),
            Self::OtherCluster(cluster) => format!(", it is of cluster `{cluster}`"),
            Self::OtherRegion { cluster, region } => format!(", it is of cluster `{cluster}` in {region}"),
            Self::Stack(stack) => format!(", it is of CloudFormation stack `{stack}`"),
            Self::Eksctl => ", it is of eksctl".to_owned(),
            Self::OfCluster => {
                ", it carries the cluster's tag, as what Terraform or a stack makes".to_owned()
            }
        }
    }

    /// Returns whether `--adopt` may take it over.
    pub(crate) fn may_be_adopted(&self) -> bool {
        !matches!(self, Self::OtherCluster(_) | Self::OtherRegion { .. })
    }
}

/// Advice about a thing that belongs to a cluster of the same name in another region.
pub(crate) const OTHER_NAMES: &str = "names of IAM are unique in an account across regions, give this cluster's things \
    other ones with --node-role-name, --windows-node-role-name, --controller-role-name, --instance-profile-name and \
    --policy-suffix";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn tags_say_who_made_a_thing() {
        let elsewhere =
            ResourceOwner::OtherRegion { cluster: "prod".to_owned(), region: "us-east-1".to_owned() };
        for (tags, maker) in [
            (vec![], ResourceOwner::Unknown),
            (vec![(OWNER_TAG, "prod")], ResourceOwner::Us),
            (vec![(OWNER_TAG, "prod"), (REGION_TAG, "eu-west-1")], ResourceOwner::Us),
            (vec![(OWNER_TAG, "prod"), (REGION_TAG, "us-east-1")], elsewhere),
            (vec![(OWNER_TAG, "other")], ResourceOwner::OtherCluster("other".to_owned())),
            (vec![(CLUSTER_TAG, "other")], ResourceOwner::OtherCluster("other".to_owned())),
            (vec![(STACK_TAG, "Karpenter-prod")], ResourceOwner::Stack("Karpenter-prod".to_owned())),
            (vec![(CLUSTER_TAG, "prod")], ResourceOwner::OfCluster),
            (vec![(EKSCTL_TAG, "prod")], ResourceOwner::Eksctl),
            (vec![(EKSCTL_TAG, "other")], ResourceOwner::OtherCluster("other".to_owned())),
        ] {
            let tags = tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            assert_eq!(ResourceOwner::of(&tags, &settings()), maker, "{tags:?}");
        }
    }
}
