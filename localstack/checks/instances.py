"""Instances after their launch, and the resources around them."""

from .kit import CLUSTER, client, code_of, control, describe, fleet, fresh, ids, template, wait_for


def test_states_take_their_time_when_told_to() -> None:
    account = fresh()
    template(account)
    control("POST", "settings", {"pending_seconds": 0.3, "shutting_down_seconds": 0.3})
    identifier = ids(fleet(account, ["m5.large"]))[0]
    state = lambda: describe(identifier)[0]["State"]["Name"]  # noqa: E731
    assert state() == "pending"
    wait_for(lambda: state() == "running")
    client("ec2").terminate_instances(InstanceIds=[identifier])
    assert state() == "shutting-down"
    wait_for(lambda: state() == "terminated")


def test_terminate_can_be_repeated_and_names_what_is_missing() -> None:
    account = fresh()
    template(account)
    identifier = ids(fleet(account, ["m5.large"]))[0]
    ec2 = client("ec2")
    assert (
        ec2.terminate_instances(InstanceIds=[identifier])["TerminatingInstances"][0]["CurrentState"]["Name"]
        == "shutting-down"
    )
    assert (
        ec2.terminate_instances(InstanceIds=[identifier])["TerminatingInstances"][0]["CurrentState"]["Name"]
        == "terminated"
    )
    assert code_of(ec2.terminate_instances, InstanceIds=["i-00000000000000000"]) == "InvalidInstanceID.NotFound"
    control("POST", "settings", {"terminated_seconds": 0})
    other = ids(fleet(account, ["m5.large"]))[0]
    ec2.terminate_instances(InstanceIds=[other])
    assert code_of(ec2.describe_instances, InstanceIds=[other]) == "InvalidInstanceID.NotFound"


def test_an_address_comes_again_only_after_all_others_of_its_subnet() -> None:
    account = fresh()
    ec2 = client("ec2")
    small = ec2.create_subnet(VpcId=account["vpc"], CidrBlock="10.0.250.0/28", AvailabilityZone=account["zones"][0])
    account = {**account, "private_subnets": [small["Subnet"]["SubnetId"]]}
    template(account)

    def launched() -> tuple[str, str]:
        identifier = ids(fleet(account, ["m5.large"]))[0]
        return identifier, describe(identifier)[0]["PrivateIpAddress"]

    stays, taken = launched()
    seen = []
    for _ in range(11):
        identifier, address = launched()
        ec2.terminate_instances(InstanceIds=[identifier])
        seen.append(address)
    # A /28 has sixteen addresses less EC2's five; one of the eleven is taken throughout.
    assert len(set(seen[:10])) == 10 and taken not in seen, (taken, seen)
    assert seen[10] == seen[0], seen
    assert describe(stays)[0]["State"]["Name"] == "running"


def test_status_checks_fail_on_demand_and_filters_work() -> None:
    account = fresh()
    template(account)
    sick, scheduled, _well = ids(fleet(account, ["m5.large"], count=3))
    control("POST", "impair", {"instance": sick, "checks": ["system"], "since": "2026-01-01T00:00:00.000Z"})
    control("POST", "impair", {"instance": scheduled, "events": ["instance-retirement"]})
    found = lambda name, value: [  # noqa: E731
        row["InstanceId"]
        for row in client("ec2").describe_instance_status(Filters=[{"Name": name, "Values": [value]}])[
            "InstanceStatuses"
        ]
    ]
    assert found("system-status.status", "impaired") == [sick]
    assert found("event.code", "instance-retirement") == [scheduled]
    assert found("instance-status.status", "impaired") == []
    assert len(found("instance-status.status", "ok")) == 3


def test_only_existing_resources_can_be_tagged() -> None:
    account = fresh()
    ec2 = client("ec2")
    for resource, code in {
        "i-00000000000000000": "InvalidInstanceID.NotFound",
        "subnet-00000000000000000": "InvalidSubnetID.NotFound",
        "sg-00000000000000000": "InvalidGroup.NotFound",
    }.items():
        assert code_of(ec2.create_tags, Resources=[resource], Tags=[{"Key": "a", "Value": "b"}]) == code
    ec2.create_tags(Resources=account["private_subnets"], Tags=[{"Key": "karpenter.sh/discovery", "Value": CLUSTER}])
    found = ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}])["Subnets"]
    assert {row["SubnetId"] for row in found} == set(account["private_subnets"])


def test_launch_templates_are_paged_checked_and_missed() -> None:
    account = fresh()
    for number in range(3):
        template(account, f"t/{number}")
    ec2 = client("ec2")
    pages = list(ec2.get_paginator("describe_launch_templates").paginate(PaginationConfig={"PageSize": 2}))
    assert [len(page["LaunchTemplates"]) for page in pages] == [2, 1]
    assert (
        code_of(ec2.delete_launch_template, LaunchTemplateName="gone") == "InvalidLaunchTemplateName.NotFoundException"
    )
    code = code_of(ec2.create_launch_template, LaunchTemplateName="a b", LaunchTemplateData={"ImageId": "ami-1"})
    assert code == "InvalidLaunchTemplateName.MalformedException"
    found = ec2.describe_launch_templates(Filters=[{"Name": "tag:eks:eks-cluster-name", "Values": [CLUSTER]}])
    assert len(found["LaunchTemplates"]) == 3
