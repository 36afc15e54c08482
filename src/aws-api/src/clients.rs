//! The bundle for callers that need AWS: one trait object per service, and where they point.

use std::sync::Arc;

use crate::cloudformation::CloudFormation;
use crate::ec2::Ec2;
use crate::eks::Eks;
use crate::events::Events;
use crate::iam::Iam;
use crate::pricing::Pricing;
use crate::shift::ZonalShifts;
use crate::sqs::Sqs;
use crate::ssm::Ssm;
use crate::sts::Sts;
use crate::survey::Survey;

/// One client per service, all for the same account, credentials and region. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Compute: catalogue, network, images, launch templates, fleets, instances.
    pub ec2: Arc<dyn Ec2>,
    /// Identity: roles, managed policies, instance profiles. Global within the partition.
    pub iam: Arc<dyn Iam>,
    /// The interruption queue.
    pub sqs: Arc<dyn Sqs>,
    /// `EventBridge` rules that feed the queue.
    pub events: Arc<dyn Events>,
    /// Public parameters that name images.
    pub ssm: Arc<dyn Ssm>,
    /// On-demand prices. Lives in one region per partition, see [`Partition::pricing_region`].
    pub pricing: Arc<dyn Pricing>,
    /// The cluster, its access entries and pod identity associations.
    pub eks: Arc<dyn Eks>,
    /// Stacks, for prerequisites that are kept in one.
    pub cloudformation: Arc<dyn CloudFormation>,
    /// Zones that clusters are shifted away from.
    pub shifts: Arc<dyn ZonalShifts>,
    /// Identity of the caller.
    pub sts: Arc<dyn Sts>,
    /// Queries of several services that only a diagnosis makes.
    pub survey: Arc<dyn Survey>,
    /// Region of every regional client above, for example `eu-west-1`.
    pub region: String,
    /// Partition of that region.
    pub partition: Partition,
}

/// A set of regions that share accounts, ARN prefix and DNS suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// Commercial regions.
    Aws,
    /// Regions in China (`cn-*`).
    China,
    UsGov,
    /// Isolated regions (`us-iso-*`).
    Iso,
    /// Isolated regions (`us-isob-*`).
    IsoB,
    /// Isolated regions (`eu-isoe-*`).
    IsoE,
    /// Isolated regions (`us-isof-*`).
    IsoF,
    /// The European sovereign cloud (`eusc-*`).
    EuSovereign,
}

impl Partition {
    /// The partition of a region. Unknown prefixes count as commercial.
    pub fn of_region(region: &str) -> Self {
        const PREFIXES: [(&str, Partition); 7] = [
            ("cn-", Partition::China),
            ("us-gov-", Partition::UsGov),
            ("us-isob-", Partition::IsoB),
            ("us-isof-", Partition::IsoF),
            ("us-iso-", Partition::Iso),
            ("eu-isoe-", Partition::IsoE),
            ("eusc-", Partition::EuSovereign),
        ];
        PREFIXES
            .iter()
            .find(|(prefix, _)| region.starts_with(prefix))
            .map_or(Self::Aws, |(_, partition)| *partition)
    }

    /// Second field of every ARN: `aws`, `aws-cn`, `aws-us-gov`, ...
    pub fn arn_prefix(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::China => "aws-cn",
            Self::UsGov => "aws-us-gov",
            Self::Iso => "aws-iso",
            Self::IsoB => "aws-iso-b",
            Self::IsoE => "aws-iso-e",
            Self::IsoF => "aws-iso-f",
            Self::EuSovereign => "aws-eusc",
        }
    }

    /// DNS suffix, as `CloudFormation` substitutes for `AWS::URLSuffix`.
    pub fn dns_suffix(self) -> &'static str {
        match self {
            Self::Aws | Self::UsGov => "amazonaws.com",
            Self::China => "amazonaws.com.cn",
            Self::Iso => "c2s.ic.gov",
            Self::IsoB => "sc2s.sgov.gov",
            Self::IsoE => "cloud.adc-e.uk",
            Self::IsoF => "csp.hci.ic.gov",
            Self::EuSovereign => "amazonaws.eu",
        }
    }

    /// Returns the principal of EC2: `ec2.amazonaws.com`, or under the suffix of the partition.
    pub fn ec2_principal(self) -> String {
        match self {
            // IAM refuses `ec2.amazonaws.eu` as an invalid principal: https://github.com/pulumi/pulumi-eks/issues/2341.
            Self::EuSovereign => "ec2.amazonaws.com".to_owned(),
            // Kept although China takes both names: the roles of existing clusters have this one.
            _ => format!("ec2.{}", self.dns_suffix()),
        }
    }

    /// Region whose Pricing endpoint answers for `region` (spec aws-provider 4); `None` where no price list can be
    /// asked.
    pub fn pricing_region(region: &str) -> Option<&'static str> {
        match Self::of_region(region) {
            Self::Aws => Some(match region.split('-').next() {
                Some("ap") => "ap-south-1",
                Some("eu") => "eu-central-1",
                _ => "us-east-1",
            }),
            Self::China => Some("cn-northwest-1"),
            Self::EuSovereign => Some("eusc-de-east-1"),
            Self::UsGov | Self::Iso | Self::IsoB | Self::IsoE | Self::IsoF => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_and_pricing_region_follow_the_region() {
        for (region, arn, suffix, pricing) in [
            ("us-west-2", "aws", "amazonaws.com", Some("us-east-1")),
            ("eu-west-1", "aws", "amazonaws.com", Some("eu-central-1")),
            ("ap-southeast-2", "aws", "amazonaws.com", Some("ap-south-1")),
            ("cn-north-1", "aws-cn", "amazonaws.com.cn", Some("cn-northwest-1")),
            ("us-gov-east-1", "aws-us-gov", "amazonaws.com", None),
            ("eusc-de-east-1", "aws-eusc", "amazonaws.eu", Some("eusc-de-east-1")),
            ("us-iso-east-1", "aws-iso", "c2s.ic.gov", None),
            ("us-isob-east-1", "aws-iso-b", "sc2s.sgov.gov", None),
            ("us-isof-south-1", "aws-iso-f", "csp.hci.ic.gov", None),
        ] {
            let partition = Partition::of_region(region);
            assert_eq!(partition.arn_prefix(), arn, "{region}");
            assert_eq!(partition.dns_suffix(), suffix, "{region}");
            assert_eq!(Partition::pricing_region(region), pricing, "{region}");
        }
    }

    #[test]
    fn ec2_has_the_principal_that_iam_takes() {
        for (region, principal) in [
            ("eu-west-1", "ec2.amazonaws.com"),
            ("us-gov-west-1", "ec2.amazonaws.com"),
            ("cn-north-1", "ec2.amazonaws.com.cn"),
            ("us-iso-east-1", "ec2.c2s.ic.gov"),
            ("eusc-de-east-1", "ec2.amazonaws.com"),
        ] {
            assert_eq!(Partition::of_region(region).ec2_principal(), principal, "{region}");
        }
    }
}
