//! What the refusals of AWS say of a `NodeClass`.

use super::*;

fn class(profile: Option<&str>) -> EC2NodeClass {
    let mut class = EC2NodeClass::new("default", Default::default());
    class.spec.instance_profile = profile.map(str::to_owned);
    class
}

/// aws#8312, aws#8072: the condition names the field, the value, AWS's code and what to do.
#[test]
fn what_ec2_refuses_is_said_of_the_field_it_is_about() {
    let profile =
        "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    let networks = "Security group sg-1 and subnet subnet-1 belong to different networks.";
    for (theirs, code, text, reason, parts) in [
        (
            Some("arn:aws:iam::1:instance-profile/nodes"),
            "InvalidParameterValue",
            profile,
            "InstanceProfileNameInvalid",
            ["spec.instanceProfile `arn:aws:iam::1:instance-profile/nodes`", "without ARN"],
        ),
        (
            Some("nodes"),
            "InvalidParameterValue",
            profile,
            "InstanceProfileNameInvalid",
            ["spec.instanceProfile `nodes`", "create the instance profile"],
        ),
        (None, "InvalidAMIID.NotFound", "no ami-1", "AMINotFound", ["spec.amiSelectorTerms", "ami-1"]),
        (
            None,
            "InvalidSubnetID.NotFound",
            "no subnet-1",
            "LaunchFailed",
            ["spec.subnetSelectorTerms", "subnet-1"],
        ),
        (
            None,
            "InvalidSnapshot.NotFound",
            "no snap-1",
            "LaunchFailed",
            ["spec.blockDeviceMappings", "snap-1"],
        ),
        (
            None,
            "InvalidParameter",
            networks,
            "SecurityGroupSubnetVPCMismatch",
            ["spec.securityGroupSelectorTerms", "choose from one VPC"],
        ),
    ] {
        let error = Error::answered("RunInstances", "m5.large", code, text);
        let outcome = refused(&class(theirs), error, "unused", "ec2:RunInstances").expect("a verdict");
        let DryRunOutcome::Refused { reason: said, message } = outcome else { panic!("{outcome:?}") };
        assert_eq!(said, reason, "{message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.contains(&format!("ec2:RunInstances: {code}: {text}; ")), "{message}");
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
