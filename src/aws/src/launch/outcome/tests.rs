//! Lessons from a failed fleet, and the report on the claim.

use karpenter_aws_api::ec2::{CapacityKind, FleetConfig, FleetInstances, FleetOverride, OnDemandAllocation};

use super::*;
use crate::network::placement_groups::Group;

fn attempt<'a>(
    request: &'a FleetRequest,
    capacity_type: CapacityType,
    placed: Option<&'a Placed>,
) -> Attempt<'a> {
    Attempt { request, capacity_type, placed }
}

fn placed(strategy: PlacementStrategy, partition: Option<u32>) -> Placed {
    Placed { group: Group { id: "pg-1".into(), strategy, partitions: 3 }, partition }
}

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

fn of_type(instance_type: &str, zone: &str) -> Subject {
    Subject::Offering(OfferingKey {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
    })
}

fn offering(zone: &str, cause: Cause) -> Vec<(Subject, Cause)> {
    vec![(of_type("m5.large", zone), cause)]
}

/// A request for two types in two zones.
fn wide_request() -> FleetRequest {
    let mut request = request();
    let one = request.configs[0].overrides[0].clone();
    request.configs[0].overrides =
        [("m5.large", "b"), ("c5.large", "b"), ("m5.large", "c"), ("c5.large", "c")]
            .map(|(instance_type, zone)| FleetOverride {
                instance_type: instance_type.into(),
                subnet: format!("subnet-{zone}").as_str().into(),
                zone: Some(zone.into()),
                ..one.clone()
            })
            .into();
    request
}

#[test]
fn capacity_errors_take_out_exactly_their_offering() {
    let out = |error| takes_out(&error, attempt(&request(), CapacityType::OnDemand, None));
    for (code, cause) in [
        ("InsufficientInstanceCapacity", Cause::Lacking),
        ("Unsupported", Cause::Lacking),
        ("MaxFleetCountExceeded", Cause::Wanted),
        ("MaxSpotInstanceCountExceeded", Cause::Wanted),
        ("VcpuLimitExceeded", Cause::Wanted),
        ("InstanceLimitExceeded", Cause::Wanted),
        ("InsufficientVolumeCapacity", Cause::Lacking),
        ("SpotMaxPriceTooLow", Cause::Lacking),
        ("UnfulfillableCapacity", Cause::Lacking),
    ] {
        assert_eq!(out(error(code, Some("a"), None)), offering("a", cause), "{code}");
    }
    let by_subnet = out(error("InsufficientInstanceCapacity", None, Some("subnet-b")));
    assert_eq!(by_subnet, offering("b", Cause::Lacking));
}

/// <https://github.com/aws/karpenter-provider-aws/issues/6483>
#[test]
fn a_type_that_is_not_sold_in_a_zone_is_taken_out_there_and_a_wrong_fleet_is_not() {
    let wrong = |message: &str| FleetError {
        message: message.to_owned(),
        ..error("InvalidFleetConfiguration", Some("a"), None)
    };
    let unsold = wrong(
        "Your requested instance type (m5.large) is not supported in your requested Availability Zone (a).",
    );
    let request = request();
    let attempt = attempt(&request, CapacityType::Spot, None);
    let out = takes_out(&unsold, attempt);
    assert!(matches!(&out[..], [(Subject::Offering(key), Cause::Lacking)] if key.zone.as_str() == "a"));
    assert_eq!(failure("web-1", &[unsold], None).kind, Kind::NoCapacity);
    let other = wrong("The fleet configuration contains duplicate instance pools.");
    assert_eq!(takes_out(&other, attempt), []);
    assert_ne!(failure("web-1", &[other], None).kind, Kind::NoCapacity);
}

/// A fleet tries three offerings and answers all others with one code.
#[test]
fn what_was_not_tried_says_nothing_beside_what_was() {
    let of = |code: &str, instance_type: &str, zone| FleetError {
        instance_type: Some(instance_type.into()),
        ..error(code, Some(zone), None)
    };
    let not_tried = || of("UnfulfillableCapacity", "c5.large", "c");
    let tried = |code| of(code, "m5.large", "b");
    let ice = "InsufficientInstanceCapacity";
    let lacking = || vec![(of_type("m5.large", "b"), Cause::Lacking)];
    let untouched = vec![(of_type("c5.large", "c"), Cause::Lacking)];
    let request = wide_request();
    let attempt = attempt(&request, CapacityType::OnDemand, None);
    for (errors, out, throttled, kind) in [
        (vec![tried("RequestLimitExceeded"), not_tried()], vec![], true, Kind::Throttled),
        (vec![not_tried(), tried("InvalidParameterCombination")], vec![], false, Kind::Transient),
        (vec![tried(ice), not_tried()], lacking(), false, Kind::NoCapacity),
        (
            vec![tried(ice), not_tried(), of("RequestLimitExceeded", "c5.large", "b")],
            lacking(),
            false,
            Kind::Throttled,
        ),
        (vec![not_tried(), not_tried()], [untouched.clone(), untouched].concat(), false, Kind::NoCapacity),
    ] {
        let learnt = conclusive(&errors).into_iter().flat_map(|error| takes_out(error, attempt));
        assert_eq!(learnt.collect::<Vec<_>>(), out, "{errors:?}");
        assert_eq!(failure("web-1", &errors, None).kind, kind, "{errors:?}");
        let result = FleetResult { id: "fleet-1".into(), instances: Vec::new(), errors };
        assert_eq!(is_throttled(&result), throttled, "{result:?}");
    }
}

#[test]
fn a_failure_that_does_not_say_what_it_is_about_pauses_all_it_may_be_about() {
    let request = wide_request();
    let out = |error: FleetError| -> Vec<(Subject, Cause)> {
        takes_out(&error, attempt(&request, CapacityType::OnDemand, None))
    };
    let unnamed = |offerings: &[(&str, &str)]| -> Vec<(Subject, Cause)> {
        offerings.iter().map(|(kind, zone)| (of_type(kind, zone), Cause::Unnamed)).collect()
    };
    let nameless = FleetError { instance_type: None, ..error("UnfulfillableCapacity", None, None) };
    let all = [("c5.large", "b"), ("c5.large", "c"), ("m5.large", "b"), ("m5.large", "c")];
    assert_eq!(out(nameless), unnamed(&all));
    let of_type = error("UnfulfillableCapacity", None, None);
    assert_eq!(out(of_type), unnamed(&[("m5.large", "b"), ("m5.large", "c")]));
    let of_zone = FleetError { instance_type: None, ..error("UnfulfillableCapacity", Some("c"), None) };
    assert_eq!(out(of_zone), unnamed(&[("c5.large", "c"), ("m5.large", "c")]));
}

#[test]
fn it_is_known_whether_something_else_was_asked_for() {
    let request = wide_request();
    let attempt = attempt(&request, CapacityType::OnDemand, None);
    let out = |offerings: &[(&str, &str)]| -> Vec<(Subject, Cause)> {
        offerings.iter().map(|(kind, zone)| (of_type(kind, zone), Cause::Lacking)).collect()
    };
    let mut all = vec![("m5.large", "b"), ("c5.large", "b"), ("m5.large", "c"), ("c5.large", "c")];
    assert!(!leaves_others(attempt, &out(&all)));
    all.pop();
    assert!(leaves_others(attempt, &out(&all)));
    let subnets = ["subnet-b", "subnet-c"].map(|subnet| (Subject::Subnet(subnet.into()), Cause::Wanted));
    assert!(leaves_others(attempt, &subnets[..1]));
    assert!(!leaves_others(attempt, &subnets));
    assert!(leaves_others(attempt, &[]));
}

#[test]
fn full_subnets_and_the_missing_spot_role_have_their_own_reach() {
    let out = |error| takes_out(&error, attempt(&request(), CapacityType::Spot, None));
    for code in ["InsufficientFreeAddressesInSubnet", "InsufficientCidrBlocks"] {
        let full = error(code, Some("b"), Some("subnet-b"));
        assert_eq!(out(full.clone()), [(Subject::Subnet("subnet-b".into()), Cause::Wanted)]);
        let failure = failure("web-1", &[full], None);
        let expected = (Kind::NoCapacity, Some("InsufficientFreeAddressesInSubnet"));
        assert_eq!((failure.kind, failure.reason.as_deref()), expected, "{code}");
    }
    let role = error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Some("a"), None);
    assert_eq!(out(role), [(Subject::CapacityType(CapacityType::Spot), Cause::Wanted)]);
}

#[test]
fn throttling_and_denial_take_out_nothing() {
    for code in ["RequestLimitExceeded", "UnauthorizedOperation", "InternalError"] {
        assert_eq!(
            takes_out(&error(code, Some("a"), None), attempt(&request(), CapacityType::Spot, None)),
            [],
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
        let failure = failure("web-1", &errors, None);
        assert_eq!((failure.kind, failure.reason.as_deref()), (kind, Some(reason)), "{errors:?}");
    }
}

#[test]
fn what_fails_in_a_placement_group_is_out_only_there() {
    let mut request = request();
    let second =
        FleetOverride { instance_type: "c5.large".into(), ..request.configs[0].overrides[0].clone() };
    request.configs[0].overrides.push(second);
    let out = |error: &FleetError, placed: &Placed| -> Vec<(String, Option<u32>)> {
        takes_out(error, attempt(&request, CapacityType::OnDemand, Some(placed)))
            .into_iter()
            .map(|(subject, _)| match subject {
                Subject::Placed(key, place) => (key.instance_type.to_string(), place.partition),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let ice = error("InsufficientInstanceCapacity", Some("b"), None);
    let one = |partition| vec![("m5.large".to_owned(), partition)];
    assert_eq!(out(&ice, &placed(PlacementStrategy::Cluster, None)), one(None));
    assert_eq!(out(&ice, &placed(PlacementStrategy::Partition, Some(2))), one(Some(2)));
    let full = FleetError {
        message: "You have reached the maximum number of instances in a spread placement group".into(),
        ..error("PlacementGroupLimit", Some("b"), None)
    };
    let every = vec![("c5.large".to_owned(), None), ("m5.large".to_owned(), None)];
    let spread = placed(PlacementStrategy::Spread, None);
    assert_eq!(out(&full, &spread), every, "the group is full in that zone, whatever the type");
    assert_eq!(out(&full, &placed(PlacementStrategy::Cluster, None)), [], "not the limit of this group");
    assert_eq!(failure("web-1", std::slice::from_ref(&full), Some(&spread)).kind, Kind::NoCapacity);
    assert_ne!(failure("web-1", &[full], None).kind, Kind::NoCapacity);
}

#[test]
fn a_fleet_is_throttled_when_it_launched_nothing_and_every_failure_says_so() {
    let instances = |ids: &[&str]| FleetInstances {
        ids: ids.iter().map(|id| (*id).into()).collect(),
        instance_type: "m5.large".into(),
        offering: None,
        spot: false,
    };
    let full = "InsufficientInstanceCapacity";
    for (launched, codes, expected) in [
        (None, &["RequestLimitExceeded"][..], true),
        (None, &["RequestLimitExceeded", "Throttling"], true),
        (None, &["RequestLimitExceeded", full], false),
        (None, &[full], false),
        (None, &[], false),
        (Some(instances(&[])), &["RequestLimitExceeded"], true),
        (Some(instances(&["i-1"])), &["RequestLimitExceeded"], false),
    ] {
        let errors = codes.iter().map(|code| error(code, Some("b"), None)).collect();
        let result = FleetResult { id: "fleet-1".into(), instances: launched.into_iter().collect(), errors };
        assert_eq!(is_throttled(&result), expected, "{result:?}");
    }
}
