"""Instances after their launch, and the resources around them."""

from typing import Any

from .kit import (
    CLUSTER,
    client,
    code_of,
    control,
    describe,
    error_of,
    fleet,
    fresh,
    heard,
    ids,
    image,
    listen,
    tags,
    template,
    wait_for,
)
from .reserved import reservation, reserve, targeting


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


def test_a_reboot_changes_nothing_and_only_what_runs_is_rebooted() -> None:
    account = fresh()
    template(account)
    identifier = ids(fleet(account, ["m5.large"]))[0]
    ec2 = client("ec2")
    before = describe(identifier)[0]
    ec2.reboot_instances(InstanceIds=[identifier])
    after = describe(identifier)[0]
    assert (after["State"]["Name"], after["LaunchTime"]) == ("running", before["LaunchTime"])
    assert control("GET", "reboots") == {"reboots": {identifier: 1}}
    assert code_of(ec2.reboot_instances, InstanceIds=["i-00000000000000000"]) == "InvalidInstanceID.NotFound"
    ec2.terminate_instances(InstanceIds=[identifier])
    assert code_of(ec2.reboot_instances, InstanceIds=[identifier]) == "IncorrectState"
    assert _state(identifier) == "terminated"


def _state(identifier: str) -> str:
    name: str = describe(identifier)[0]["State"]["Name"]
    return name


def _changes(rows: list[Any]) -> list[tuple[str, str]]:
    return [(row["PreviousState"]["Name"], row["CurrentState"]["Name"]) for row in rows]


def test_an_instance_is_stopped_in_time_and_every_state_is_published() -> None:
    account = fresh()
    template(account)
    queue = listen()
    control("POST", "settings", {"stopping_seconds": 0.3, "pending_seconds": 0.3, "shutting_down_seconds": 0.3})
    identifier = ids(fleet(account, ["m5.large"]))[0]
    wait_for(lambda: _state(identifier) == "running")
    ec2, before = client("ec2"), describe(identifier)[0]
    assert _changes(ec2.stop_instances(InstanceIds=[identifier])["StoppingInstances"]) == [("running", "stopping")]
    assert _state(identifier) == "stopping"
    assert _changes(ec2.stop_instances(InstanceIds=[identifier])["StoppingInstances"]) == [("stopping", "stopping")]
    wait_for(lambda: _state(identifier) == "stopped")
    stopped = describe(identifier)[0]
    for field in ("PrivateIpAddress", "PrivateDnsName", "Tags", "SubnetId", "BlockDeviceMappings"):
        assert stopped[field] == before[field], field
    assert tags(identifier)["karpenter.sh/nodepool"] == "default"
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert _changes(ec2.stop_instances(InstanceIds=[identifier])["StoppingInstances"]) == [("stopped", "stopped")]
    assert _changes(ec2.start_instances(InstanceIds=[identifier])["StartingInstances"]) == [("stopped", "pending")]
    wait_for(lambda: _state(identifier) == "running")
    again = describe(identifier)[0]
    assert again["PrivateIpAddress"] == before["PrivateIpAddress"] and again["LaunchTime"] >= before["LaunchTime"]
    assert _changes(ec2.start_instances(InstanceIds=[identifier])["StartingInstances"]) == [("running", "running")]
    ec2.stop_instances(InstanceIds=[identifier])
    # Terminated on the way to `stopped`, it never gets there.
    ec2.terminate_instances(InstanceIds=[identifier])
    wait_for(lambda: _state(identifier) == "terminated")
    assert [event["detail"]["state"] for event in heard(queue, 9)] == [
        *("pending", "running", "stopping", "stopped", "pending", "running", "stopping", "shutting-down", "terminated")
    ]


def test_ec2_refuses_to_stop_or_start_what_it_cannot() -> None:
    account = fresh()
    template(account)
    ec2 = client("ec2")
    well, ended = ids(fleet(account, ["m5.large"], count=2))
    spot = ids(fleet(account, ["m5.large"], spot=True))[0]
    error = error_of(ec2.stop_instances, InstanceIds=[well, spot]).response["Error"]
    assert error["Code"] == "UnsupportedOperation" and f"the Spot Instance '{spot}'" in error["Message"], error
    assert _state(well) == "running"
    ec2.terminate_instances(InstanceIds=[ended])
    for call in (ec2.stop_instances, ec2.start_instances):
        assert code_of(call, InstanceIds=[ended]) == "IncorrectInstanceState"
        assert code_of(call, InstanceIds=["i-00000000000000000"]) == "InvalidInstanceID.NotFound"
        assert code_of(call, InstanceIds=[well], DryRun=True) == "DryRunOperation"
    control("POST", "settings", {"stopping_seconds": 60})
    ec2.stop_instances(InstanceIds=[well])
    assert code_of(ec2.start_instances, InstanceIds=[well]) == "IncorrectInstanceState"


def test_only_a_persistent_spot_instance_can_be_stopped() -> None:
    fresh()
    ec2 = client("ec2")
    for kind, expected in (("one-time", "running"), ("persistent", "stopped")):
        market = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": kind}}
        arguments = {"ImageId": image(), "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1}
        made = ec2.run_instances(**arguments, InstanceMarketOptions=market)["Instances"][0]["InstanceId"]
        if kind == "one-time":
            assert code_of(ec2.stop_instances, InstanceIds=[made]) == "UnsupportedOperation"
        else:
            ec2.stop_instances(InstanceIds=[made])
        assert _state(made) == expected


def test_a_stopped_instance_starts_only_where_there_is_capacity() -> None:
    account = fresh()
    template(account)
    ec2, instance = client("ec2"), ids(fleet(account, ["m5.large"]))[0]
    ec2.stop_instances(InstanceIds=[instance])
    control("POST", "capacity", {"instance_type": "m5.large"})
    assert code_of(ec2.start_instances, InstanceIds=[instance]) == "InsufficientInstanceCapacity"
    assert _state(instance) == "stopped"
    control("DELETE", "capacity")
    ec2.start_instances(InstanceIds=[instance])
    assert _state(instance) == "running"


def test_a_stopped_instance_leaves_its_reservation() -> None:
    account = fresh()
    ec2, identifier = client("ec2"), reserve(account, 1)
    targeting(account, identifier)
    first = ids(fleet(account, ["m5.large"]))
    ec2.stop_instances(InstanceIds=first)
    assert reservation(identifier)["AvailableInstanceCount"] == 1
    second = ids(fleet(account, ["m5.large"]))
    assert code_of(ec2.start_instances, InstanceIds=first) == "ReservationCapacityExceeded"
    ec2.terminate_instances(InstanceIds=second)
    ec2.start_instances(InstanceIds=first)
    assert reservation(identifier)["AvailableInstanceCount"] == 0


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
    everything = sick, scheduled, _well = ids(fleet(account, ["m5.large"], count=3))
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
    assert found("system-status.reachability", "failed") == [sick]
    control("POST", "impair", {"instance": sick, "checks": ["ebs"]})
    assert found("system-status.status", "impaired") == [] and found("attached-ebs-status.status", "impaired") == [sick]
    control("POST", "impair", {"instance": sick})
    assert found("attached-ebs-status.status", "impaired") == []
    assert sorted(row for zone in account["zones"] for row in found("availability-zone", zone)) == sorted(everything)


def test_the_status_of_what_does_not_run_is_shown_on_request() -> None:
    account = fresh()
    template(account)
    ec2 = client("ec2")
    runs, stopped, ended = ids(fleet(account, ["m5.large"], count=3))
    control("POST", "impair", {"instance": stopped, "checks": ["instance"]})
    ec2.stop_instances(InstanceIds=[stopped])
    ec2.terminate_instances(InstanceIds=[ended])

    def shown(**arguments: Any) -> list[str]:
        rows = ec2.describe_instance_status(**arguments)["InstanceStatuses"]
        return sorted(row["InstanceId"] for row in rows)

    by_state = lambda state: [{"Name": "instance-state-name", "Values": [state]}]  # noqa: E731
    assert shown() == shown(InstanceIds=[runs, stopped]) == [runs]
    assert shown(IncludeAllInstances=True) == sorted([runs, stopped, ended])
    assert shown(IncludeAllInstances=True, Filters=by_state("stopped")) == [stopped]
    assert shown(Filters=by_state("stopped")) == []
    row = ec2.describe_instance_status(InstanceIds=[stopped], IncludeAllInstances=True)["InstanceStatuses"][0]
    # Nothing is checked on an instance that does not run.
    assert row["InstanceStatus"]["Status"] == row["SystemStatus"]["Status"] == "not-applicable"
    pages = ec2.get_paginator("describe_instance_status").paginate(
        IncludeAllInstances=True, PaginationConfig={"PageSize": 2}
    )
    assert [len(answer["InstanceStatuses"]) for answer in pages] == [2, 1]
    ec2.start_instances(InstanceIds=[stopped])
    found = ec2.describe_instance_status(Filters=[{"Name": "instance-status.status", "Values": ["impaired"]}])
    assert [row["InstanceId"] for row in found["InstanceStatuses"]] == [stopped]


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
