"""CreateFleet: who is chosen, what is refused, what the instances are."""

import base64
from typing import Any

from .kit import USER_DATA, client, code_of, control, describe, fleet, fresh, ids, image, profile, tags, template


def test_a_fleet_takes_the_cheapest_override_and_groups_its_instances() -> None:
    account = fresh()
    template(account)
    answer = fleet(account, ["m5.4xlarge", "m5.large", "c5.9xlarge"], count=3)
    assert [row["InstanceType"] for row in answer["Instances"]] == ["m5.large"]
    assert len(ids(answer)) == 3 and answer["Errors"] == []
    origin = answer["Instances"][0]["LaunchTemplateAndOverrides"]
    assert origin["LaunchTemplateSpecification"]["Version"] == "1"
    assert origin["Overrides"]["InstanceType"] == "m5.large"


def test_a_fleet_prefers_by_priority_when_asked() -> None:
    account = fresh()
    template(account)
    subnet = account["private_subnets"][0]
    overrides = [
        {"InstanceType": "m5.large", "SubnetId": subnet, "Priority": 2.0},
        {"InstanceType": "m5.4xlarge", "SubnetId": subnet, "Priority": 1.0},
    ]
    specification = {"LaunchTemplateName": "karpenter.k8s.aws/1", "Version": "$Latest"}
    configs = [{"LaunchTemplateSpecification": specification, "Overrides": overrides}]
    answer = fleet(account, [], LaunchTemplateConfigs=configs, OnDemandOptions={"AllocationStrategy": "prioritized"})
    assert answer["Instances"][0]["InstanceType"] == "m5.4xlarge"


def test_spot_takes_the_cheapest_zone() -> None:
    account = fresh()
    template(account)
    rows = [
        {"instance_type": "m5.large", "zone": zone, "price": price}
        for zone, price in zip(account["zones"], ("0.05", "0.01", "0.03"), strict=True)
    ]
    control("POST", "prices", {"spot": rows})
    answer = fleet(account, ["m5.large"], spot=True)
    instance = describe(*ids(answer))[0]
    assert answer["Instances"][0]["Lifecycle"] == "spot" == instance["InstanceLifecycle"]
    assert instance["Placement"]["AvailabilityZone"] == account["zones"][1]
    assert instance["SpotInstanceRequestId"].startswith("sir-")


def test_missing_capacity_is_an_error_of_the_pool_and_the_next_pool_is_tried() -> None:
    account = fresh()
    template(account)
    control("POST", "capacity", {"instance_type": "m5.large"})
    answer = fleet(account, ["m5.large", "m5.xlarge"])
    assert answer["Instances"][0]["InstanceType"] == "m5.xlarge"
    assert {row["ErrorCode"] for row in answer["Errors"]} == {"InsufficientInstanceCapacity"}
    assert {row["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for row in answer["Errors"]} == set(
        account["private_subnets"]
    )
    nothing = fleet(account, ["m5.large"])
    assert nothing["Instances"] == [] and len(nothing["Errors"]) == 3
    control("DELETE", "capacity")
    assert ids(fleet(account, ["m5.large"]))


def test_a_pool_with_little_capacity_is_drained_before_the_next() -> None:
    account = fresh()
    template(account)
    control("POST", "capacity", {"instance_type": "m5.large", "remaining": 2})
    answer = fleet(account, ["m5.large", "m5.xlarge"], count=3)
    assert [(row["InstanceType"], len(row["InstanceIds"])) for row in answer["Instances"]] == [
        ("m5.large", 2),
        ("m5.xlarge", 1),
    ]


def test_the_same_client_token_launches_once() -> None:
    account = fresh()
    template(account)
    first = fleet(account, ["m5.large"], ClientToken="claim-1")
    again = fleet(account, ["m5.large"], ClientToken="claim-1")
    assert first["FleetId"] == again["FleetId"] and ids(first) == ids(again)
    assert len(describe()) == 1
    code = code_of(fleet, account=account, types=["m5.xlarge"], ClientToken="claim-1")
    assert code == "IdempotentParameterMismatch"


def test_instances_have_everything_the_template_says() -> None:
    account = fresh()
    template(account, IamInstanceProfile={"Name": profile()})
    answer = fleet(account, ["m5.large"])
    instance = describe(*ids(answer))[0]
    group = account["cluster_security_group"]
    assert instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/nodes")
    assert [row["GroupId"] for row in instance["SecurityGroups"]] == [group]
    assert [row["GroupId"] for row in instance["NetworkInterfaces"][0]["Groups"]] == [group]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["Monitoring"]["State"] == "enabled" and instance["Hypervisor"] == "nitro"
    assert instance["Placement"]["AvailabilityZoneId"].startswith("usw2-az")
    assert instance["PrivateDnsName"].endswith(".us-west-2.compute.internal")
    assert instance["Placement"]["Tenancy"] == "default" and "PublicIpAddress" not in instance
    volumes = client("ec2").describe_volumes(
        VolumeIds=[row["Ebs"]["VolumeId"] for row in instance["BlockDeviceMappings"]]
    )
    assert [(row["Size"], row["VolumeType"], row["Iops"], row["Throughput"]) for row in volumes["Volumes"]] == [
        (33, "gp3", 4000, 200)
    ]
    user_data = client("ec2").describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    assert user_data["UserData"]["Value"] == USER_DATA


def test_tags_reach_instances_volumes_and_interfaces() -> None:
    account = fresh()
    template(account)
    answer = fleet(account, ["m5.large"])
    instance = describe(*ids(answer))[0]
    own = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert own["karpenter.sh/nodepool"] == "default" and own["aws:ec2:fleet-id"] == answer["FleetId"]
    assert own["aws:ec2launchtemplate:version"] == "1" and own["aws:ec2launchtemplate:id"].startswith("lt-")
    assert "eks:eks-cluster-name" not in own, "a tag of the template itself"
    assert tags(instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]) == {"karpenter.sh/nodepool": "default"}
    assert tags(instance["NetworkInterfaces"][0]["NetworkInterfaceId"]) == {"eni": "yes"}
    assert len(describe(**{"client-token": instance["ClientToken"]})) == 1
    assert len(describe(**{"tag:aws:ec2:fleet-id": answer["FleetId"]})) == 1


def test_interfaces_say_how_long_they_track_connections() -> None:
    account = fresh()
    profile()
    tracking = {"TcpEstablishedTimeout": 3600, "UdpStreamTimeout": 120, "UdpTimeout": 45}
    group = {"DeviceIndex": 0, "Groups": [account["cluster_security_group"]]}
    template(account, NetworkInterfaces=[group | {"ConnectionTrackingSpecification": tracking}])
    interface = describe(*ids(fleet(account, ["m5.large"])))[0]["NetworkInterfaces"][0]
    assert interface["ConnectionTrackingConfiguration"] == tracking
    named = {"NetworkInterfaceIds": [interface["NetworkInterfaceId"]]}
    found = client("ec2").describe_network_interfaces(**named)["NetworkInterfaces"][0]
    assert found["ConnectionTrackingConfiguration"] == tracking


def test_spot_requests_are_described_with_their_instances_and_tags() -> None:
    account = fresh()
    ec2 = client("ec2")
    profile()
    tagged = {"ResourceType": "spot-instances-request", "Tags": [{"Key": "team", "Value": "web"}]}
    template(account, TagSpecifications=[tagged])
    instance = describe(*ids(fleet(account, ["m5.large"], spot=True)))[0]
    fleet(account, ["m5.large"])
    identifier = instance["SpotInstanceRequestId"]

    def found(ids: list[str], **filters: str) -> list[Any]:
        wanted = [{"Name": name, "Values": [value]} for name, value in filters.items()]
        answer = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=ids, Filters=wanted)
        rows: list[Any] = answer["SpotInstanceRequests"]
        return rows

    row = found([identifier])[0]
    assert (row["InstanceId"], row["State"], row["Status"]["Code"]) == (instance["InstanceId"], "active", "fulfilled")
    assert row["Tags"] == tagged["Tags"] and row["LaunchSpecification"]["InstanceType"] == "m5.large"
    assert found([], **{"tag:team": "web"}) == [row] and found([], **{"tag:team": "other"}) == []
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])
    assert [row["Status"]["Code"] for row in found([], state="closed")] == ["instance-terminated-by-user"]
    unknown = {"SpotInstanceRequestIds": ["sir-00000000"]}
    assert code_of(ec2.describe_spot_instance_requests, **unknown) == "InvalidSpotInstanceRequestID.NotFound"


def test_refusals_have_the_codes_of_ec2() -> None:
    account = fresh()
    other = client("ec2").create_vpc(CidrBlock="172.16.0.0/16")["Vpc"]["VpcId"]
    stranger = client("ec2").create_security_group(GroupName="x", Description="x", VpcId=other)["GroupId"]
    cases = {
        "arch": ({"ImageId": image("arm64")}, "InvalidParameterValue", "architecture"),
        "image": ({"ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound", "does not exist"),
        "profile": (
            {"IamInstanceProfile": {"Name": "gone"}},
            "InvalidParameterValue",
            "iamInstanceProfile.name is invalid",
        ),
        "group": (
            {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [stranger]}]},
            "InvalidParameter",
            "belong to different networks",
        ),
        "data": (
            {"UserData": base64.b64encode(b"x" * 16385).decode()},
            "InvalidParameterValue",
            "User data is limited to",
        ),
    }
    for name, (changes, code, words) in cases.items():
        template(account, name, **changes)
        answer = fleet(account, ["m5.large"], name=name)
        assert answer["Instances"] == [], name
        assert answer["Errors"][0]["ErrorCode"] == code, (name, answer["Errors"][0])
        assert words in answer["Errors"][0]["ErrorMessage"], (name, answer["Errors"][0])
    template(account)
    assert fleet(account, ["nonsense.large"])["Errors"][0]["ErrorCode"] == "InvalidParameterValue"
    assert (
        code_of(fleet, account=account, types=["m5.large"], name="gone")
        == "InvalidLaunchTemplateName.NotFoundException"
    )
    assert code_of(fleet, account=account, types=["m5.large"], DryRun=True) == "DryRunOperation"


def test_spot_without_its_role_fails_when_the_role_is_required() -> None:
    account = fresh()
    template(account)
    control("POST", "settings", {"spot_role": "required"})
    answer = fleet(account, ["m5.large"], spot=True)
    assert answer["Errors"][0]["ErrorCode"] == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert ids(fleet(account, ["m5.large"], spot=True))


def test_addresses_run_out_and_come_back() -> None:
    account = fresh()
    template(account)
    subnet = client("ec2").create_subnet(
        VpcId=account["vpc"], CidrBlock="10.0.200.0/28", AvailabilityZone=account["zones"][0]
    )
    small = account | {"private_subnets": [subnet["Subnet"]["SubnetId"]]}
    for _round in range(3):
        answer = fleet(small, ["m5.large"], count=12)
        assert len(ids(answer)) == 11, "a /28 has 16 addresses, 5 of them AWS's"
        assert answer["Errors"][0]["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
        client("ec2").terminate_instances(InstanceIds=ids(answer))
        free = client("ec2").describe_subnets(SubnetIds=small["private_subnets"])["Subnets"][0]
        assert free["AvailableIpAddressCount"] == 11
