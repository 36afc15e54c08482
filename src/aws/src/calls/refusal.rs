//! Reasons for which EC2 refused a launch: the reason strings users see (spec aws-provider 5.9, spec aws-operations 2.10).
//!
//! The rules are substring tests on `code: message`, first match wins, because several reasons share one code
//! and differ only in AWS's text. The order of [`LaunchFailure::of`] is part of the contract.

use karpenter_model::names::reason;

/// Reason of a failed launch, as reported in the claim's condition and in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LaunchFailure {
    /// EC2 may not create the spot service-linked role for the caller.
    SpotSlrCreationFailed,
    /// Denied, and the permissions boundary is what denies.
    UnauthorizedByBoundary,
    /// Denied, and an organisation's service control policy is what denies.
    UnauthorizedByServiceControlPolicy,
    /// The image, or its snapshot, is not shared with this account.
    AmiAuthorizationFailure,
    /// Denied, no statement allows it.
    Unauthorized,
    /// Subnets and security groups are of different VPCs.
    SecurityGroupSubnetVpcMismatch,
    /// Instance profile deleted, or not propagated yet.
    InstanceProfileNameInvalid,
    /// Launch template was deleted by another client.
    LaunchTemplateNotFound,
    /// More than 16 KiB of user data.
    UserDataSizeLimitExceeded,
    /// Image id is not an image id.
    InvalidAmiId,
    /// Image does not exist (any more).
    AmiNotFound,
    /// Throttled.
    RequestLimitExceeded,
    /// EC2 failed.
    InternalError,
    /// Account is on a plan that does not include the type.
    FreeTierIneligible,
    /// Quota of fleets or of instances per fleet.
    FleetQuotaExceeded,
    /// Account is still being verified.
    AccountPendingVerification,
    /// Quota of spot instances.
    SpotQuotaExceeded,
    /// Quota of running on-demand vCPUs.
    VcpuLimitExceeded,
    /// Subnet is full, or has no free block for a prefix.
    InsufficientFreeAddressesInSubnet,
    /// Anything else.
    LaunchFailed,
}

impl LaunchFailure {
    /// Classifies `code: message`; first match wins.
    pub(crate) fn of(text: &str) -> Self {
        let has = |part: &str| text.contains(part);
        // The code begins with `AuthFailure`, so it would count as a denial below.
        if has(SLR_CODE) {
            return Self::SpotSlrCreationFailed;
        }
        if ["UnauthorizedOperation", "AccessDenied", "AuthFailure"].into_iter().any(has) {
            return unauthorized(text);
        }
        // The code alone is that of every wrong parameter.
        if has("InvalidParameter") && has("belong to different networks") {
            return Self::SecurityGroupSubnetVpcMismatch;
        }
        // The text may be that of several failures, joined: the order of the rules decides, not that of the
        // failures.
        BY_TEXT.iter().find(|(part, _)| has(part)).map_or(Self::LaunchFailed, |(_, failure)| *failure)
    }

    /// The reason string of conditions and metrics. Public API: dashboards filter on it.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::SpotSlrCreationFailed => "SpotSLRCreationFailed",
            Self::UnauthorizedByBoundary | Self::UnauthorizedByServiceControlPolicy | Self::Unauthorized => {
                "Unauthorized"
            }
            Self::AmiAuthorizationFailure => "AMIAuthorizationFailure",
            Self::SecurityGroupSubnetVpcMismatch => "SecurityGroupSubnetVPCMismatch",
            Self::InstanceProfileNameInvalid => "InstanceProfileNameInvalid",
            Self::LaunchTemplateNotFound => "LaunchTemplateNotFound",
            Self::UserDataSizeLimitExceeded => reason::aws::USER_DATA_SIZE,
            Self::InvalidAmiId => "InvalidAMIID",
            Self::AmiNotFound => reason::aws::AMI_NOT_FOUND,
            Self::RequestLimitExceeded => "RequestLimitExceeded",
            Self::InternalError => "InternalError",
            Self::FreeTierIneligible => "FreeTierIneligible",
            Self::FleetQuotaExceeded => "FleetQuotaExceeded",
            Self::AccountPendingVerification => "AccountPendingVerification",
            Self::SpotQuotaExceeded => "SpotQuotaExceeded",
            Self::VcpuLimitExceeded => "VCPULimitExceeded",
            Self::InsufficientFreeAddressesInSubnet => "InsufficientFreeAddressesInSubnet",
            Self::LaunchFailed => reason::LAUNCH_FAILED,
        }
    }

    /// Next step for the user, if there is one (spec aws-operations 2.10, column "doctor hint").
    pub(crate) fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::SpotSlrCreationFailed => {
                "create the service-linked role for spot.amazonaws.com once per account"
            }
            Self::UnauthorizedByBoundary => "widen the permissions boundary of the controller role",
            Self::UnauthorizedByServiceControlPolicy => {
                "ask the organisation's administrator to allow the action"
            }
            Self::AmiAuthorizationFailure => {
                "share the image and its snapshot with this account, or accept the marketplace terms"
            }
            Self::Unauthorized => "add the missing statement to the controller role's policies",
            Self::SecurityGroupSubnetVpcMismatch => {
                "make the subnet and security group selectors choose from one VPC"
            }
            Self::InstanceProfileNameInvalid => {
                "wait for the instance profile to propagate, or create it again if it was deleted"
            }
            Self::UserDataSizeLimitExceeded => "shorten the user data to 16 KiB",
            Self::FreeTierIneligible => "upgrade the account plan or allow other instance types",
            Self::AccountPendingVerification => "wait until AWS has verified the account",
            Self::FleetQuotaExceeded | Self::SpotQuotaExceeded | Self::VcpuLimitExceeded => {
                "raise the account quota"
            }
            Self::InsufficientFreeAddressesInSubnet => "free addresses or select larger subnets",
            Self::RequestLimitExceeded | Self::InternalError => "nothing to do, the launch is retried",
            Self::LaunchTemplateNotFound | Self::InvalidAmiId | Self::AmiNotFound | Self::LaunchFailed => {
                return None;
            }
        })
    }
}

/// EC2 could not create the spot service-linked role: all spot offerings are out, not just this one.
pub(crate) fn is_service_linked_role_refusal(code: &str) -> bool {
    code == SLR_CODE
}

/// EC2 does not sell the type in this zone, or not in this way. The code alone is that of every wrong fleet.
pub(crate) fn is_not_sold(code: &str, message: &str) -> bool {
    code == "InvalidFleetConfiguration"
        && message.contains("is not supported in your requested Availability Zone")
}

/// EC2 reports the limit of a placement group, which has no code of its own: a spread group takes seven instances in a
/// zone.
pub(crate) fn is_placement_group_limit(message: &str) -> bool {
    let text = message.to_lowercase();
    text.contains("placement group") && ["limit", "maximum", "exceed"].iter().any(|word| text.contains(word))
}

const SLR_CODE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// Tests that need one substring, in order.
const BY_TEXT: [(&str, LaunchFailure); 14] = [
    ("iamInstanceProfile.name is invalid", LaunchFailure::InstanceProfileNameInvalid),
    ("InvalidLaunchTemplateId.NotFound", LaunchFailure::LaunchTemplateNotFound),
    ("User data is limited to", LaunchFailure::UserDataSizeLimitExceeded),
    ("InvalidAMIID.Malformed", LaunchFailure::InvalidAmiId),
    ("InvalidAMIID.NotFound", LaunchFailure::AmiNotFound),
    ("RequestLimitExceeded", LaunchFailure::RequestLimitExceeded),
    ("InternalError", LaunchFailure::InternalError),
    ("not eligible for Free Tier", LaunchFailure::FreeTierIneligible),
    ("MaxFleetCountExceeded", LaunchFailure::FleetQuotaExceeded),
    ("PendingVerification", LaunchFailure::AccountPendingVerification),
    ("MaxSpotInstanceCountExceeded", LaunchFailure::SpotQuotaExceeded),
    ("VcpuLimitExceeded", LaunchFailure::VcpuLimitExceeded),
    ("InsufficientFreeAddressesInSubnet", LaunchFailure::InsufficientFreeAddressesInSubnet),
    ("InsufficientCidrBlocks", LaunchFailure::InsufficientFreeAddressesInSubnet),
];

fn unauthorized(text: &str) -> LaunchFailure {
    // The code is the same for every denial; the text alone names the kind of policy that denies.
    if text.contains("permissions boundary") {
        LaunchFailure::UnauthorizedByBoundary
    } else if text.contains("service control policy") {
        LaunchFailure::UnauthorizedByServiceControlPolicy
    } else if text.contains("Not authorized for images") {
        LaunchFailure::AmiAuthorizationFailure
    } else {
        LaunchFailure::Unauthorized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_rule_gives_the_reason() {
        let table = [
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: x", "SpotSLRCreationFailed"),
            ("UnauthorizedOperation: with an explicit deny in a permissions boundary", "Unauthorized"),
            ("AccessDenied: explicit deny in a service control policy", "Unauthorized"),
            ("AuthFailure: Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
            ("UnauthorizedOperation: You are not authorized", "Unauthorized"),
            (
                "InvalidParameter: Security group sg-1 and subnet subnet-1 belong to different networks.",
                "SecurityGroupSubnetVPCMismatch",
            ),
            (
                "InvalidParameterValue: Value (p) for parameter iamInstanceProfile.name is invalid. x",
                "InstanceProfileNameInvalid",
            ),
            ("InvalidLaunchTemplateId.NotFound: x", "LaunchTemplateNotFound"),
            ("InvalidUserData.Malformed: User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
            ("InvalidAMIID.Malformed: x", "InvalidAMIID"),
            ("InvalidAMIID.NotFound: x", "AMINotFound"),
            ("RequestLimitExceeded: x", "RequestLimitExceeded"),
            ("InternalError: x", "InternalError"),
            ("InvalidParameterCombination: the type is not eligible for Free Tier", "FreeTierIneligible"),
            ("MaxFleetCountExceeded: x", "FleetQuotaExceeded"),
            ("PendingVerification: x", "AccountPendingVerification"),
            ("MaxSpotInstanceCountExceeded: x", "SpotQuotaExceeded"),
            ("VcpuLimitExceeded: x", "VCPULimitExceeded"),
            ("InsufficientFreeAddressesInSubnet: x", "InsufficientFreeAddressesInSubnet"),
            ("InsufficientCidrBlocks: x", "InsufficientFreeAddressesInSubnet"),
            ("InsufficientInstanceCapacity: x", "LaunchFailed"),
        ];
        for (text, reason) in table {
            assert_eq!(LaunchFailure::of(text).reason(), reason, "{text}");
        }
    }

    #[test]
    fn the_three_denials_differ_in_their_hint() {
        let hints: std::collections::BTreeSet<_> = [
            "UnauthorizedOperation: permissions boundary",
            "UnauthorizedOperation: service control policy",
            "UnauthorizedOperation: no identity-based policy allows it",
        ]
        .into_iter()
        .map(|text| LaunchFailure::of(text).hint())
        .collect();
        assert_eq!(hints.len(), 3);
    }
}
