//! Reading a fleet's failures: which offerings are out, and the message for the claim (spec aws-provider 5.9).

use std::collections::BTreeSet;

use crate::calls::refusal::{
    LaunchFailure, is_not_sold, is_placement_group_limit, is_service_linked_role_refusal,
};
use karpenter_aws_api as client;
use karpenter_aws_api::ec2::{FleetError, FleetOverride, FleetRequest, FleetResult, PlacementStrategy};
use karpenter_aws_api::error::{is_unfulfillable, kind_of as kind_of_code};
use karpenter_aws_api::id::{InstanceType, Zone};
use karpenter_cloud::{Error, Kind, OfferingKey};
use karpenter_model::CapacityType;
use karpenter_model::names::reason;

use super::placed::Placed;
use crate::calls::fault::kind_of;
use crate::market::unavailable::{Cause, Subject};

/// Codes of a subnet without addresses; the second is that of one without a free block of 16, which a prefix is.
const NO_ADDRESSES: [&str; 2] = ["InsufficientFreeAddressesInSubnet", "InsufficientCidrBlocks"];
/// Code of an offering of which nothing is known: a fleet tries three at most, and answers the rest with this.
const NOT_TRIED: &str = "UnfulfillableCapacity";

/// The launch a failure belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Request to EC2.
    pub request: &'a FleetRequest,
    /// Capacity type that the request asked for.
    pub capacity_type: CapacityType,
    /// Place in a placement group that the request asked for.
    pub placed: Option<&'a Placed>,
}

/// Returns whether the failure means that its offering was not tried.
pub(crate) fn is_not_tried(error: &FleetError) -> bool {
    error.code == NOT_TRIED
}

/// The failures that count against what they name: those of offerings that were tried. All of them when none was, as
/// nothing more is known then.
pub(crate) fn conclusive(errors: &[FleetError]) -> Vec<&FleetError> {
    let tried: Vec<_> = errors.iter().filter(|error| !is_not_tried(error)).collect();
    if tried.is_empty() { errors.iter().collect() } else { tried }
}

/// Subjects that one failure of a fleet takes out, with the cause. Throttling and denials take out nothing.
///
/// A subnet without addresses is taken out alone: another subnet of the zone may have room. A failure in a placement group
/// does not affect launches outside it; a full spread group is full for every type. A failure that does not name
/// its subject may be about the whole request: without a pause the same would be asked at once.
pub(crate) fn takes_out(error: &FleetError, attempt: Attempt<'_>) -> Vec<(Subject, Cause)> {
    // No spot instance can be bought without the role, whatever its type or zone.
    if is_service_linked_role_refusal(&error.code) {
        return vec![(Subject::CapacityType(CapacityType::Spot), Cause::Wanted)];
    }
    if NO_ADDRESSES.contains(&error.code.as_str())
        && let Some(subnet) = &error.subnet
    {
        return vec![(Subject::Subnet(subnet.clone()), Cause::Wanted)];
    }
    let full = is_spread_full(error, attempt.placed);
    if !full && !lacks_capacity(error) {
        return Vec::new();
    }
    let overrides = || attempt.request.configs.iter().flat_map(|config| &config.overrides);
    // EC2 sometimes names only the subnet; the request has its zone.
    let zone = error.zone.clone().or_else(|| {
        let subnet = error.subnet.as_ref()?;
        overrides().find(|one| one.subnet == *subnet)?.zone.clone()
    });
    // A spread group is full for every type: the one that is named does not narrow it down.
    let instance_type = error.instance_type.as_ref().filter(|_| !full);
    let (offerings, cause): (BTreeSet<(&InstanceType, &Zone)>, Cause) = match (instance_type, &zone) {
        (Some(instance_type), Some(zone)) => ([(instance_type, zone)].into(), cause_of(error)),
        // Any offering of the request that matches what is named may be the one that failed.
        (instance_type, zone) => {
            let may_be = |one: &&FleetOverride| {
                instance_type.is_none_or(|named| *named == one.instance_type)
                    && zone.as_ref().is_none_or(|named| one.zone.as_ref() == Some(named))
            };
            let asked_for = overrides().filter(may_be);
            let asked_for = asked_for.filter_map(|one| Some((&one.instance_type, one.zone.as_ref()?)));
            (asked_for.collect(), if full { Cause::Wanted } else { Cause::Unnamed })
        }
    };
    offerings.into_iter().map(|offering| (subject(offering, attempt), cause)).collect()
}

/// All offerings of a launch, where it was to be.
pub(crate) fn all_asked_for(attempt: Attempt<'_>) -> BTreeSet<Subject> {
    let overrides = attempt.request.configs.iter().flat_map(|config| &config.overrides);
    let offerings = overrides.filter_map(|one| Some((&one.instance_type, one.zone.as_ref()?)));
    offerings.map(|offering| subject(offering, attempt)).collect()
}

fn subject((instance_type, zone): (&InstanceType, &Zone), attempt: Attempt<'_>) -> Subject {
    let key = OfferingKey {
        instance_type: instance_type.as_str().into(),
        zone: zone.as_str().into(),
        capacity_type: attempt.capacity_type,
    };
    match attempt.placed {
        Some(placed) => Subject::Placed(key, placed.place()),
        None => Subject::Offering(key),
    }
}

/// Returns whether the failure means "not this offering, not now".
fn lacks_capacity(error: &FleetError) -> bool {
    is_unfulfillable(&error.code) || is_not_sold(&error.code, &error.message)
}

/// Returns whether a quota of the account is used up.
pub(crate) fn is_quota(error: &FleetError) -> bool {
    matches!(
        error.code.as_str(),
        "VcpuLimitExceeded"
            | "InstanceLimitExceeded"
            | "MaxSpotInstanceCountExceeded"
            | "MaxFleetCountExceeded"
    )
}

/// Quotas are there again from the moment they are raised or machines have gone.
fn cause_of(error: &FleetError) -> Cause {
    if is_quota(error) { Cause::Wanted } else { Cause::Lacking }
}

/// Returns whether the request has offerings that are not taken out.
pub(crate) fn leaves_others(attempt: Attempt<'_>, out: &[(Subject, Cause)]) -> bool {
    let is_out = |one: &FleetOverride| {
        out.iter().any(|(subject, _)| match subject {
            Subject::Offering(key) | Subject::Placed(key, _) => {
                key.instance_type.as_str() == one.instance_type.as_str()
                    && one.zone.as_ref().is_none_or(|zone| zone.as_str() == key.zone.as_str())
            }
            Subject::Subnet(subnet) => *subnet == one.subnet,
            Subject::CapacityType(capacity_type) => *capacity_type == attempt.capacity_type,
        })
    };
    attempt.request.configs.iter().flat_map(|config| &config.overrides).any(|one| !is_out(one))
}

/// Returns whether the failure is the limit of a spread group, seven instances per zone, which only its text shows.
pub(crate) fn is_spread_full(error: &FleetError, placed: Option<&Placed>) -> bool {
    placed.is_some_and(|placed| placed.group.strategy == PlacementStrategy::Spread)
        && is_placement_group_limit(&error.message)
}

/// Returns whether the fleet found no capacity wherever it looked, and nothing else was wrong.
pub(crate) fn for_capacity(errors: &[&FleetError], placed: Option<&Placed>) -> bool {
    errors.iter().all(|error| {
        lacks_capacity(error) || is_service_linked_role_refusal(&error.code) || is_spread_full(error, placed)
    })
}

/// The error of a fleet that launched nothing: lack of capacity only if *every* failure of what was tried was one.
pub fn failure(claim: &str, errors: &[FleetError], placed: Option<&Placed>) -> Error {
    const OPERATION: &str = "launch instance for claim";
    if errors.is_empty() {
        let message = "the fleet has neither instances nor errors";
        return Error::new(Kind::Transient, OPERATION, claim, message).with_reason(reason::LAUNCH_FAILED);
    }
    let errors = conclusive(errors);
    // Offerings fail for the same reason many times over: each text is written once.
    let texts: BTreeSet<String> = errors.iter().map(|error| error.code_and_message()).collect();
    let text = texts.into_iter().collect::<Vec<_>>().join("; ");
    let failure = LaunchFailure::of(&text);
    let kind = if for_capacity(&errors, placed) { Kind::NoCapacity } else { kind_of(failure) };
    let error = Error::new(kind, OPERATION, claim, text).with_reason(failure.reason());
    // One code stands for the whole launch only if every failure has it.
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

/// Returns whether a fleet launched nothing because EC2 throttles: each failure of what was tried is a throttle.
pub(crate) fn is_throttled(result: &FleetResult) -> bool {
    let launched = result.instances.iter().any(|group| !group.ids.is_empty());
    let says_so = |error: &FleetError| kind_of_code(&error.code, &error.message) == client::Kind::Throttled;
    !launched && !result.errors.is_empty() && conclusive(&result.errors).into_iter().all(says_so)
}

/// Returns whether a refused fleet request leaves its token without use. EC2 answers a repeated token with the result of the
/// first time, and refuses it with other contents, so only a request that may have been carried out without our knowing is
/// repeated with the same one.
pub(crate) fn spends_token(error: &karpenter_aws_api::Error) -> bool {
    use karpenter_aws_api::Kind::{
        AlreadyExists, Conflict, Denied, DryRun, Invalid, LimitExceeded, NoCapacity, NotFound, Throttled,
        Transient,
    };
    // An error without a code is not an answer of EC2: the request may have been carried out.
    let answered = error.code.is_some();
    match error.kind {
        NotFound | AlreadyExists | Conflict | Throttled | Denied | Invalid | NoCapacity | LimitExceeded
        | DryRun => answered,
        Transient => false,
    }
}

#[cfg(test)]
mod tests;
