//! Verdicts on a `NodeClass` from the refusals of AWS.

use super::*;

fn class(profile: Option<&str>) -> EC2NodeClass {
    let mut class = EC2NodeClass::new("default", Default::default());
    class.spec.instance_profile = profile.map(str::to_owned);
    class
}

/// aws#8312, aws#8072: the condition names the field, the value, AWS's code and what to do.
#[test]
fn what_ec2_refuses_is_said_of_the_field_it_is_about() {
    let networks = "Security group sg-1 and subnet subnet-1 belong to different networks.";
    for (code, text, reason, parts) in [
        ("InvalidAMIID.NotFound", "no ami-1", "AMINotFound", ["spec.amiSelectorTerms", "ami-1"]),
        ("InvalidSubnetID.NotFound", "no subnet-1", "LaunchFailed", ["spec.subnetSelectorTerms", "subnet-1"]),
        ("InvalidSnapshot.NotFound", "no snap-1", "LaunchFailed", ["spec.blockDeviceMappings", "snap-1"]),
        (
            "InvalidParameterCombination",
            "The parameter iops is not supported for gp2 volumes.",
            "LaunchFailed",
            ["spec.blockDeviceMappings", "gp2"],
        ),
        (
            "InvalidParameterValue",
            "Tag keys starting with 'aws:' are reserved for internal use",
            "LaunchFailed",
            ["spec.tags", "aws:"],
        ),
        ("TagLimitExceeded", "More than 50 tags", "LaunchFailed", ["spec.tags", "50"]),
        (
            "InvalidParameter",
            networks,
            "SecurityGroupSubnetVPCMismatch",
            ["spec.securityGroupSelectorTerms", "choose from one VPC"],
        ),
    ] {
        let error = Error::answered("RunInstances", "m5.large", code, text);
        let outcome = refused(&class(None), error, "unused", "ec2:RunInstances").expect("a verdict");
        let DryRunOutcome::Refused { reason: said, message } = outcome else { panic!("{outcome:?}") };
        assert_eq!(said, reason, "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.contains(&format!("ec2:RunInstances: {code}: {text}; ")), "{message}");
    }
}

/// aws#9390: text and reason of the reference, with help where it is not a name at all.
#[test]
fn a_profile_that_ec2_does_not_know_is_named() {
    let text =
        "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    for (theirs, wanted) in [
        ("nodes", "Instance profile \"nodes\" not found"),
        (
            "arn:aws:iam::1:instance-profile/nodes",
            "Instance profile \"arn:aws:iam::1:instance-profile/nodes\" not found; write the name alone, without ARN \
             and path",
        ),
    ] {
        let error = Error::answered("RunInstances", "m5.large", "InvalidParameterValue", text);
        let outcome = refused(&class(Some(theirs)), error, "unused", "ec2:RunInstances").expect("a verdict");
        let (reason, message) = ("InstanceProfileNotFound", wanted.to_owned());
        assert_eq!(outcome, DryRunOutcome::Refused { reason, message });
    }
}

#[test]
fn what_says_nothing_about_the_class_is_no_verdict() {
    let profile =
        "Value (demo_1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    for (code, text) in [
        ("InvalidParameterValue", profile),
        ("RequestLimitExceeded", "slow down"),
        ("InternalError", "try again"),
        ("InsufficientInstanceCapacity", "none left"),
    ] {
        let error = Error::answered("RunInstances", "m5.large", code, text);
        assert!(refused(&class(None), error, "unused", "ec2:RunInstances").is_err(), "{code}");
    }
}

/// aws PR#5666: each launch would fail.
#[test]
fn a_public_address_and_several_interfaces_exclude_each_other() {
    use karpenter_api::ec2nodeclass::{InterfaceType, NetworkInterface};

    let nic = |card| NetworkInterface {
        network_card_index: card,
        device_index: 0,
        interface_type: InterfaceType::Interface,
    };
    for (public, interfaces, refused) in [
        (Some(true), Some(vec![nic(0), nic(1)]), true),
        (Some(true), Some(vec![nic(0)]), false),
        (Some(false), Some(vec![nic(0), nic(1)]), false),
        (None, Some(vec![nic(0), nic(1)]), false),
        (Some(true), None, false),
    ] {
        let mut class = class(None);
        class.spec.associate_public_ip_address = public;
        class.spec.network_interfaces = interfaces;
        assert_eq!(contradiction(&class).is_some(), refused, "{:?}", class.spec);
    }
}

#[test]
fn adapters_that_public_addresses_exclude_are_said_of_the_class() {
    use karpenter_aws_api::ec2::NetworkCard;

    let of = |name: &str, cards: u32| {
        let card = |index| NetworkCard { index, maximum_network_interfaces: 8, baseline_mbps: None };
        InstanceTypeInfo {
            network_cards: (0..cards).map(card).collect(),
            maximum_efa_interfaces: cards,
            ..crate::testing::machine(name, 192, 2_048, 8, 50)
        }
    };
    let types = [of("m5.large", 0), of("c5n.18xlarge", 1), of("p5.48xlarge", 32)];
    for (public, types, named) in [
        (Some(true), &types[..], true),
        (Some(true), &types[..2], false),
        (Some(false), &types[..], false),
        (None, &types[..], false),
    ] {
        let mut class = class(None);
        class.spec.associate_public_ip_address = public;
        let said = adapters_without(&class, types.iter());
        assert_eq!(
            said.is_some_and(|text| text.contains("`p5.48xlarge`")),
            named,
            "{public:?} {}",
            types.len()
        );
    }
}
