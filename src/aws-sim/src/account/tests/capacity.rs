//! Allocation strategies, capacity, quotas, addresses, reservations.

use super::support::{ON_DEMAND, SPOT, World, codes, subnet, taken};
use crate::examples::capacity_reservation;
use crate::{OfferingSelector, Options, Quotas};
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityKind, CapacityReservation, CapacityReservationPreference, CapacityReservationTarget,
    EbsVolume, LaunchTemplateData, LaunchTemplateSpec, OnDemandAllocation, SpotAllocation, SubnetQuery,
};
use karpenter_aws_api::{Kind, Secret, Tags};

async fn free_addresses(world: &World) -> u32 {
    let query = SubnetQuery { ids: vec![subnet(&world.account, 0)], filters: Vec::new() };
    world.clients.ec2.describe_subnets(&query).await.unwrap()[0].free_addresses
}

#[tokio::test]
async fn each_strategy_ranks_its_own_way() {
    // Offered in this order: the expensive one has the best priority.
    let offerings = [("m5.2xlarge", 0), ("m5.large", 0), ("m5.xlarge", 0)];
    for (capacity, expected) in [
        (ON_DEMAND, "m5.large"),
        (CapacityKind::OnDemand(OnDemandAllocation::Prioritized), "m5.2xlarge"),
        (SPOT, "m5.xlarge"),
        (CapacityKind::Spot(SpotAllocation::LowestPrice), "m5.large"),
        (CapacityKind::Spot(SpotAllocation::CapacityOptimizedPrioritized), "m5.2xlarge"),
    ] {
        let world = World::new(Options::default()).await;
        // Nearly exhausted spot pool: only the capacity-minded strategies care.
        world.account.limit_capacity(OfferingSelector::exactly("m5.large", "us-west-2a", true), 3);
        let fleet = world.launch(capacity, 1, &offerings).await;
        assert_eq!(taken(&fleet), [(expected.to_owned(), 1)], "{capacity:?}");
    }
}

#[tokio::test]
async fn an_exhausted_offering_is_reported_and_the_next_one_taken() {
    let world = World::new(Options::default()).await;
    let pool = OfferingSelector::exactly("m5.large", "us-west-2a", false);
    world.account.limit_capacity(pool.clone(), 1);
    let fleet = world.launch(ON_DEMAND, 3, &[("m5.large", 0), ("m5.xlarge", 0)]).await;
    assert_eq!(taken(&fleet), [("m5.large".to_owned(), 1), ("m5.xlarge".to_owned(), 2)]);
    assert_eq!(codes(&fleet), ["InsufficientInstanceCapacity"]);
    assert_eq!(fleet.errors[0].zone.as_ref().unwrap(), &"us-west-2a");

    let none = world.launch(ON_DEMAND, 1, &[("m5.large", 0)]).await;
    assert!(none.instances.is_empty(), "a fleet without capacity is not an error of the call");
    // Termination gives the capacity back.
    world.terminate(&fleet.instances[0].ids).await;
    world.pass(60);
    assert_eq!(taken(&world.launch(ON_DEMAND, 1, &[("m5.large", 0)]).await).len(), 1);
}

#[tokio::test]
async fn a_fleet_may_try_fewer_offerings_than_it_was_given() {
    let world = World::new(Options { offerings_tried: Some(2), ..Options::default() }).await;
    let offerings = [("m5.large", 0), ("m5.large", 1), ("m5.large", 2), ("m5.large", 3)];
    assert!(codes(&world.launch(ON_DEMAND, 1, &offerings).await).is_empty());
    for zone in ["us-west-2a", "us-west-2b"] {
        world.account.limit_capacity(OfferingSelector::exactly("m5.large", zone, false), 0);
    }
    let fleet = world.launch(ON_DEMAND, 1, &offerings).await;
    let (full, rest) = ("InsufficientInstanceCapacity", "UnfulfillableCapacity");
    assert_eq!((taken(&fleet), codes(&fleet)), (Vec::new(), vec![full, full, rest, rest]));
}

#[tokio::test]
async fn a_whole_zone_can_be_out() {
    let world = World::new(Options::default()).await;
    let zone = OfferingSelector { zone: Some("us-west-2a".into()), ..OfferingSelector::default() };
    world.account.limit_capacity(zone.clone(), 0);
    let fleet = world.launch(SPOT, 1, &[("m5.large", 0), ("c6i.large", 0), ("m5.large", 1)]).await;
    assert_eq!(fleet.instances.len(), 1);
    world.account.unlimit_capacity(&zone);
    assert!(world.launch(SPOT, 1, &[("m5.large", 0)]).await.errors.is_empty());
}

#[tokio::test]
async fn quotas_refuse_with_their_own_codes() {
    let quotas = Quotas { on_demand_vcpus: Some(4), spot_vcpus: Some(2), fleets: None };
    let world = World::new(Options { quotas, ..Options::default() }).await;
    let fleet = world.launch(ON_DEMAND, 3, &[("m5.large", 0)]).await;
    assert_eq!((taken(&fleet)[0].1, codes(&fleet)), (2, vec!["VcpuLimitExceeded"]));
    let fleet = world.launch(SPOT, 2, &[("m5.large", 0)]).await;
    assert_eq!((taken(&fleet)[0].1, codes(&fleet)), (1, vec!["MaxSpotInstanceCountExceeded"]));

    world.account.set_quotas(Quotas { fleets: Some(2), ..Quotas::default() });
    let fleet = world.launch(ON_DEMAND, 1, &[("m5.large", 0)]).await;
    assert_eq!(codes(&fleet), ["MaxFleetCountExceeded"]);
    world.account.set_quotas(Quotas::default());
    assert!(codes(&world.launch(ON_DEMAND, 1, &[("m5.large", 0)]).await).is_empty());
}

#[tokio::test]
async fn addresses_run_out_and_come_back_exactly_once() {
    let world = World::new(Options { addresses_per_subnet: 2, ..Options::default() }).await;
    let fleet = world.launch(ON_DEMAND, 3, &[("m5.large", 0)]).await;
    assert_eq!(codes(&fleet), ["InsufficientFreeAddressesInSubnet"]);
    assert_eq!(free_addresses(&world).await, 0);
    let ids: Vec<_> = fleet.instance_ids().cloned().collect();
    world.terminate(&ids).await;
    assert_eq!(free_addresses(&world).await, 0, "held until the instance is gone");
    world.pass(31);
    assert_eq!(free_addresses(&world).await, 2);
    world.terminate(&ids).await;
    world.pass(31);
    assert_eq!(free_addresses(&world).await, 2, "a second termination gives nothing back");
}

#[tokio::test]
async fn what_cannot_work_is_refused_per_offering() {
    let world = World::new(Options { spot_service_linked_role: false, ..Options::default() }).await;
    for (capacity, offering, code) in [
        (SPOT, ("m5.large", 0), "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
        (ON_DEMAND, ("m7g.large", 0), "InvalidParameterValue"),
        (ON_DEMAND, ("g5.xlarge", 2), "InvalidFleetConfiguration"),
        (ON_DEMAND, ("x99.mega", 0), "InvalidInstanceType"),
    ] {
        let fleet = world.launch(capacity, 1, &[offering]).await;
        assert!(fleet.instances.is_empty());
        assert_eq!(codes(&fleet), [code]);
    }
    world.clients.iam.create_service_linked_role("spot.amazonaws.com").await.unwrap();
    assert!(codes(&world.launch(SPOT, 1, &[("m5.large", 0)]).await).is_empty());
}

#[tokio::test]
async fn a_reservation_is_taken_and_given_back() {
    let world = World::new(Options::default()).await;
    let one = CapacityReservation { total: 1, available: 1, ..capacity_reservation("cr-1") };
    world.account.put_capacity_reservation(one);
    let image = world.account.truth(|state, _| state.compute.templates["template"].data.image.clone());
    let target = CapacityReservationTarget {
        preference: CapacityReservationPreference::CapacityReservationsOnly,
        id: Some("cr-1".into()),
    };
    let spec = LaunchTemplateSpec {
        name: "reserved".into(),
        client_token: None,
        tags: Tags::new(),
        data: LaunchTemplateData {
            image,
            capacity_reservation: Some(target),
            ..LaunchTemplateData::default()
        },
    };
    world.clients.ec2.create_launch_template(&spec).await.unwrap();
    let mut request = world.request(ON_DEMAND, 2, &[("m5.large", 0)]);
    request.configs[0].launch_template = "reserved".into();
    let fleet = world.clients.ec2.create_fleet(&request).await.unwrap();
    assert_eq!((taken(&fleet)[0].1, codes(&fleet)), (1, vec!["ReservationCapacityExceeded"]));
    let ids: Vec<_> = fleet.instance_ids().cloned().collect();
    assert_eq!(world.account.live_instances()[0].reservation.as_ref().unwrap(), &"cr-1");
    world.terminate(&ids).await;
    world.pass(60);
    let found = world.clients.ec2.describe_capacity_reservations(&Default::default()).await.unwrap();
    assert_eq!(found[0].available, 1);
}

#[tokio::test]
async fn a_client_token_launches_once_and_refuses_another_request() {
    let world = World::new(Options::default()).await;
    let mut request = world.request(ON_DEMAND, 1, &[("m5.large", 0)]);
    request.client_token = Some("claim-1-0".to_owned());
    let first = world.clients.ec2.create_fleet(&request).await.unwrap();
    assert_eq!(world.clients.ec2.create_fleet(&request).await.unwrap(), first);
    assert_eq!(world.account.live_instances().len(), 1);
    request.target = 2;
    let error = world.clients.ec2.create_fleet(&request).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_deref()), (Kind::Conflict, Some("IdempotentParameterMismatch")));
}

#[tokio::test]
async fn user_data_beyond_16_kib_is_refused() {
    let world = World::new(Options::default()).await;
    let spec = |size: usize| LaunchTemplateSpec {
        name: format!("size-{size}"),
        client_token: None,
        tags: Tags::new(),
        data: LaunchTemplateData {
            user_data: Some(Secret::new("x".repeat(size))),
            ..LaunchTemplateData::default()
        },
    };
    world.clients.ec2.create_launch_template(&spec(16_384)).await.unwrap();
    let error = world.clients.ec2.create_launch_template(&spec(16_385)).await.unwrap_err();
    assert!(error.message.contains("User data is limited to"), "{error}");
}

#[tokio::test]
async fn a_rate_that_a_volume_does_not_take_is_refused_at_the_launch() {
    let world = World::new(Options::default()).await;
    let volumes = [
        ("gp2", Some(3000), None, true),
        ("gp2", None, Some(125), true),
        ("io2", Some(3000), Some(125), true),
        ("st1", Some(3000), None, true),
        ("gp2", None, None, false),
        ("io2", Some(3000), None, false),
        ("gp3", Some(3000), Some(125), false),
    ];
    for (number, (kind, iops, throughput, refused)) in volumes.into_iter().enumerate() {
        let image = world.account.truth(|state, _| state.compute.templates["template"].data.image.clone());
        let ebs = EbsVolume { volume_type: Some(kind.into()), iops, throughput, ..EbsVolume::default() };
        let device = BlockDevice { device: Some("/dev/xvda".into()), ebs: Some(ebs) };
        let spec = LaunchTemplateSpec {
            name: format!("volumes-{number}"),
            client_token: None,
            tags: Tags::new(),
            data: LaunchTemplateData { image, block_devices: vec![device], ..LaunchTemplateData::default() },
        };
        world.clients.ec2.create_launch_template(&spec).await.unwrap();
        let mut request = world.request(ON_DEMAND, 1, &[("m5.large", 0)]);
        request.configs[0].launch_template = spec.name;
        let fleet = world.clients.ec2.create_fleet(&request).await.unwrap();
        let expected: &[&str] = if refused { &["InvalidParameterCombination"] } else { &[] };
        assert_eq!(codes(&fleet), expected, "{kind} {iops:?} {throughput:?}");
    }
}
