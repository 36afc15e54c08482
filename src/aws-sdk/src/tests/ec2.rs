//! Requests as EC2 sees them.

use expect_test::{Expect, expect};

use super::super::Retries;
use super::support::{Wire, ec2_error};
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityKind, CapacityReservationQuery, EbsVolume, FleetConfig, FleetOverride, FleetRequest,
    InstanceTypeQuery, LaunchTemplateData, LaunchTemplateSpec, MetadataOptions, NetworkInterface,
    OnDemandAllocation, Placement, RunInstancesRequest, SpotAllocation, TagSpecification, TaggedKind,
    Tenancy,
};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_api::{Kind, Secret, Tags};

const FLEET: &str = r#"<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>req-1</requestId><fleetId>fleet-1</fleetId>
<errorSet><item><launchTemplateAndOverrides><launchTemplateSpecification>
<launchTemplateId>lt-1</launchTemplateId><launchTemplateName>karpenter.k8s.aws/1</launchTemplateName><version>1</version>
</launchTemplateSpecification><overrides><instanceType>c5.large</instanceType><subnetId>subnet-a</subnetId>
<availabilityZone>us-west-2a</availabilityZone></overrides></launchTemplateAndOverrides><lifecycle>spot</lifecycle>
<errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>no capacity</errorMessage></item></errorSet>
<fleetInstanceSet><item><launchTemplateAndOverrides><launchTemplateSpecification>
<launchTemplateId>lt-1</launchTemplateId><version>1</version></launchTemplateSpecification>
<overrides><instanceType>m5.large</instanceType><subnetId>subnet-b</subnetId><priority>0.0351</priority></overrides>
</launchTemplateAndOverrides><lifecycle>spot</lifecycle><instanceIds><item>i-1</item><item>i-2</item></instanceIds>
<instanceType>m5.large</instanceType></item></fleetInstanceSet></CreateFleetResponse>"#;

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn request(capacity: CapacityKind) -> FleetRequest {
    let offering = |instance_type: &str, subnet: &str, zone: &str, nanos| FleetOverride {
        instance_type: instance_type.into(),
        subnet: subnet.into(),
        zone: Some(zone.into()),
        image: Some("ami-1".into()),
        priority_nanos: Some(nanos),
    };
    FleetRequest {
        client_token: Some("uid-1-0".to_owned()),
        capacity,
        target: 2,
        configs: vec![FleetConfig {
            launch_template: "karpenter.k8s.aws/1".to_owned(),
            overrides: vec![
                offering("m5.large", "subnet-b", "us-west-2b", 35_100_000),
                offering("c5.large", "subnet-a", "us-west-2a", 31_000_000),
            ],
        }],
        tags: vec![TagSpecification {
            kind: TaggedKind::Instance,
            tags: tags(&[("karpenter.sh/nodepool", "default")]),
        }],
        context: None,
    }
}

/// A template with most fields set.
fn template() -> LaunchTemplateSpec {
    LaunchTemplateSpec {
        name: "karpenter.k8s.aws/1".to_owned(),
        client_token: Some("token".to_owned()),
        tags: tags(&[("eks:eks-cluster-name", "demo")]),
        data: LaunchTemplateData {
            image: Some("ami-1".into()),
            user_data: Some(Secret::from("hello")),
            instance_profile: Some("profile".to_owned()),
            detailed_monitoring: Some(false),
            block_devices: vec![BlockDevice {
                device: Some("/dev/xvda".to_owned()),
                ebs: Some(EbsVolume {
                    encrypted: Some(true),
                    size_gib: Some(20),
                    volume_type: Some("gp3".to_owned()),
                    ..EbsVolume::default()
                }),
            }],
            metadata: Some(MetadataOptions {
                http_endpoint: Some("enabled".to_owned()),
                http_protocol_ipv6: Some("disabled".to_owned()),
                http_put_response_hop_limit: Some(1),
                http_tokens: Some("required".to_owned()),
                instance_metadata_tags: Some("disabled".to_owned()),
            }),
            network_interfaces: vec![NetworkInterface {
                device: 0,
                security_groups: vec!["sg-1".into()],
                associate_public_ip: Some(false),
                ..NetworkInterface::default()
            }],
            tags: vec![TagSpecification {
                kind: TaggedKind::NetworkInterface,
                tags: tags(&[("karpenter.sh/nodepool", "default")]),
            }],
            placement: Some(Placement { tenancy: Some(Tenancy::Default), ..Placement::default() }),
            ..LaunchTemplateData::default()
        },
    }
}

fn check(found: &str, expected: &Expect) {
    expected.assert_eq(found);
}

#[tokio::test]
async fn create_fleet_is_sent_and_its_answer_read() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("CreateFleet", 200, FLEET).await;
    let spot = request(CapacityKind::Spot(SpotAllocation::PriceCapacityOptimized));
    let fleet = wire.clients.ec2.create_fleet(&spot).await.unwrap();
    check(
        &wire.last_form(),
        &expect![[r#"
        Action=CreateFleet
        ClientToken=uid-1-0
        LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=karpenter.k8s.aws/1
        LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=$Latest
        LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=us-west-2b
        LaunchTemplateConfigs.1.Overrides.1.ImageId=ami-1
        LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large
        LaunchTemplateConfigs.1.Overrides.1.Priority=0.0351
        LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-b
        LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone=us-west-2a
        LaunchTemplateConfigs.1.Overrides.2.ImageId=ami-1
        LaunchTemplateConfigs.1.Overrides.2.InstanceType=c5.large
        LaunchTemplateConfigs.1.Overrides.2.Priority=0.031
        LaunchTemplateConfigs.1.Overrides.2.SubnetId=subnet-a
        SpotOptions.AllocationStrategy=price-capacity-optimized
        TagSpecification.1.ResourceType=instance
        TagSpecification.1.Tag.1.Key=karpenter.sh/nodepool
        TagSpecification.1.Tag.1.Value=default
        TargetCapacitySpecification.DefaultTargetCapacityType=spot
        TargetCapacitySpecification.TotalTargetCapacity=2
        Type=instant
    "#]],
    );
    assert_eq!(fleet.id, "fleet-1");
    assert_eq!(fleet.instance_ids().map(InstanceId::as_str).collect::<Vec<_>>(), ["i-1", "i-2"]);
    let group = &fleet.instances[0];
    assert!(group.spot);
    let offering = group.offering.as_ref().unwrap();
    assert_eq!((offering.subnet.as_str(), offering.priority_nanos), ("subnet-b", Some(35_100_000)));
    let error = &fleet.errors[0];
    assert_eq!(error.code_and_message(), "InsufficientInstanceCapacity: no capacity");
    assert_eq!(error.zone.as_ref().unwrap(), &"us-west-2a");
    assert_eq!(error.launch_template.as_deref(), Some("karpenter.k8s.aws/1"));
}

#[tokio::test]
async fn each_way_of_buying_has_its_options() {
    for (capacity, present) in [
        (
            CapacityKind::OnDemand(OnDemandAllocation::Prioritized),
            &["OnDemandOptions.AllocationStrategy=prioritized", "DefaultTargetCapacityType=on-demand"][..],
        ),
        (
            CapacityKind::InterruptibleReservation,
            &[
                "DefaultTargetCapacityType=reserved-capacity",
                "ReservedCapacityOptions.ReservationType.1=interruptible-capacity-reservation",
            ],
        ),
        (CapacityKind::CapacityBlock, &["DefaultTargetCapacityType=capacity-block"]),
    ] {
        let mut wire = Wire::new(Retries::Never).await;
        wire.answers("CreateFleet", 200, FLEET).await;
        wire.clients.ec2.create_fleet(&request(capacity)).await.unwrap();
        let form = wire.last_form();
        for line in present {
            assert!(form.contains(line), "{capacity:?}: no `{line}` in\n{form}");
        }
        assert!(!form.contains("SpotOptions"), "{form}");
    }
}

#[tokio::test]
async fn create_launch_template_is_sent() {
    let mut wire = Wire::new(Retries::Never).await;
    let answer = r#"<CreateLaunchTemplateResponse><launchTemplate><launchTemplateId>lt-1</launchTemplateId>
<launchTemplateName>karpenter.k8s.aws/1</launchTemplateName><createTime>2026-01-01T00:00:00.000Z</createTime>
<latestVersionNumber>1</latestVersionNumber></launchTemplate></CreateLaunchTemplateResponse>"#;
    wire.answers("CreateLaunchTemplate", 200, answer).await;
    let spec = template();
    assert!(!format!("{spec:?}").contains("hello"), "user data is unprintable");
    let made = wire.clients.ec2.create_launch_template(&spec).await.unwrap();
    check(
        &wire.last_form(),
        &expect![[r#"
        Action=CreateLaunchTemplate
        ClientToken=token
        LaunchTemplateData.BlockDeviceMapping.1.DeviceName=/dev/xvda
        LaunchTemplateData.BlockDeviceMapping.1.Ebs.Encrypted=true
        LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize=20
        LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeType=gp3
        LaunchTemplateData.IamInstanceProfile.Name=profile
        LaunchTemplateData.ImageId=ami-1
        LaunchTemplateData.MetadataOptions.HttpEndpoint=enabled
        LaunchTemplateData.MetadataOptions.HttpProtocolIpv6=disabled
        LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit=1
        LaunchTemplateData.MetadataOptions.HttpTokens=required
        LaunchTemplateData.MetadataOptions.InstanceMetadataTags=disabled
        LaunchTemplateData.Monitoring.Enabled=false
        LaunchTemplateData.NetworkInterface.1.AssociatePublicIpAddress=false
        LaunchTemplateData.NetworkInterface.1.DeviceIndex=0
        LaunchTemplateData.NetworkInterface.1.SecurityGroupId.1=sg-1
        LaunchTemplateData.Placement.Tenancy=default
        LaunchTemplateData.TagSpecification.1.ResourceType=network-interface
        LaunchTemplateData.TagSpecification.1.Tag.1.Key=karpenter.sh/nodepool
        LaunchTemplateData.TagSpecification.1.Tag.1.Value=default
        LaunchTemplateData.UserData=aGVsbG8=
        LaunchTemplateName=karpenter.k8s.aws/1
        TagSpecification.1.ResourceType=launch-template
        TagSpecification.1.Tag.1.Key=eks:eks-cluster-name
        TagSpecification.1.Tag.1.Value=demo
    "#]],
    );
    assert_eq!((made.id.as_str(), made.latest_version), ("lt-1", 1));
}

#[tokio::test]
async fn a_dry_run_succeeds_by_being_refused_and_is_never_repeated() {
    let mut wire = Wire::new(Retries::Standard { max_attempts: 5 }).await;
    wire.answers("CreateFleet", 412, &ec2_error("DryRunOperation", "would have succeeded")).await;
    let on_demand = request(CapacityKind::OnDemand(OnDemandAllocation::LowestPrice));
    assert_eq!(wire.clients.ec2.dry_run_create_fleet(&on_demand).await, Ok(()));
    assert!(wire.last_form().contains("DryRun=true"));

    wire.server.reset();
    wire.answers("CreateFleet", 503, &ec2_error("RequestLimitExceeded", "slow down")).await;
    let before = wire.times_asked();
    let error = wire.clients.ec2.dry_run_create_fleet(&on_demand).await.unwrap_err();
    assert_eq!((error.kind, wire.times_asked() - before), (Kind::Throttled, 1));

    wire.server.reset();
    wire.answers("CreateFleet", 200, FLEET).await;
    let error = wire.clients.ec2.dry_run_create_fleet(&on_demand).await.unwrap_err();
    assert_eq!(error.kind, Kind::Invalid, "a dry run that launched is not a success");
}

#[tokio::test]
async fn a_reboot_is_sent_once_whatever_comes_of_it() {
    let mut wire = Wire::new(Retries::Standard { max_attempts: 5 }).await;
    let done = "<RebootInstancesResponse><return>true</return></RebootInstancesResponse>";
    wire.answers("RebootInstances", 200, done).await;
    assert_eq!(wire.clients.ec2.reboot_instances(&["i-1".into()]).await, Ok(()));
    assert!(wire.last_form().contains("InstanceId.1=i-1"));

    wire.server.reset();
    wire.answers("RebootInstances", 503, &ec2_error("RequestLimitExceeded", "slow down")).await;
    let before = wire.times_asked();
    let error = wire.clients.ec2.reboot_instances(&["i-1".into()]).await.unwrap_err();
    assert_eq!((error.kind, wire.times_asked() - before), (Kind::Throttled, 1));
}

#[tokio::test]
async fn a_share_of_a_gpu_is_a_gpu() {
    let mut wire = Wire::new(Retries::Never).await;
    let kind = |name: &str, counts: &str| {
        format!(
            "<item><instanceType>{name}</instanceType><supportedUsageClasses><item>on-demand</item>\
             </supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item>\
             </supportedArchitectures></processorInfo><vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo>\
             <memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>\
             <networkInfo><maximumNetworkInterfaces>3</maximumNetworkInterfaces>\
             <ipv4AddressesPerInterface>10</ipv4AddressesPerInterface><networkCards><item>\
             <networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>3</maximumNetworkInterfaces>\
             </item></networkCards></networkInfo><gpuInfo><gpus><item><name>L4</name>\
             <manufacturer>NVIDIA</manufacturer>{counts}<memoryInfo><sizeInMiB>2861</sizeInMiB></memoryInfo>\
             </item></gpus></gpuInfo></item>"
        )
    };
    let table = [
        ("g6.12xlarge", "<count>4</count><logicalGpuCount>4</logicalGpuCount>", 4),
        ("g6f.large", "<count>0</count><logicalGpuCount>1</logicalGpuCount>", 1),
        ("gr6f.4xlarge", "<count>0</count>", 1),
    ];
    let types: String = table.iter().map(|(name, counts, _)| kind(name, counts)).collect();
    let answer = format!(
        "<DescribeInstanceTypesResponse><instanceTypeSet>{types}</instanceTypeSet></DescribeInstanceTypesResponse>"
    );
    wire.answers("DescribeInstanceTypes", 200, &answer).await;
    let listing = wire.clients.ec2.describe_instance_types(&InstanceTypeQuery::default()).await.unwrap();
    assert_eq!((listing.items.len(), listing.skipped), (3, vec![]));
    for (info, (name, _, count)) in listing.items.iter().zip(table) {
        assert_eq!((info.name.as_str(), info.gpus[0].count), (name, count));
        assert_eq!(info.gpus[0].memory_mib, 2861, "of the share");
    }
}

#[tokio::test]
async fn a_reservation_says_what_it_is_for() {
    let mut wire = Wire::new(Retries::Never).await;
    let answer = "<DescribeCapacityReservationsResponse><capacityReservationSet><item>\
                  <capacityReservationId>cr-1</capacityReservationId><ownerId>123456789012</ownerId>\
                  <instanceType>m5.large</instanceType><instancePlatform>Windows</instancePlatform>\
                  <availabilityZone>us-west-2a</availabilityZone><tenancy>dedicated</tenancy>\
                  <totalInstanceCount>2</totalInstanceCount><availableInstanceCount>1</availableInstanceCount>\
                  <state>active</state><instanceMatchCriteria>open</instanceMatchCriteria>\
                  </item></capacityReservationSet></DescribeCapacityReservationsResponse>";
    wire.answers("DescribeCapacityReservations", 200, answer).await;
    let query = CapacityReservationQuery::default();
    let found = wire.clients.ec2.describe_capacity_reservations(&query).await.unwrap();
    let said = (found[0].platform.as_deref(), found[0].tenancy.as_deref());
    assert_eq!(said, (Some("Windows"), Some("dedicated")));
    assert_eq!((found[0].total, found[0].available), (2, 1));
}

/// aws#9018: policies of organisations look at the request.
#[tokio::test]
async fn the_dry_run_of_a_launch_says_all_that_policies_look_at() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("RunInstances", 412, &ec2_error("DryRunOperation", "would have succeeded")).await;
    let volume = EbsVolume { encrypted: Some(true), size_gib: Some(20), ..EbsVolume::default() };
    let run = RunInstancesRequest {
        launch_template: "karpenter.k8s.aws/1".to_owned(),
        instance_type: "m5.large".into(),
        interfaces: Vec::new(),
        tags: Vec::new(),
        metadata: Some(MetadataOptions { http_tokens: Some("required".to_owned()), ..Default::default() }),
        block_devices: vec![BlockDevice { device: Some("/dev/xvda".to_owned()), ebs: Some(volume) }],
        spot: true,
    };
    assert_eq!(wire.clients.ec2.dry_run_run_instances(&run).await, Ok(()));
    let form = wire.last_form();
    for part in [
        "DryRun=true",
        "MetadataOptions.HttpTokens=required",
        "BlockDeviceMapping.1.Ebs.Encrypted=true",
        "BlockDeviceMapping.1.Ebs.VolumeSize=20",
        "InstanceMarketOptions.MarketType=spot",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
    let plain = RunInstancesRequest { metadata: None, block_devices: Vec::new(), spot: false, ..run };
    assert_eq!(wire.clients.ec2.dry_run_run_instances(&plain).await, Ok(()));
    let form = wire.last_form();
    assert!(!form.contains("MetadataOptions") && !form.contains("InstanceMarketOptions"), "{form}");
}

#[tokio::test]
async fn requests_that_ec2_would_refuse_are_not_sent() {
    let wire = Wire::new(Retries::Never).await;
    let mut empty = request(CapacityKind::OnDemand(OnDemandAllocation::LowestPrice));
    empty.configs[0].overrides.clear();
    let mut nothing = request(CapacityKind::OnDemand(OnDemandAllocation::LowestPrice));
    nothing.target = 0;
    for wrong in [empty, nothing] {
        assert_eq!(wire.clients.ec2.create_fleet(&wrong).await.unwrap_err().kind, Kind::Invalid);
    }
    assert_eq!(wire.times_asked(), 0);
}
