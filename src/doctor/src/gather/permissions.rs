//! Actions that AWS is asked for, as policies name them, and what to add to policies where AWS refuses.

use karpenter_aws_api::{Error, Kind, Result};

use crate::facts::Answer;

/// Every action of AWS that is asked for, as a policy names it.
pub(crate) const PERMISSIONS: [&str; 26] = [
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcEndpoints",
    "ec2:GetEbsDefaultKmsKeyId",
    "ec2:GetEbsEncryptionByDefault",
    "eks:DescribeAccessEntry",
    "eks:DescribeCluster",
    "eks:DescribePodIdentityAssociation",
    "eks:ListAccessEntries",
    "eks:ListPodIdentityAssociations",
    "events:ListRuleNamesByTarget",
    "iam:GetAccountSummary",
    "iam:GetOpenIDConnectProvider",
    "iam:GetRole",
    "iam:ListAttachedRolePolicies",
    "iam:SimulatePrincipalPolicy",
    "kms:DescribeKey",
    "kms:GetKeyPolicy",
    "servicequotas:GetServiceQuota",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    "sqs:ListQueueTags",
    "sts:GetCallerIdentity",
];

/// An answer of AWS, or why there is none.
pub(super) fn answer<T>(result: Result<T>) -> Answer<T> {
    result.map_err(|error| why(&error)).into()
}

/// Returns why AWS did not answer. An error names its operation; policies want the service with it.
pub(super) fn why(error: &Error) -> String {
    let is_asked = |action: &&&str| action.split(':').nth(1) == Some(error.operation);
    match PERMISSIONS.iter().find(is_asked).filter(|_| error.kind == Kind::Denied) {
        Some(action) => format!("{error}: `{action}`"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_action_to_allow() {
        for (operation, code, end) in [
            ("GetRole", "AccessDenied", "grant the caller this action on this resource: `iam:GetRole`"),
            ("DescribeSubnets", "UnauthorizedOperation", "on this resource: `ec2:DescribeSubnets`"),
            ("GetRole", "Throttling", "it is retried more slowly"),
        ] {
            let text = why(&Error::answered(operation, "x", code, "no"));
            assert!(text.ends_with(end), "{text}");
        }
    }
}
