//! The vectors of spec aws-provider 1.8 and what must not count.

use super::super::{
    AmiFamily, AmiSelectorTerm, EnclaveOptions, InstanceStorePolicy, SubnetSelectorTerm, Toggle, TokenState,
    VolumeType,
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

/// The first is the reference's own of this version. The others are its vectors of `v5`, in which the class has no kubelet
/// block either: the text `null` is all that this version adds to them.
#[test]
fn matches_the_vectors_of_the_reference() {
    type Change = fn(&mut Ec2NodeClassSpec);
    let cases: [(&str, Change, &str); 13] = [
        ("base", |_| (), "11148166120438674859"),
        ("user data", |s| s.user_data = Some("userdata-test-2".into()), "11774429238106843388"),
        (
            "one tag more",
            |s| {
                s.tags.as_mut().unwrap().insert("keyTag-test-3".into(), "valueTag-test-3".into());
            },
            "9327338697296909506",
        ),
        ("context", |s| s.context = Some("context-2".into()), "2279761750428738028"),
        ("monitoring", |s| s.detailed_monitoring = Some(true), "1936848126751988570"),
        ("raid", |s| s.instance_store_policy = Some(InstanceStorePolicy::RAID0), "16697988646989909967"),
        ("public address", |s| s.associate_public_ip_address = Some(true), "16141801171825097963"),
        (
            "tcp timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.tcp_established_timeout = Some(300))),
            "1619669030802245540",
        ),
        (
            "udp stream timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.udp_stream_timeout = Some(120))),
            "13743705849402595405",
        ),
        (
            "udp timeout",
            |s| s.connection_tracking = Some(tracking(|t| t.udp_timeout = Some(45))),
            "17941926745862994490",
        ),
        (
            "nested virtualization",
            |s| s.cpu_options = Some(CpuOptions { nested_virtualization: Some(Toggle::Enabled) }),
            "6157846767212910604",
        ),
        (
            "volume size",
            |s| {
                let mapping = &mut s.block_device_mappings.as_mut().unwrap()[0];
                mapping.ebs.as_mut().unwrap().volume_size = Some("10G".into());
            },
            "10372902467896351912",
        ),
        (
            "profile instead of role",
            |s| {
                s.role = None;
                s.instance_profile = Some("test-instance-profile".into());
            },
            "10323991363677716244",
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
fn kubelet_settings_count_as_sorted_json_and_an_empty_block_as_none() {
    let block = |json: &str| hash_with(|s| s.kubelet = Some(serde_json::from_str(json).unwrap()));
    let base = base().hash(CA_BUNDLE);
    assert_eq!(block("{}"), base);
    let one = block(r#"{"maxPods": 20, "kubeReserved": {"memory": "1Gi", "cpu": "1"}}"#);
    assert_eq!(one, block(r#"{"kubeReserved": {"cpu": "1", "memory": "1Gi"}, "maxPods": 20}"#));
    let without: u64 = base.parse::<u64>().unwrap() ^ text("null");
    let written = r#"{"kubeReserved":{"cpu":"1","memory":"1Gi"},"maxPods":20}"#;
    assert_eq!(one, (without ^ text(written)).to_string());
    assert_ne!(block(r#"{"maxPods": 21}"#), block(r#"{"maxPods": 20}"#));
    assert_ne!(block(r#"{"systemReserved": {}}"#), base, "a map that is empty is written");
}

#[test]
fn enclaves_count_where_they_are_on() {
    let base = base().hash(CA_BUNDLE);
    let enclaves = |enabled| hash_with(|s| s.enclave_options = Some(EnclaveOptions { enabled }));
    assert_ne!(enclaves(true), base);
    assert_eq!(enclaves(false), base);
}

#[test]
fn json_is_written_as_go_writes_it() {
    let value = serde_json::json!({"b": [1, true, null, "<&>"], "a": {"z": 1.5, "y": "\u{2028}\"\n\u{1}"}});
    let want = r#"{"a":{"y":"\u2028\"\n\u0001","z":1.5},"b":[1,true,null,"\u003c\u0026\u003e"]}"#;
    assert_eq!(canonical(&value), want);
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
