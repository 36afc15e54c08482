//! AWS errors in the kinds of the provider port.

use crate::calls::refusal::LaunchFailure;
use karpenter_aws_api as client;
use karpenter_cloud::{Error, Kind};

/// An error of a single call, in the kinds of the port: a quota that is used up counts as invalid, and what the port has no
/// kind for as transient.
pub(crate) fn cloud_error(operation: &'static str, subject: &str, error: &client::Error) -> Error {
    let kind = match error.kind {
        client::Kind::NotFound => Kind::NotFound,
        client::Kind::Throttled => Kind::Throttled,
        client::Kind::Denied => Kind::Denied,
        client::Kind::NoCapacity => Kind::NoCapacity,
        client::Kind::Invalid | client::Kind::LimitExceeded => Kind::Invalid,
        client::Kind::AlreadyExists
        | client::Kind::Conflict
        | client::Kind::DryRun
        | client::Kind::Transient => Kind::Transient,
    };
    let converted = Error::new(kind, operation, subject, error.message.clone());
    match &error.code {
        Some(code) => converted.with_code(code.as_str()),
        None => converted,
    }
}

/// An error of a call that was to launch something: classified with a reason and a hint, and never "not found",
/// which would read as "the machine is gone".
pub(crate) fn launch_error(operation: &'static str, subject: &str, error: &client::Error) -> Error {
    let failure = LaunchFailure::of(&error.code_and_message());
    let mut converted = cloud_error(operation, subject, error).with_reason(failure.reason());
    if failure != LaunchFailure::LaunchFailed {
        converted.kind = kind_of(failure);
    } else if matches!(converted.kind, Kind::NotFound | Kind::NoCapacity) {
        // The whole call was refused, which is about no offering. As a lack of capacity it would end the
        // claim, which only the failures of its offerings may do (spec aws-provider 5.9).
        converted.kind = Kind::Transient;
    }
    match failure.hint() {
        Some(hint) => converted.with_hint(hint),
        None => converted,
    }
}

/// Kind of error that a classified launch failure is for the caller.
pub(crate) fn kind_of(failure: LaunchFailure) -> Kind {
    match failure {
        LaunchFailure::SpotSlrCreationFailed
        | LaunchFailure::UnauthorizedByBoundary
        | LaunchFailure::UnauthorizedByServiceControlPolicy
        | LaunchFailure::AmiAuthorizationFailure
        | LaunchFailure::Unauthorized => Kind::Denied,
        LaunchFailure::SecurityGroupSubnetVpcMismatch
        | LaunchFailure::UserDataSizeLimitExceeded
        | LaunchFailure::InvalidAmiId
        | LaunchFailure::AmiNotFound
        | LaunchFailure::FreeTierIneligible => Kind::Invalid,
        LaunchFailure::RequestLimitExceeded => Kind::Throttled,
        // A new instance profile takes a while to be known everywhere.
        LaunchFailure::InstanceProfileNameInvalid
        | LaunchFailure::LaunchTemplateNotFound
        | LaunchFailure::InternalError
        | LaunchFailure::AccountPendingVerification
        | LaunchFailure::FleetQuotaExceeded
        | LaunchFailure::SpotQuotaExceeded
        | LaunchFailure::VcpuLimitExceeded
        | LaunchFailure::InsufficientFreeAddressesInSubnet
        | LaunchFailure::LaunchFailed => Kind::Transient,
    }
}
