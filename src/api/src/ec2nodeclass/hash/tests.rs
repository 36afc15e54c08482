//! The vectors of spec aws-provider 1.8 and what must not count.

use super::super::{
    AmiFamily, AmiSelectorTerm, InstanceStorePolicy, SubnetSelectorTerm, Toggle, TokenState, VolumeType,
};
use super::*;

const CA_BUNDLE: &str = "test-ca-bundle";

fn base() -> EC2NodeClass {
    let device = BlockDevice {
        delete_on_termination: Some(false),
        encrypted: Some(false),
        iops: Some(0),
        kms_key_id: Some("fakeKMSKeyID".into()),
        snapshot_id: Some("fakeSnapshot".into()),
        throughput: Some(0),
        volume_initialization_rate: None,
        volume_size: Some("2G".into()),
        volume_type: Some(VolumeType::Standard),
    };
    let mapping =
        |name: &str, ebs| BlockDeviceMapping { device_name: Some(name.into()), ebs, root_volume: false };
    EC2NodeClass::new(
        "default",
        Ec2NodeClassSpec {
            role: Some("role-1".into()),
            tags: Some(
                [("keyTag-1", "valueTag-1"), ("keyTag-2", "valueTag-2")]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
            ),
            context: Some("fake-context".into()),
            detailed_monitoring: Some(false),
            associate_public_ip_address: Some(false),
            metadata_options: Some(MetadataOptions {
                http_endpoint: Some(Toggle::Disabled),
                http_protocol_ipv6: Some(Toggle::Disabled),
                http_put_response_hop_limit: Some(1),
                http_tokens: Some(TokenState::Optional),
            }),
            block_device_mappings: Some(vec![
                mapping("map-device-1", Some(device)),
                mapping("map-device-2", None),
            ]),
            user_data: Some("userdata-test-1".into()),
            ami_family: Some(AmiFamily::Custom),
            ..Default::default()
        },
    )
}

fn hash_with(change: impl FnOnce(&mut Ec2NodeClassSpec)) -> String {
    let mut class = base();
    change(&mut class.spec);
    class.hash(CA_BUNDLE)
}

fn tracking(change: impl FnOnce(&mut ConnectionTracking)) -> ConnectionTracking {
    let mut tracking = ConnectionTracking::default();
    change(&mut tracking);
    tracking
}

#[test]
fn matches_the_vectors_of_the_reference() {
    type Change = fn(&mut Ec2NodeClassSpec);
    let cases: [(&str, Change, &str); 13] = [
        ("base", |_| (), "2608468723537941485"),
        ("user data", |s| s.user_data = Some("userdata-test-2".into()), "2153344579995979450"),
        (
            "one tag more",
            |s| {
                s.tags.as_mut().unwrap().insert("keyTag-test-3".into(), "valueTag-test-3".into());
            },
            "4608386791045313156",
        ),
        ("context", |s| s.context = Some("context-2".into()), "11612053647989098410"),
        ("monitoring", |s| s.detailed_monitoring = Some(true), "11845605438531206428"),
        ("raid", |s| s.instance_store_policy = Some(InstanceStorePolicy::RAID0), "6430637013089544585"),
        ("public address", |s| s.associate_public_ip_address = Some(true), "6811176403923819181"),
        (
            "tcp timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.tcp_established_timeout = Some(300))),
            "12177489405137904098",
        ),
        (
            "udp stream timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.udp_stream_timeout = Some(120))),
            "17567831983996427",
        ),
        (
            "udp timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.udp_timeout = Some(45))),
            "5078825826133662844",
        ),
        (
            "nested virtualization",
            |s| s.cpu_options = Some(CpuOptions { nested_virtualization: Some(Toggle::Enabled) }),
            "17001101224536964682",
        ),
        (
            "volume size",
            |s| {
                let mapping = &mut s.block_device_mappings.as_mut().unwrap()[0];
                mapping.ebs.as_mut().unwrap().volume_size = Some("10G".into());
            },
            "3564293065344858862",
        ),
        (
            "profile instead of role",
            |s| {
                s.role = None;
                s.instance_profile = Some("test-instance-profile".into());
            },
            "3585768058063247698",
        ),
    ];
    for (name, change, hash) in cases {
        assert_eq!(hash_with(change), hash, "case {name}");
    }
}

#[test]
fn what_drifts_by_its_result_or_not_at_all_does_not_count() {
    type Change = fn(&mut Ec2NodeClassSpec);
    let base = base().hash(CA_BUNDLE);
    let cases: [(&str, Change); 4] = [
        ("order of devices", |s| s.block_device_mappings.as_mut().unwrap().reverse()),
        ("subnets", |s| {
            s.subnet_selector_terms = vec![SubnetSelectorTerm { id: Some("subnet-1".into()), tags: None }];
        }),
        ("images", |s| {
            s.ami_selector_terms =
                vec![AmiSelectorTerm { alias: Some("al2023@latest".into()), ..Default::default() }];
        }),
        ("prefixes", |s| s.ip_prefix_count = Some(2)),
    ];
    for (name, change) in cases {
        assert_eq!(hash_with(change), base, "{name}");
    }
}

#[test]
fn present_but_zero_counts() {
    type Change = fn(&mut Ec2NodeClassSpec);
    let base = base().hash(CA_BUNDLE);
    let cases: [(&str, Change); 3] = [
        ("no tags field", |s| s.tags = None),
        ("monitoring unset", |s| s.detailed_monitoring = None),
        ("empty interfaces", |s| s.network_interfaces = Some(Vec::new())),
    ];
    for (name, change) in cases {
        assert_ne!(hash_with(change), base, "{name}");
    }
    assert_ne!(hash_with(|s| s.tags = None), hash_with(|s| s.tags = Some([].into())));
}

#[test]
fn ca_bundle_and_resolved_family_count() {
    assert_ne!(base().hash(""), base().hash(CA_BUNDLE));
    let by_alias = hash_with(|s| {
        s.ami_family = None;
        s.ami_selector_terms =
            vec![AmiSelectorTerm { alias: Some("al2@latest".into()), ..Default::default() }];
    });
    assert_eq!(by_alias, hash_with(|s| s.ami_family = Some(AmiFamily::AL2)));
}

#[test]
fn sizes_are_hashed_in_canonical_form() {
    let cases = [
        ("2G", "2G"),
        ("20Gi", "20Gi"),
        ("1000G", "1T"),
        ("64000G", "64T"),
        ("1024Gi", "1Ti"),
        ("1000Gi", "1000Gi"),
        ("58Ti", "58Ti"),
        ("Ti", "Ti"),
        ("1.5Gi", "1536Mi"),
    ];
    for (written, canonical) in cases {
        assert_eq!(canonical_size(written), canonical, "`{written}`");
    }
}
