//! Changes that drift a node, and above all those that do not.

use karpenter_api::ec2nodeclass::{Ami, SecurityGroup};
use karpenter_api::{Operator, Requirement as ApiRequirement, ec2nodeclass::AmiFamily};
use karpenter_model::names::label;
use karpenter_model::{Requirement, Resources};

use super::*;
use crate::registry::label_registry;
use crate::testing::{claim, class};

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

fn of_arch(arch: &str) -> InstanceType {
    InstanceType {
        name: "m5.large".into(),
        requirements: [Requirement::one_of(label::ARCH.into(), [arch.into()])].into_iter().collect(),
        capacity: Resources::new(),
        overhead: Default::default(),
        offerings: Vec::new(),
        overlaid: Default::default(),
        devices: None,
    }
}

#[test]
fn only_another_image_for_the_same_type_is_ami_drift() {
    let ami = |id: &str, arch: &str| Ami {
        id: id.to_owned(),
        requirements: vec![ApiRequirement::new(label::ARCH, Operator::In, [arch])],
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
    assert!(
        drift(Some("ami-old"), Some(&mainframe)).is_err(),
        "no image is for the type, and nothing is resolved"
    );
    class.status.as_mut().unwrap().amis.clear();
    assert!(of_claim(&claim(Some("ami-old")), &class, Some(&amd), &registry).is_err(), "nothing is resolved");
}

#[test]
fn an_image_that_people_no_longer_select_is_drift_although_no_other_is_for_the_type() {
    let ready = |generation: i64| -> karpenter_api::Condition {
        serde_json::from_value(serde_json::json!({
            "type": condition::aws::AMIS_READY, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": generation,
        }))
        .unwrap()
    };
    let drift = |terms: &[(&str, &str)], generation: i64| {
        let mut class = class(AmiFamily::AL2023);
        class.metadata.generation = Some(2);
        class.spec.ami_selector_terms = terms
            .iter()
            .map(|(key, value)| serde_json::from_value(serde_json::json!({*key: value})).unwrap())
            .collect();
        let status = class.status.as_mut().unwrap();
        status.amis = vec![Ami {
            id: "ami-amd".to_owned(),
            requirements: vec![ApiRequirement::new(label::ARCH, Operator::In, ["amd64"])],
            ..Default::default()
        }];
        status.conditions = vec![ready(generation)];
        of_claim(&claim(Some("ami-arm")), &class, Some(&of_arch("arm64")), &label_registry()).ok()
    };
    assert_eq!(drift(&[("id", "ami-amd")], 2), Some(Some(AMI)));
    assert_eq!(drift(&[("name", "mine-*")], 2), Some(Some(AMI)));
    assert_eq!(drift(&[("id", "ami-amd")], 1), None, "the status is about the spec before");
    assert_eq!(
        drift(&[("id", "ami-amd"), ("id", "ami-arm")], 2),
        None,
        "EC2 does not describe it at the moment"
    );
    assert_eq!(drift(&[("alias", "al2023@latest")], 2), None, "AWS may not have published it yet");
}

#[test]
fn groups_are_compared_as_sets_and_empty_sides_say_nothing() {
    let mut class = class(AmiFamily::AL2023);
    let group = |id: &str| SecurityGroup { id: id.to_owned(), name: None };
    let mut drift = |wanted: &[&str], actual: &[&str], subnet: Option<&str>| {
        class.status.as_mut().unwrap().security_groups = wanted.iter().map(|id| group(id)).collect();
        of_network(&instance(actual, subnet), &class)
    };
    let here = Some("subnet-a");
    assert_eq!(drift(&["sg-1", "sg-2"], &["sg-2", "sg-1"], here), Ok(Network::Same));
    assert_eq!(drift(&["sg-1"], &["sg-1", "sg-2"], here), Ok(Network::OtherGroups(vec!["sg-2".into()])));
    assert_eq!(drift(&["sg-1", "sg-2"], &["sg-1"], here), Ok(Network::LacksGroups));
    assert_eq!(drift(&["sg-1", "sg-2"], &["sg-1", "sg-3"], here), Ok(Network::LacksGroups));
    assert!(drift(&[], &["sg-1"], here).is_err());
    assert!(drift(&["sg-1"], &[], here).is_err());
    assert_eq!(drift(&["sg-1"], &["sg-1"], Some("subnet-z")), Ok(Network::OtherSubnet("subnet-z".into())));
    assert!(drift(&["sg-1"], &["sg-1"], None).is_err());
    class.status.as_mut().unwrap().subnets.clear();
    assert!(of_network(&instance(&["sg-1"], Some("subnet-z")), &class).is_err());
}

fn instance(groups: &[&str], subnet: Option<&str>) -> Instance {
    Instance {
        id: "i-1".into(),
        instance_type: "m5.large".into(),
        image: "ami-1".into(),
        state: karpenter_aws_api::ec2::InstanceState::Running,
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

#[test]
fn a_reservation_that_is_not_selected_is_drift_only_for_those_in_it_and_once_resolved() {
    use karpenter_api::Condition;
    use karpenter_api::ec2nodeclass::CapacityReservation;
    use karpenter_aws_api::ec2::CapacityReservationPreference as Preference;
    let mut class = class(AmiFamily::AL2023);
    let selected: CapacityReservation = serde_json::from_value(serde_json::json!({
        "availabilityZone": "a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012",
    }))
    .unwrap();
    class.status.as_mut().unwrap().capacity_reservations = vec![selected];
    let in_it = |id: Option<&str>, preference: Option<Preference>| Instance {
        reservation: id.map(Into::into),
        reservation_preference: preference,
        ..instance(&["sg-1"], Some("subnet-a"))
    };
    let only = Some(Preference::CapacityReservationsOnly);
    assert!(outside_reservations(&in_it(Some("cr-2"), only), &class, true).is_err(), "not resolved yet");
    let ready: Condition = serde_json::from_value(serde_json::json!({
        "type": condition::aws::CAPACITY_RESERVATIONS_READY, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    class.status.as_mut().unwrap().conditions = vec![ready];
    for (instance, gate, outside) in [
        (in_it(Some("cr-1"), only), true, false),
        (in_it(Some("cr-2"), only), true, true),
        (in_it(Some("cr-2"), only), false, false),
        (in_it(Some("cr-2"), Some(Preference::Open)), true, false),
        (in_it(None, only), true, false),
    ] {
        assert_eq!(
            outside_reservations(&instance, &class, gate),
            Ok(outside),
            "{:?} {:?}",
            instance.reservation,
            instance.reservation_preference
        );
    }
}

#[test]
fn another_placement_group_is_drift_whichever_side_has_one() {
    use karpenter_aws_api::ec2::PlacementStrategy::Cluster;
    let group = Group { id: "pg-1".into(), strategy: Cluster, partitions: 0 };
    for (label, wanted, drifted) in [
        (None, None, false),
        (Some("pg-1"), Some(&group), false),
        (Some("pg-2"), Some(&group), true),
        (None, Some(&group), true),
        (Some("pg-1"), None, true),
    ] {
        let mut claim = claim(None);
        claim.labels.extend(label.map(|id| (aws::PLACEMENT_GROUP_ID.into(), id.into())));
        assert_eq!(of_placement(&claim, wanted), drifted.then_some(PLACEMENT_GROUP), "{label:?} {wanted:?}");
    }
}
