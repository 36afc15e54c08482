//! Template contents and names.

use karpenter_api::ec2nodeclass::{
    BlockDevice as ClassBlockDevice, ConnectionTracking as ClassTracking, NetworkInterface as ClassInterface,
    Toggle,
};
use karpenter_aws_api::ec2::NetworkCard;

use super::*;
use crate::catalogue::adapters::slots;
use crate::network::placement_groups::Group;
use crate::testing::machine;

fn tags(class: &str) -> BTreeMap<String, String> {
    [("karpenter.k8s.aws/ec2nodeclass".to_owned(), class.to_owned())].into()
}

fn inputs<'a>(spec: &'a Ec2NodeClassSpec, tags: &'a BTreeMap<String, String>) -> Inputs<'a> {
    Inputs {
        spec,
        family: AmiFamily::AL2023,
        security_groups: vec!["sg-1".into(), "sg-2".into()],
        instance_profile: "profile",
        image: "ami-1",
        user_data: "data".to_owned(),
        tags,
        capacity_type: CapacityType::OnDemand,
        dedicated: false,
        adapters: &[],
        enclave: false,
        ipv6: false,
        reserved_capacity: true,
        reserved: None,
        placed: None,
        region: "us-west-2",
    }
}

#[test]
fn the_name_follows_the_contents_and_nothing_else() {
    let spec = Ec2NodeClassSpec::default();
    let (a, b) = (tags("a"), tags("b"));
    let name = |inputs: Inputs<'_>| template(inputs).name;
    let base = name(inputs(&spec, &a));
    let adapter = slots(None, 1);
    assert!(
        base.strip_prefix("karpenter.k8s.aws/").is_some_and(|hash| hash.parse::<u64>().is_ok()),
        "{base}"
    );
    assert_eq!(name(inputs(&spec, &a)), base);
    let others = [
        name(inputs(&spec, &b)),
        name(Inputs { user_data: "else".to_owned(), ..inputs(&spec, &a) }),
        name(Inputs { image: "ami-2", ..inputs(&spec, &a) }),
        name(Inputs { dedicated: true, ..inputs(&spec, &a) }),
        name(Inputs { capacity_type: CapacityType::Spot, ..inputs(&spec, &a) }),
        name(Inputs { adapters: &adapter, ..inputs(&spec, &a) }),
    ];
    let distinct: std::collections::BTreeSet<_> = others.iter().chain([&base]).collect();
    assert_eq!(distinct.len(), 7, "identical node classes of different names have their own templates too");
}

/// A name that changes with the release makes every cluster create all its templates again.
#[test]
fn names_stay_what_they_are() {
    let spec = Ec2NodeClassSpec::default();
    assert_eq!(template(inputs(&spec, &tags("a"))).name, "karpenter.k8s.aws/16472281152855470360");
    let sorted = plain(json!({"b": [{"d": null, "c": 1}], "a": null, "0": {"z": 1, "y": [2, 1]}}));
    assert_eq!(sorted.to_string(), r#"{"0":{"y":[2,1],"z":1},"b":[{"c":1}]}"#);
}

#[test]
fn disks_of_the_class_replace_those_of_the_family_and_zero_rates_are_left_out() {
    let spec = Ec2NodeClassSpec {
        block_device_mappings: Some(vec![BlockDeviceMapping {
            device_name: Some("/dev/x".into()),
            ebs: Some(ClassBlockDevice {
                iops: Some(0),
                throughput: Some(125),
                volume_size: Some("20G".into()),
                ..Default::default()
            }),
            root_volume: false,
        }]),
        ..Default::default()
    };
    let tags = tags("a");
    let disk = |spec| template(inputs(spec, &tags)).data.block_devices[0].clone();
    let own = disk(&spec).ebs.unwrap();
    assert_eq!((own.iops, own.throughput, own.size_gib), (None, Some(125), Some(19)));
    let default = disk(&Ec2NodeClassSpec::default());
    assert_eq!(default.device.as_deref(), Some("/dev/xvda"));
    let ebs = default.ebs.unwrap();
    assert_eq!(
        (ebs.encrypted, ebs.size_gib, ebs.volume_type.as_deref()),
        (Some(true), Some(20), Some("gp3"))
    );
}

#[test]
fn a_volume_is_asked_for_as_the_class_describes_it() {
    let spec: Ec2NodeClassSpec = serde_json::from_value(json!({
        "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": [],
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {
            "volumeSize": "20Gi", "volumeType": "io2", "iops": 1000, "deleteOnTermination": true,
            "encrypted": true, "kmsKeyID": "alias/web", "snapshotID": "snap-0123456789abcdef0",
            "volumeInitializationRate": 150,
        }}],
    }))
    .unwrap();
    let tags = tags("a");
    let devices = template(inputs(&spec, &tags)).data.block_devices;
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].device.as_deref(), Some("/dev/xvda"));
    let volume = devices[0].ebs.clone().unwrap();
    assert_eq!(
        (volume.volume_type.as_deref(), volume.iops, volume.size_gib),
        (Some("io2"), Some(1000), Some(20))
    );
    assert_eq!(
        (volume.throughput, volume.delete_on_termination, volume.encrypted),
        (None, Some(true), Some(true))
    );
    assert_eq!((volume.kms_key.as_deref(), volume.initialization_rate), (Some("alias/web"), Some(150)));
    assert_eq!(volume.snapshot.as_deref(), Some("snap-0123456789abcdef0"));
}

#[test]
fn connection_tracking_is_on_every_interface_with_addresses_and_on_no_other() {
    let class = |tracking: Option<ClassTracking>, interfaces| Ec2NodeClassSpec {
        connection_tracking: tracking,
        network_interfaces: interfaces,
        ..Default::default()
    };
    let all = ClassTracking {
        tcp_established_timeout: Some(300),
        udp_stream_timeout: Some(120),
        udp_timeout: Some(45),
    };
    let some = ClassTracking { udp_timeout: Some(30), ..Default::default() };
    let sent =
        |tcp_established, udp_stream, udp| Some(ConnectionTracking { tcp_established, udp_stream, udp });
    let tags = tags("a");
    let tracked = |spec: &Ec2NodeClassSpec, efa| -> Vec<_> {
        let adapters = slots(None, efa);
        let nics = template(Inputs { adapters: &adapters, ..inputs(spec, &tags) }).data.network_interfaces;
        nics.into_iter().map(|nic| nic.connection_tracking).collect()
    };
    let whole = sent(Some(300), Some(120), Some(45));
    assert_eq!(tracked(&class(Some(all.clone()), None), 0), std::slice::from_ref(&whole));
    assert_eq!(tracked(&class(Some(all.clone()), None), 2), [whole, whole], "adapters of EFA");
    assert_eq!(tracked(&class(Some(some), None), 0), [sent(None, None, Some(30))]);
    assert_eq!(tracked(&class(None, None), 2), [None, None]);
    let nic =
        |card, interface_type| ClassInterface { network_card_index: card, device_index: 0, interface_type };
    let own = vec![nic(0, InterfaceType::Interface), nic(1, InterfaceType::EfaOnly)];
    assert_eq!(tracked(&class(Some(all), Some(own)), 0), [whole, None]);
}

#[test]
fn spot_requests_are_tagged_only_for_spot() {
    let (spec, tags) = (Ec2NodeClassSpec::default(), tags("a"));
    let kinds = |capacity_type| -> Vec<TaggedKind> {
        let made = template(Inputs { capacity_type, ..inputs(&spec, &tags) });
        assert_eq!(made.tags, tags);
        made.data.tags.iter().map(|tagged| tagged.kind).collect()
    };
    assert_eq!(kinds(CapacityType::OnDemand), [TaggedKind::NetworkInterface]);
    assert_eq!(kinds(CapacityType::Spot), [TaggedKind::NetworkInterface, TaggedKind::SpotInstancesRequest]);
}

#[test]
fn open_reservations_are_left_alone_only_with_the_gate_on() {
    let (spec, tags) = (Ec2NodeClassSpec::default(), tags("a"));
    let target = |reserved_capacity| {
        template(Inputs { reserved_capacity, ..inputs(&spec, &tags) }).data.capacity_reservation
    };
    assert_eq!(target(true).map(|target| target.preference), Some(CapacityReservationPreference::None));
    assert_eq!(target(false), None);
}

#[test]
fn a_reservation_is_named_with_the_market_its_kind_needs_and_only_with_the_gate_on() {
    let (spec, tags) = (Ec2NodeClassSpec::default(), tags("a"));
    for (kind, market) in [
        (ReservedKind::Default, None),
        (ReservedKind::CapacityBlock, Some(MarketType::CapacityBlock)),
        (ReservedKind::Interruptible, Some(MarketType::InterruptibleCapacityReservation)),
    ] {
        let reserved = Reserved { id: "cr-1".into(), kind };
        let data = |reserved_capacity| {
            let way = Inputs { reserved: Some(&reserved), reserved_capacity, ..inputs(&spec, &tags) };
            template(way).data
        };
        let target = data(true).capacity_reservation.unwrap();
        assert_eq!(target.preference, CapacityReservationPreference::CapacityReservationsOnly);
        assert_eq!(target.id.unwrap().as_str(), "cr-1");
        assert_eq!(data(true).market, market, "{kind:?}");
        assert_eq!((data(false).capacity_reservation, data(false).market), (None, None));
    }
}

#[test]
fn group_and_partition_are_part_of_the_template_and_of_its_name() {
    use karpenter_aws_api::ec2::PlacementStrategy::Partition;
    let (spec, tags) = (Ec2NodeClassSpec::default(), tags("a"));
    let group = Group { id: "pg-1".into(), strategy: Partition, partitions: 3 };
    let placed = |partition| Placed { group: group.clone(), partition };
    let [free, second] = [placed(None), placed(Some(2))];
    let of = |placed| template(Inputs { placed, ..inputs(&spec, &tags) });
    let placement = of(Some(&second)).data.placement.unwrap();
    assert_eq!((placement.group.unwrap().as_str(), placement.partition), ("pg-1", Some(2)));
    let names: std::collections::BTreeSet<_> =
        [None, Some(&free), Some(&second)].into_iter().map(|placed| of(placed).name).collect();
    assert_eq!(names.len(), 3);
}

#[test]
fn efa_only_interfaces_have_groups_but_no_addresses() {
    let nic =
        |card, interface_type| ClassInterface { network_card_index: card, device_index: 0, interface_type };
    let spec = Ec2NodeClassSpec {
        network_interfaces: Some(vec![nic(0, InterfaceType::Interface), nic(1, InterfaceType::EfaOnly)]),
        ip_prefix_count: Some(0),
        associate_public_ip_address: Some(true),
        ..Default::default()
    };
    let tags = tags("a");
    let nics = template(Inputs { ipv6: true, ..inputs(&spec, &tags) }).data.network_interfaces;
    let plain = &nics[0];
    assert_eq!((plain.ipv6_prefixes, plain.ipv4_prefixes), (Some(0), None), "a count of 0 is sent as 0");
    assert_eq!((plain.primary_ipv6, plain.ipv6_addresses), (Some(true), Some(1)));
    assert_eq!(plain.associate_public_ip, Some(true));
    let efa = &nics[1];
    assert_eq!((efa.card, efa.kind), (Some(1), Some(InterfaceKind::EfaOnly)));
    assert_eq!((efa.associate_public_ip, efa.ipv6_prefixes, efa.primary_ipv6), (None, None, None));
    assert_eq!(efa.security_groups.len(), 2);
}

#[test]
fn requested_adapters_get_one_card_each() {
    let (spec, tags) = (Ec2NodeClassSpec::default(), tags("a"));
    let places = |cards: [u32; 3], count| -> Vec<_> {
        let mut info = machine("p5.large", 2, 8, 4, 15);
        let card = |(index, maximum_network_interfaces)| NetworkCard {
            index,
            maximum_network_interfaces,
            baseline_mbps: None,
        };
        info.network_cards = (0..).zip(cards).map(card).collect();
        let adapters = slots(Some(&info), count);
        let nics = template(Inputs { adapters: &adapters, ..inputs(&spec, &tags) }).data.network_interfaces;
        nics.iter().map(|nic| (nic.card.unwrap(), nic.device, nic.kind.unwrap())).collect()
    };
    let (efa, plain) = (InterfaceKind::Efa, InterfaceKind::Interface);
    assert_eq!(places([2, 2, 2], 3), [(0, 0, efa), (1, 1, efa), (2, 1, efa)]);
    assert_eq!(places([2, 1, 2], 3), [(0, 0, efa), (1, 0, efa), (2, 1, efa)], "a card that takes one");
    assert_eq!(places([4, 1, 1], 2), [(0, 0, plain), (1, 0, efa), (2, 0, efa)], "a card without adapter");
}

#[test]
fn metadata_ipv6_is_not_sent_to_regions_without_it() {
    let spec = Ec2NodeClassSpec {
        metadata_options: Some(ClassMetadata {
            http_protocol_ipv6: Some(Toggle::Enabled),
            ..Default::default()
        }),
        ..Default::default()
    };
    let tags = tags("a");
    let protocol = |region| {
        template(Inputs { region, ..inputs(&spec, &tags) }).data.metadata.unwrap().http_protocol_ipv6
    };
    assert_eq!(protocol("us-west-2").as_deref(), Some("enabled"));
    assert_eq!(protocol("us-iso-east-1"), None);
}
