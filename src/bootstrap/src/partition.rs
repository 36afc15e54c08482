//! AWS partitions and what differs between them: ARN prefix, DNS suffix, service principals.
//!
//! Source: spec aws-operations 1.14 (P-6) and the IAM documentation of `iam:PassedToService`.

use std::fmt;

/// The part of AWS an account lives in. The second field of every ARN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partition {
    /// Commercial regions.
    Aws,
    /// China (Beijing, Ningxia).
    AwsCn,
    /// `GovCloud` (US).
    AwsUsGov,
}

impl Partition {
    /// Every partition, for tables and tests.
    pub const ALL: [Partition; 3] = [Partition::Aws, Partition::AwsCn, Partition::AwsUsGov];

    /// Reads the partition out of an ARN such as the one `sts:GetCallerIdentity` answers with.
    pub fn of_arn(arn: &str) -> Option<Partition> {
        let name = arn.strip_prefix("arn:")?.split(':').next()?;
        Self::ALL.into_iter().find(|partition| partition.as_str() == name)
    }

    /// The partition a region belongs to.
    pub fn of_region(region: &str) -> Partition {
        if region.starts_with("cn-") {
            Partition::AwsCn
        } else if region.starts_with("us-gov-") {
            Partition::AwsUsGov
        } else {
            Partition::Aws
        }
    }

    /// The name as it stands in ARNs.
    pub fn as_str(self) -> &'static str {
        match self {
            Partition::Aws => "aws",
            Partition::AwsCn => "aws-cn",
            Partition::AwsUsGov => "aws-us-gov",
        }
    }

    /// The domain that service host names and the EC2 service principal end with.
    pub fn dns_suffix(self) -> &'static str {
        match self {
            Partition::Aws | Partition::AwsUsGov => "amazonaws.com",
            Partition::AwsCn => "amazonaws.com.cn",
        }
    }

    /// Who assumes the node role: `ec2.amazonaws.com`, or `ec2.amazonaws.com.cn` in China.
    pub fn ec2_principal(self) -> String {
        format!("ec2.{}", self.dns_suffix())
    }

    /// The values `iam:PassedToService` takes when EC2 is handed a role. China uses both spellings,
    /// depending on the API that is called, so both are always allowed.
    pub fn passed_to_services(self) -> Vec<String> {
        vec!["ec2.amazonaws.com".to_owned(), "ec2.amazonaws.com.cn".to_owned()]
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_partition_from_the_callers_arn() {
        let cases = [
            ("arn:aws:iam::123456789012:user/me", Some(Partition::Aws)),
            ("arn:aws-cn:sts::123456789012:assumed-role/x/y", Some(Partition::AwsCn)),
            ("arn:aws-us-gov:iam::123456789012:root", Some(Partition::AwsUsGov)),
            ("arn:aws-iso:iam::123456789012:root", None),
            ("not an arn", None),
        ];
        for (arn, expected) in cases {
            assert_eq!(Partition::of_arn(arn), expected, "{arn}");
        }
    }

    #[test]
    fn region_and_partition_agree() {
        assert_eq!(Partition::of_region("eu-west-1"), Partition::Aws);
        assert_eq!(Partition::of_region("cn-north-1"), Partition::AwsCn);
        assert_eq!(Partition::of_region("us-gov-west-1"), Partition::AwsUsGov);
    }
}
