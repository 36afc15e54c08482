//! What drifts a node, and above all what does not.

use karpenter_api::ec2nodeclass::{Ami, SecurityGroup};
use karpenter_api::{Operator, Requirement as ApiRequirement, ec2nodeclass::AmiFamily, labels};
use karpenter_model::{Requirement, Requirements, Resources};

use super::*;
use crate::registry::label_registry;
use crate::testing::class;

fn hashes(version: Option<&str>, hash: Option<&str>) -> BTreeMap<String, String> {
    [(EC2_NODE_CLASS_HASH_VERSION, version), (EC2_NODE_CLASS_HASH, hash)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect()
}

#[test]
fn static_drift_needs_both_hashes_of_one_version() {
    let ours = hashes(Some("v5"), Some("1"));
    for (theirs, drifted) in [
        (hashes(Some("v5"), Some("1")), false),
        (hashes(Some("v5"), Some("2")), true),
        (hashes(Some("v4"), Some("2")), false),
        (hashes(None, Some("2")), false),
        (hashes(Some("v5"), None), false),
    ] {
        assert_eq!(static_fields(&ours, Some(&theirs)), drifted, "{theirs:?}");
        assert_eq!(static_fields(&theirs, Some(&ours)), drifted, "{theirs:?}");
    }
    assert!(!static_fields(&ours, None));
}

fn claim(image: Option<&str>) -> Claim {
    Claim {
        name: "web-1".into(),
        uid: "uid".into(),
        pool: Some("web".into()),
        node_class: Default::default(),
        labels: Default::default(),
        annotations: Default::default(),
        requirements: Requirements::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requests: Resources::new(),
        expire_after: None,
        termination_grace_period: None,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        deletion: None,
        finalizers: Vec::new(),
        provider_id: None,
        node_name: None,
        image_id: image.map(Into::into),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        conditions: Default::default(),
        last_pod_event: None,
    }
}

fn of_arch(arch: &str) -> InstanceType {
    InstanceType {
        name: "m5.large".into(),
        requirements: [Requirement::one_of(labels::ARCH.into(), [arch.into()])].into_iter().collect(),
        capacity: Resources::new(),
        overhead: Default::default(),
        offerings: Vec::new(),
    }
}

#[test]
fn only_another_image_for_the_same_type_is_ami_drift() {
    let ami = |id: &str, arch: &str| Ami {
        id: id.to_owned(),
        requirements: vec![ApiRequirement::new(labels::ARCH, Operator::In, [arch])],
        ..Default::default()
    };
    let mut class = class(AmiFamily::AL2023);
    class.status.as_mut().unwrap().amis =
        vec![ami("ami-arm", "arm64"), ami("ami-new", "amd64"), ami("ami-old", "amd64")];
    let registry = label_registry();
    let (amd, arm, mainframe) = (of_arch("amd64"), of_arch("arm64"), of_arch("s390x"));
    let drift = |image: Option<&str>, of_type: Option<&InstanceType>| {
        of_claim(&claim(image), &class, of_type, &registry)
    };
    assert_eq!(drift(Some("ami-new"), Some(&amd)), Ok(None));
    assert_eq!(drift(Some("ami-old"), Some(&amd)), Ok(Some(AMI)), "the first image of the status counts");
    assert_eq!(drift(Some("ami-arm"), Some(&arm)), Ok(None));
    assert!(drift(None, Some(&amd)).is_err(), "the claim's image is not known");
    assert!(drift(Some("ami-old"), None).is_err(), "the type is not known");
    assert!(drift(Some("ami-old"), Some(&mainframe)).is_err(), "no image is for the type");
    class.status.as_mut().unwrap().amis.clear();
    assert!(of_claim(&claim(Some("ami-old")), &class, Some(&amd), &registry).is_err(), "nothing is resolved");
}

#[test]
fn groups_are_compared_as_sets_and_empty_sides_say_nothing() {
    let mut class = class(AmiFamily::AL2023);
    let group = |id: &str| SecurityGroup { id: id.to_owned(), name: None };
    let mut drift = |wanted: &[&str], actual: &[&str], subnet: Option<&str>| {
        class.status.as_mut().unwrap().security_groups = wanted.iter().map(|id| group(id)).collect();
        of_instance(&instance(actual, subnet), &class)
    };
    let here = Some("subnet-a");
    assert_eq!(drift(&["sg-1", "sg-2"], &["sg-2", "sg-1"], here), Ok(None));
    assert_eq!(drift(&["sg-1"], &["sg-1", "sg-2"], here), Ok(Some(SECURITY_GROUP)));
    assert_eq!(drift(&["sg-1", "sg-2"], &["sg-1"], here), Ok(Some(SECURITY_GROUP)));
    assert!(drift(&[], &["sg-1"], here).is_err());
    assert!(drift(&["sg-1"], &[], here).is_err());
    assert_eq!(drift(&["sg-1"], &["sg-1"], Some("subnet-z")), Ok(Some(SUBNET)));
    assert!(drift(&["sg-1"], &["sg-1"], None).is_err());
    class.status.as_mut().unwrap().subnets.clear();
    assert!(of_instance(&instance(&["sg-1"], Some("subnet-z")), &class).is_err());
}

fn instance(groups: &[&str], subnet: Option<&str>) -> Instance {
    Instance {
        id: "i-1".into(),
        instance_type: "m5.large".into(),
        image: "ami-1".into(),
        state: karpenter_aws_client::ec2::InstanceState::Running,
        zone: "a".into(),
        zone_id: None,
        tenancy: Default::default(),
        placement_group: None,
        partition: None,
        lifecycle: None,
        spot_request: None,
        reservation: None,
        reservation_preference: None,
        launched_at: jiff::Timestamp::UNIX_EPOCH,
        subnet: subnet.map(Into::into),
        vpc: None,
        security_groups: groups.iter().map(|id| (*id).into()).collect(),
        interfaces: Vec::new(),
        private_dns: None,
        private_ip: None,
        instance_profile: None,
        tags: Default::default(),
    }
}
