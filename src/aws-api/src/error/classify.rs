//! AWS error code to [`Kind`]: one table for all services (spec aws-provider 5.9, spec aws-operations 2.10).

use super::Kind;

/// The kind of an error code. `message` only decides the four cases where AWS reuses a code.
pub fn kind_of(code: &str, message: &str) -> Kind {
    // IAM answers a second creation of a service-linked role with its all-purpose `InvalidInput`.
    if code == "InvalidInput" && message.contains("has been taken in this account") {
        return Kind::AlreadyExists;
    }
    // CloudFormation has one code for a bad request and for a stack that is not there.
    if code == "ValidationError" && message.starts_with("Stack") && message.ends_with("does not exist") {
        return Kind::NotFound;
    }
    // EC2 has one code for a bad value and for an instance profile that has not propagated yet.
    if code == "InvalidParameterValue" && message.contains("Invalid IAM Instance Profile name") {
        return Kind::NotFound;
    }
    if code == "SignatureDoesNotMatch" || code.starts_with("AuthFailure") {
        return Kind::Denied;
    }
    exact(code).unwrap_or_else(|| by_shape(code))
}

/// Codes that mean "not this offering, not now": it is marked unavailable and the claim goes elsewhere.
pub fn is_unfulfillable(code: &str) -> bool {
    matches!(
        code,
        "InsufficientInstanceCapacity"
            | "InsufficientVolumeCapacity"
            | "InstanceLimitExceeded"
            | "MaxSpotInstanceCountExceeded"
            | "VcpuLimitExceeded"
            | "UnfulfillableCapacity"
            | "Unsupported"
            | "InsufficientFreeAddressesInSubnet"
            | "InsufficientCidrBlocks"
            | "MaxFleetCountExceeded"
            | "ReservationCapacityExceeded"
            | "SpotMaxPriceTooLow"
    )
}

fn exact(code: &str) -> Option<Kind> {
    let known = CODES.iter().find(|(_, codes)| codes.contains(&code)).map(|(kind, _)| *kind);
    known.or_else(|| is_unfulfillable(code).then_some(Kind::NoCapacity))
}

/// Codes whose form does not say what they mean.
const CODES: &[(Kind, &[&str])] = &[
    (Kind::DryRun, &["DryRunOperation"]),
    (
        Kind::Throttled,
        &[
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "TooManyRequestsException",
            "RequestThrottled",
            "RequestThrottledException",
            "SlowDown",
            "BandwidthLimitExceeded",
            "RequestThrottled.Client",
            "EC2ThrottledException",
        ],
    ),
    (
        Kind::Denied,
        &[
            "UnauthorizedOperation",
            "AccessDenied",
            "AccessDeniedException",
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "ExpiredToken",
            "ExpiredTokenException",
            "MissingAuthenticationToken",
            "OptInRequired",
            "PendingVerification",
            "NotAuthorized",
        ],
    ),
    (
        Kind::NotFound,
        &[
            "NoSuchEntity",
            "NoSuchResourceException",
            "ParameterNotFound",
            "QueueDoesNotExist",
            "ResourceNotFoundException",
            "ChangeSetNotFound",
            "ChangeSetNotFoundException",
        ],
    ),
    (
        Kind::AlreadyExists,
        &["EntityAlreadyExists", "QueueNameExists", "QueueAlreadyExists", "ResourceAlreadyExistsException"],
    ),
    (
        Kind::Conflict,
        &[
            "DeleteConflict",
            "DependencyViolation",
            "ConcurrentModification",
            "ConcurrentModificationException",
            "EntityTemporarilyUnmodifiable",
            "IncorrectInstanceState",
            "IncorrectState",
            "ResourceInUseException",
            "ResourceInUse",
            "IdempotentParameterMismatch",
            "OperationNotPermitted",
            "AWS.SimpleQueueService.QueueDeletedRecently",
            "QueueDeletedRecently",
            "InvalidChangeSetStatus",
            "InvalidChangeSetStatusException",
            "OperationInProgressException",
            "ManagedRuleException",
        ],
    ),
    (
        Kind::LimitExceeded,
        &[
            "MaxSpotInstanceCountExceeded",
            "VcpuLimitExceeded",
            "MaxFleetCountExceeded",
            "LimitExceeded",
            "LimitExceededException",
            "ResourceLimitExceeded",
            "ResourceLimitExceededException",
            "InstanceLimitExceeded",
            "OverLimit",
            "TagLimitExceeded",
        ],
    ),
    (
        Kind::Transient,
        &[
            "InternalError",
            "InternalFailure",
            "InternalServiceError",
            "InternalServerError",
            "InternalException",
            "ServerException",
            "ServiceFailure",
            "ServiceFailureException",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "Unavailable",
            "RequestTimeout",
            "RequestTimeoutException",
            "RequestExpired",
        ],
    ),
];

/// EC2 builds its codes from parts: `InvalidInstanceID.NotFound`, `...AlreadyExistsException`.
fn by_shape(code: &str) -> Kind {
    let last = code.rsplit('.').next().unwrap_or(code);
    if last == "NotFound"
        || last == "NotFoundException"
        || last.starts_with("NonExistent")
        || last == "Unknown"
    {
        Kind::NotFound
    } else if last == "AlreadyExists" || last == "AlreadyExistsException" || last == "Duplicate" {
        Kind::AlreadyExists
    } else if last == "InUse" {
        Kind::Conflict
    } else if code.ends_with("LimitExceeded") {
        Kind::LimitExceeded
    } else {
        Kind::Invalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_the_product_meets_has_its_kind() {
        let table = [
            ("DryRunOperation", Kind::DryRun),
            ("RequestLimitExceeded", Kind::Throttled),
            ("Throttling", Kind::Throttled),
            ("UnauthorizedOperation", Kind::Denied),
            ("AccessDenied", Kind::Denied),
            ("AuthFailure", Kind::Denied),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Kind::Denied),
            ("InvalidInstanceID.NotFound", Kind::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", Kind::NotFound),
            ("InvalidLaunchTemplateId.NotFound", Kind::NotFound),
            ("InvalidCapacityReservationId.NotFound", Kind::NotFound),
            ("InvalidAMIID.NotFound", Kind::NotFound),
            ("InvalidPlacementGroup.Unknown", Kind::NotFound),
            ("NoSuchEntity", Kind::NotFound),
            ("NoSuchResourceException", Kind::NotFound),
            ("ParameterNotFound", Kind::NotFound),
            ("QueueDoesNotExist", Kind::NotFound),
            ("AWS.SimpleQueueService.NonExistentQueue", Kind::NotFound),
            ("ResourceNotFoundException", Kind::NotFound),
            ("ChangeSetNotFound", Kind::NotFound),
            ("EntityAlreadyExists", Kind::AlreadyExists),
            ("InvalidChangeSetStatus", Kind::Conflict),
            ("InvalidLaunchTemplateName.AlreadyExistsException", Kind::AlreadyExists),
            ("DeleteConflict", Kind::Conflict),
            ("ResourceInUseException", Kind::Conflict),
            ("IdempotentParameterMismatch", Kind::Conflict),
            ("LimitExceeded", Kind::LimitExceeded),
            ("VcpuLimitExceeded", Kind::LimitExceeded),
            ("MaxFleetCountExceeded", Kind::LimitExceeded),
            ("InsufficientInstanceCapacity", Kind::NoCapacity),
            ("UnfulfillableCapacity", Kind::NoCapacity),
            ("InsufficientFreeAddressesInSubnet", Kind::NoCapacity),
            ("InsufficientCidrBlocks", Kind::NoCapacity),
            ("SpotMaxPriceTooLow", Kind::NoCapacity),
            ("ReservationCapacityExceeded", Kind::NoCapacity),
            ("InternalError", Kind::Transient),
            ("ServiceUnavailable", Kind::Transient),
            ("InvalidParameterValue", Kind::Invalid),
            ("SomethingNew", Kind::Invalid),
        ];
        for (code, kind) in table {
            assert_eq!(kind_of(code, ""), kind, "{code}");
        }
    }

    #[test]
    fn a_taken_service_linked_role_counts_as_existing() {
        let message = "Service role name AWSServiceRoleForEC2Spot has been taken in this account, please try a different suffix.";
        assert_eq!(kind_of("InvalidInput", message), Kind::AlreadyExists);
        assert_eq!(kind_of("InvalidInput", "bad path"), Kind::Invalid);
    }

    #[test]
    fn a_stack_that_is_not_there_counts_as_not_found() {
        assert_eq!(kind_of("ValidationError", "Stack with id prod does not exist"), Kind::NotFound);
        assert_eq!(kind_of("ValidationError", "Stack [prod] does not exist"), Kind::NotFound);
        assert_eq!(kind_of("ValidationError", "Template error: instance of Fn::Sub"), Kind::Invalid);
    }

    #[test]
    fn a_profile_that_has_not_propagated_counts_as_not_found() {
        let message =
            "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
        assert_eq!(kind_of("InvalidParameterValue", message), Kind::NotFound);
    }

    #[test]
    fn throttling_and_denials_never_mark_an_offering() {
        for code in
            ["RequestLimitExceeded", "UnauthorizedOperation", "InternalError", "InvalidAMIID.NotFound"]
        {
            assert!(!is_unfulfillable(code), "{code}");
        }
        for code in ["InsufficientInstanceCapacity", "Unsupported", "MaxFleetCountExceeded"] {
            assert!(is_unfulfillable(code), "{code}");
        }
    }
}
