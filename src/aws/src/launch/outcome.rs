//! Reading a fleet's failures: which offerings are out, and what to tell the claim (spec aws-provider 5.9).

use std::collections::BTreeSet;

use karpenter_aws_client::ec2::{FleetError, FleetRequest};
use karpenter_aws_client::error::{LaunchFailure, is_service_linked_role_refusal, is_unfulfillable};
use karpenter_cloud::{Error, Kind, OfferingKey};
use karpenter_model::CapacityType;

use crate::unavailable::Subject;

const NO_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";

/// What one failure of a fleet takes out, if anything. Throttling and denials take out nothing.
///
/// A subnet without addresses is taken out alone: another subnet of the zone may have room.
pub fn takes_out(error: &FleetError, request: &FleetRequest, capacity_type: CapacityType) -> Option<Subject> {
    if is_service_linked_role_refusal(&error.code) {
        return Some(Subject::CapacityType(CapacityType::Spot));
    }
    if error.code == NO_ADDRESSES
        && let Some(subnet) = &error.subnet
    {
        return Some(Subject::Subnet(subnet.clone()));
    }
    if !is_unfulfillable(&error.code) {
        return None;
    }
    let instance_type = error.instance_type.as_ref()?;
    // EC2 sometimes names only the subnet; the request knows which zone that is.
    let zone = error.zone.clone().or_else(|| {
        let subnet = error.subnet.as_ref()?;
        let mut overrides = request.configs.iter().flat_map(|config| &config.overrides);
        overrides.find(|one| one.subnet == *subnet)?.zone.clone()
    })?;
    Some(Subject::Offering(OfferingKey {
        instance_type: instance_type.as_str().into(),
        zone: zone.as_str().into(),
        capacity_type,
    }))
}

/// The error of a fleet that launched nothing: lack of capacity only if *every* failure was one.
pub fn failure(claim: &str, errors: &[FleetError]) -> Error {
    const OPERATION: &str = "launch instance for claim";
    if errors.is_empty() {
        let message = "the fleet has neither instances nor errors";
        return Error::new(Kind::Transient, OPERATION, claim, message).with_reason("LaunchFailed");
    }
    let texts: BTreeSet<String> = errors.iter().map(FleetError::code_and_message).collect();
    let text = texts.into_iter().collect::<Vec<_>>().join("; ");
    let for_capacity = errors
        .iter()
        .all(|error| is_unfulfillable(&error.code) || is_service_linked_role_refusal(&error.code));
    let failure = LaunchFailure::of(&text);
    let kind = if for_capacity { Kind::NoCapacity } else { kind_of(failure) };
    let error = Error::new(kind, OPERATION, claim, text).with_reason(failure.reason());
    let error = match errors.first() {
        Some(first) if errors.iter().all(|other| other.code == first.code) => {
            error.with_code(first.code.as_str())
        }
        _ => error,
    };
    match failure.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Whether a refused fleet request leaves its token without use. EC2 answers a repeated token with what came of it
/// the first time, and refuses it with other contents, so only a request that may have been carried out without our
/// knowing is repeated with the same one.
pub fn spends_token(error: &karpenter_aws_client::Error) -> bool {
    use karpenter_aws_client::Kind::{
        AlreadyExists, Conflict, Denied, DryRun, Invalid, LimitExceeded, NoCapacity, NotFound, Throttled,
        Transient,
    };
    let answered = error.code.is_some();
    match error.kind {
        NotFound | AlreadyExists | Conflict | Throttled | Denied | Invalid | NoCapacity | LimitExceeded
        | DryRun => answered,
        Transient => false,
    }
}

/// What a classified launch failure means to the caller.
pub fn kind_of(failure: LaunchFailure) -> Kind {
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

#[cfg(test)]
mod tests {
    use karpenter_aws_client::ec2::{CapacityKind, FleetConfig, FleetOverride, OnDemandAllocation};

    use super::*;

    fn request() -> FleetRequest {
        FleetRequest {
            client_token: None,
            capacity: CapacityKind::OnDemand(OnDemandAllocation::LowestPrice),
            target: 1,
            configs: vec![FleetConfig {
                launch_template: "t".into(),
                overrides: vec![FleetOverride {
                    instance_type: "m5.large".into(),
                    subnet: "subnet-b".into(),
                    zone: Some("b".into()),
                    image: None,
                    priority_nanos: None,
                }],
            }],
            tags: Vec::new(),
            context: None,
        }
    }

    fn error(code: &str, zone: Option<&str>, subnet: Option<&str>) -> FleetError {
        FleetError {
            code: code.into(),
            message: "text".into(),
            launch_template: None,
            instance_type: Some("m5.large".into()),
            zone: zone.map(Into::into),
            subnet: subnet.map(Into::into),
            spot: false,
        }
    }

    fn offering(zone: &str) -> Option<Subject> {
        Some(Subject::Offering(OfferingKey {
            instance_type: "m5.large".into(),
            zone: zone.into(),
            capacity_type: CapacityType::OnDemand,
        }))
    }

    #[test]
    fn capacity_errors_take_out_exactly_their_offering() {
        let out = |error| takes_out(&error, &request(), CapacityType::OnDemand);
        for code in
            ["InsufficientInstanceCapacity", "MaxFleetCountExceeded", "VcpuLimitExceeded", "Unsupported"]
        {
            assert_eq!(out(error(code, Some("a"), None)), offering("a"), "{code}");
        }
        assert_eq!(out(error("UnfulfillableCapacity", None, Some("subnet-b"))), offering("b"));
        assert_eq!(out(error("UnfulfillableCapacity", None, None)), None, "nothing is known to be out");
    }

    #[test]
    fn full_subnets_and_the_missing_spot_role_have_their_own_reach() {
        let out = |error| takes_out(&error, &request(), CapacityType::Spot);
        let full = error("InsufficientFreeAddressesInSubnet", Some("b"), Some("subnet-b"));
        assert_eq!(out(full), Some(Subject::Subnet("subnet-b".into())));
        let role = error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Some("a"), None);
        assert_eq!(out(role), Some(Subject::CapacityType(CapacityType::Spot)));
    }

    #[test]
    fn throttling_and_denial_take_out_nothing() {
        for code in ["RequestLimitExceeded", "UnauthorizedOperation", "InternalError"] {
            assert_eq!(
                takes_out(&error(code, Some("a"), None), &request(), CapacityType::Spot),
                None,
                "{code}"
            );
        }
    }

    #[test]
    fn only_a_fleet_that_failed_for_capacity_throughout_is_out_of_capacity() {
        let ice = || error("InsufficientInstanceCapacity", Some("a"), None);
        let slr = || error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", None, None);
        let limit = || error("RequestLimitExceeded", None, None);
        for (errors, kind, reason) in [
            (vec![ice(), ice()], Kind::NoCapacity, "LaunchFailed"),
            (vec![ice(), slr()], Kind::NoCapacity, "SpotSLRCreationFailed"),
            (vec![ice(), limit()], Kind::Throttled, "RequestLimitExceeded"),
            (vec![error("UnauthorizedOperation", None, None)], Kind::Denied, "Unauthorized"),
            (vec![], Kind::Transient, "LaunchFailed"),
        ] {
            let failure = failure("web-1", &errors);
            assert_eq!((failure.kind, failure.reason.as_deref()), (kind, Some(reason)), "{errors:?}");
        }
    }
}
