"""Checks every patch of the emulator through boto3 against a running launcher, in less than a minute.

`python self_test.py` needs nothing but requirements.txt; `pytest self_test.py` works too. Tests share one
launcher, and each begins with an empty, freshly seeded account.
"""

import atexit
import base64
import functools
import json
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from emulator import seed as seeding

REGION, CLUSTER = "us-west-2", "self-test"
USER_DATA = base64.b64encode(b"#!/bin/sh\necho hello\n").decode()
ROLE_TRUST = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'


# --- the launcher ----------------------------------------------------------------------------------------------


@functools.cache
def endpoint() -> str:
    """Starts the launcher on a free port; it ends with this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator", "--port", "0"], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.terminate)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())["endpoint"]


@functools.cache
def client(service: str) -> Any:
    return seeding.clients(endpoint(), REGION)(service)


def control(method: str, path: str, body: object = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{endpoint()}/_karpenter/{path}", data=data, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.loads(answer.read())


def fresh() -> dict[str, Any]:
    """An empty account, seeded."""
    control("POST", "reset", {})
    return control("POST", "seed", {"cluster": CLUSTER, "region": REGION})


def error_of(call: Any, **arguments: Any) -> ClientError:
    try:
        call(**arguments)
    except ClientError as error:
        return error
    raise AssertionError(f"{call.__name__} did not fail")


def code_of(call: Any, **arguments: Any) -> str:
    return error_of(call, **arguments).response["Error"]["Code"]


# --- what a launch needs -------------------------------------------------------------------------------------------


def image(architecture: str = "x86_64", version: str = "1.35") -> str:
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/standard/recommended/image_id"
    return client("ssm").get_parameter(Name=path)["Parameter"]["Value"]


def profile(name: str = "nodes", path: str = "/") -> str:
    iam = client("iam")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=ROLE_TRUST)
    iam.create_instance_profile(InstanceProfileName=name, Path=path)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return name


def template(account: dict[str, Any], name: str = "karpenter.k8s.aws/1", **changes: Any) -> str:
    group = account["cluster_security_group"]
    data = {
        "ImageId": image(),
        "UserData": USER_DATA,
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group], "AssociatePublicIpAddress": False}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        "Monitoring": {"Enabled": True},
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 33, "VolumeType": "gp3", "Iops": 4000, "Throughput": 200, "DeleteOnTermination": True}}
        ],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "eni", "Value": "yes"}]}],
    } | changes
    own = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}]
    client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, TagSpecifications=own)
    return name


def fleet(account: dict[str, Any], types: list[str], spot: bool = False, count: int = 1, name: str = "karpenter.k8s.aws/1", **changes: Any) -> Any:
    overrides = [
        {"InstanceType": instance_type, "SubnetId": subnet}
        for instance_type in types
        for subnet in account["private_subnets"]
    ]
    tags = [{"Key": "karpenter.sh/nodepool", "Value": "default"}]
    arguments: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}, "Overrides": overrides}
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in ("instance", "volume", "fleet")],
    }
    options = "SpotOptions" if spot else "OnDemandOptions"
    arguments[options] = {"AllocationStrategy": "price-capacity-optimized" if spot else "lowest-price"}
    return client("ec2").create_fleet(**(arguments | changes))


def ids(answer: Any) -> list[str]:
    return [identifier for row in answer["Instances"] for identifier in row["InstanceIds"]]


def describe(*identifiers: str, **filters: str) -> list[Any]:
    arguments: dict[str, Any] = {"InstanceIds": list(identifiers)} if identifiers else {}
    arguments["Filters"] = [{"Name": name, "Values": [value]} for name, value in filters.items()]
    reservations = client("ec2").describe_instances(**arguments)["Reservations"]
    return [instance for reservation in reservations for instance in reservation["Instances"]]


def tags(resource: str) -> dict[str, str]:
    rows = client("ec2").describe_tags(Filters=[{"Name": "resource-id", "Values": [resource]}])["Tags"]
    return {row["Key"]: row["Value"] for row in rows}


# --- fleets --------------------------------------------------------------------------------------------------------


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
    rows = [{"instance_type": "m5.large", "zone": zone, "price": price} for zone, price in zip(account["zones"], ("0.05", "0.01", "0.03"), strict=True)]
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
    assert {row["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] for row in answer["Errors"]} == set(account["private_subnets"])
    nothing = fleet(account, ["m5.large"])
    assert nothing["Instances"] == [] and len(nothing["Errors"]) == 3
    control("DELETE", "capacity")
    assert ids(fleet(account, ["m5.large"]))


def test_a_pool_with_little_capacity_is_drained_before_the_next() -> None:
    account = fresh()
    template(account)
    control("POST", "capacity", {"instance_type": "m5.large", "remaining": 2})
    answer = fleet(account, ["m5.large", "m5.xlarge"], count=3)
    assert [(row["InstanceType"], len(row["InstanceIds"])) for row in answer["Instances"]] == [("m5.large", 2), ("m5.xlarge", 1)]


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
    volumes = client("ec2").describe_volumes(VolumeIds=[row["Ebs"]["VolumeId"] for row in instance["BlockDeviceMappings"]])
    assert [(row["Size"], row["VolumeType"], row["Iops"], row["Throughput"]) for row in volumes["Volumes"]] == [(33, "gp3", 4000, 200)]
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


def test_refusals_have_the_codes_of_ec2() -> None:
    account = fresh()
    other = client("ec2").create_vpc(CidrBlock="172.16.0.0/16")["Vpc"]["VpcId"]
    stranger = client("ec2").create_security_group(GroupName="x", Description="x", VpcId=other)["GroupId"]
    cases = {
        "arch": ({"ImageId": image("arm64")}, "InvalidParameterValue", "architecture"),
        "image": ({"ImageId": "ami-00000000000000000"}, "InvalidAMIID.NotFound", "does not exist"),
        "profile": ({"IamInstanceProfile": {"Name": "gone"}}, "InvalidParameterValue", "iamInstanceProfile.name is invalid"),
        "group": ({"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [stranger]}]}, "InvalidParameter", "belong to different networks"),
        "data": ({"UserData": base64.b64encode(b"x" * 16385).decode()}, "InvalidParameterValue", "User data is limited to"),
    }
    for name, (changes, code, words) in cases.items():
        template(account, name, **changes)
        answer = fleet(account, ["m5.large"], name=name)
        assert answer["Instances"] == [], name
        assert answer["Errors"][0]["ErrorCode"] == code, (name, answer["Errors"][0])
        assert words in answer["Errors"][0]["ErrorMessage"], (name, answer["Errors"][0])
    template(account)
    assert fleet(account, ["nonsense.large"])["Errors"][0]["ErrorCode"] == "InvalidParameterValue"
    assert code_of(fleet, account=account, types=["m5.large"], name="gone") == "InvalidLaunchTemplateName.NotFoundException"
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
    subnet = client("ec2").create_subnet(VpcId=account["vpc"], CidrBlock="10.0.200.0/28", AvailabilityZone=account["zones"][0])
    small = account | {"private_subnets": [subnet["Subnet"]["SubnetId"]]}
    for _round in range(3):
        answer = fleet(small, ["m5.large"], count=12)
        assert len(ids(answer)) == 11, "a /28 has 16 addresses, 5 of them AWS's"
        assert answer["Errors"][0]["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
        client("ec2").terminate_instances(InstanceIds=ids(answer))
        free = client("ec2").describe_subnets(SubnetIds=small["private_subnets"])["Subnets"][0]
        assert free["AvailableIpAddressCount"] == 11


# --- instances -----------------------------------------------------------------------------------------------------


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
    assert ec2.terminate_instances(InstanceIds=[identifier])["TerminatingInstances"][0]["CurrentState"]["Name"] == "shutting-down"
    assert ec2.terminate_instances(InstanceIds=[identifier])["TerminatingInstances"][0]["CurrentState"]["Name"] == "terminated"
    assert code_of(ec2.terminate_instances, InstanceIds=["i-00000000000000000"]) == "InvalidInstanceID.NotFound"
    control("POST", "settings", {"terminated_seconds": 0})
    other = ids(fleet(account, ["m5.large"]))[0]
    ec2.terminate_instances(InstanceIds=[other])
    assert code_of(ec2.describe_instances, InstanceIds=[other]) == "InvalidInstanceID.NotFound"


def test_status_checks_fail_on_demand_and_filters_work() -> None:
    account = fresh()
    template(account)
    sick, scheduled, _well = ids(fleet(account, ["m5.large"], count=3))
    control("POST", "impair", {"instance": sick, "checks": ["system"], "since": "2026-01-01T00:00:00.000Z"})
    control("POST", "impair", {"instance": scheduled, "events": ["instance-retirement"]})
    found = lambda name, value: [  # noqa: E731
        row["InstanceId"]
        for row in client("ec2").describe_instance_status(Filters=[{"Name": name, "Values": [value]}])["InstanceStatuses"]
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
    assert code_of(ec2.delete_launch_template, LaunchTemplateName="gone") == "InvalidLaunchTemplateName.NotFoundException"
    code = code_of(ec2.create_launch_template, LaunchTemplateName="a b", LaunchTemplateData={"ImageId": "ami-1"})
    assert code == "InvalidLaunchTemplateName.MalformedException"
    found = ec2.describe_launch_templates(Filters=[{"Name": "tag:eks:eks-cluster-name", "Values": [CLUSTER]}])
    assert len(found["LaunchTemplates"]) == 3


# --- catalogue and prices ------------------------------------------------------------------------------------------


def test_instance_types_come_in_pages_and_from_the_region() -> None:
    fresh()
    ec2 = client("ec2")
    filters = [{"Name": "supported-virtualization-type", "Values": ["hvm"]}, {"Name": "instance-type", "Values": ["m5.*", "m6g.large"]}]
    pages = list(ec2.get_paginator("describe_instance_types").paginate(Filters=filters, PaginationConfig={"PageSize": 5}))
    names = [row["InstanceType"] for page in pages for row in page["InstanceTypes"]]
    assert len(pages) > 1 and len(names) == len(set(names)) and "m6g.large" in names and "m5.large" in names
    offerings = ec2.describe_instance_type_offerings(LocationType="availability-zone", MaxResults=10)
    assert len(offerings["InstanceTypeOfferings"]) == 10 and offerings["NextToken"]


def test_prices_agree_between_the_services() -> None:
    account = fresh()
    control("POST", "prices", {"on_demand": {"m5.large": "0.0960"}})
    filters = {"regionCode": REGION, "operatingSystem": "Linux", "tenancy": "Shared", "productFamily": "Compute Instance", "capacitystatus": "Used", "preInstalledSw": "NA", "marketoption": "OnDemand"}
    rows = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()]
    pages = list(client("pricing").get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=rows, PaginationConfig={"PageSize": 100}))
    products = {json.loads(row)["product"]["attributes"]["instanceType"]: json.loads(row) for page in pages for row in page["PriceList"]}
    assert len(pages) > 5 and len(products) > 500 and not any("metal" in name for name in products)
    term = next(iter(products["m5.large"]["terms"]["OnDemand"].values()))
    assert next(iter(term["priceDimensions"].values()))["pricePerUnit"] == {"USD": "0.0960000000"}
    history = client("ec2").describe_spot_price_history(InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"])["SpotPriceHistory"]
    assert {row["AvailabilityZone"] for row in history} >= set(account["zones"])
    assert all(0.02 < float(row["SpotPrice"]) < 0.06 for row in history), history


def test_images_exist_have_dates_and_follow_releases() -> None:
    fresh()
    ssm, ec2 = client("ssm"), client("ec2")
    paths = [
        "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia/recommended/image_id",
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id",
        "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64/latest/image_id",
        "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.35/image_id",
    ]
    values = [ssm.get_parameter(Name=path)["Parameter"]["Value"] for path in paths]
    found = ec2.describe_images(ImageIds=values)["Images"]
    assert len(found) == 4 and len({row["CreationDate"] for row in found}) == 4
    assert {row["Architecture"] for row in found} == {"arm64", "x86_64"} and all(row["DeprecationTime"] for row in found)
    assert code_of(ssm.get_parameter, Name=paths[1].replace("1.32", "1.33")) == "ParameterNotFound"
    before = image()
    control("POST", "images", {"minor": 35, "date": "2026-03-03", "bottlerocket": "1.54.0"})
    after = image()
    dates = {row["ImageId"]: row["CreationDate"] for row in ec2.describe_images(ImageIds=[before, after])["Images"]}
    assert before != after and dates[before] < dates[after]


# --- IAM, EKS, events ----------------------------------------------------------------------------------------------


def test_profiles_are_listed_by_path() -> None:
    fresh()
    profile("ours", "/karpenter/us-west-2/self-test/uid/")
    profile("theirs")
    found = client("iam").list_instance_profiles(PathPrefix="/karpenter/us-west-2/self-test/")["InstanceProfiles"]
    assert [row["InstanceProfileName"] for row in found] == ["ours"]
    pages = client("iam").get_paginator("list_instance_profiles").paginate(PaginationConfig={"PageSize": 1})
    assert [len(page["InstanceProfiles"]) for page in pages] == [1, 1]


def test_the_spot_role_has_its_name_and_exists_once() -> None:
    fresh()
    iam = client("iam")
    role = iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")["Role"]
    assert role["RoleName"] == "AWSServiceRoleForEC2Spot" and role["Path"] == "/aws-service-role/spot.amazonaws.com/"
    error = error_of(iam.create_service_linked_role, AWSServiceName="spot.amazonaws.com").response["Error"]
    assert error["Code"] == "InvalidInput" and "has been taken in this account" in error["Message"]
    for name in ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"):
        iam.get_policy(PolicyArn=f"arn:aws:iam::aws:policy/{name}")


def test_a_cluster_shows_what_karpenter_reads() -> None:
    account = fresh()
    cluster = client("eks").describe_cluster(name=CLUSTER)["cluster"]
    assert cluster["resourcesVpcConfig"]["vpcId"] == account["vpc"]
    assert cluster["resourcesVpcConfig"]["clusterSecurityGroupId"] == account["cluster_security_group"]
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16" and cluster["version"] == "1.35"
    assert b"BEGIN CERTIFICATE" in base64.b64decode(cluster["certificateAuthority"]["data"])
    assert code_of(client("eks").describe_cluster, name="gone") == "ResourceNotFoundException"
    control("POST", "cluster", {"name": CLUSTER, "endpoint": "https://127.0.0.1:6443"})
    assert client("eks").describe_cluster(name=CLUSTER)["cluster"]["endpoint"] == "https://127.0.0.1:6443"


def test_access_entries_and_associations_live_and_die() -> None:
    fresh()
    eks, iam = client("eks"), client("iam")
    arn = iam.create_role(RoleName="node", AssumeRolePolicyDocument=ROLE_TRUST)["Role"]["Arn"]
    entry = eks.create_access_entry(clusterName=CLUSTER, principalArn=arn, type="EC2_LINUX", tags={"a": "b"})["accessEntry"]
    assert entry["username"] == "system:node:{{EC2PrivateDNSName}}" and entry["tags"] == {"a": "b"}
    assert eks.list_access_entries(clusterName=CLUSTER)["accessEntries"] == [arn]
    assert eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]["type"] == "EC2_LINUX"
    assert code_of(eks.create_access_entry, clusterName=CLUSTER, principalArn=arn) == "ResourceInUseException"
    assert code_of(eks.create_access_entry, clusterName=CLUSTER, principalArn=arn + "x") == "InvalidParameterException"
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    eks.associate_access_policy(clusterName=CLUSTER, principalArn=arn, policyArn=policy, accessScope={"type": "cluster"})
    assert eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=arn)["associatedAccessPolicies"][0]["policyArn"] == policy
    eks.disassociate_access_policy(clusterName=CLUSTER, principalArn=arn, policyArn=policy)
    eks.tag_resource(resourceArn=entry["accessEntryArn"], tags={"c": "d"})
    eks.untag_resource(resourceArn=entry["accessEntryArn"], tagKeys=["a"])
    assert eks.list_tags_for_resource(resourceArn=entry["accessEntryArn"])["tags"] == {"c": "d"}
    eks.delete_access_entry(clusterName=CLUSTER, principalArn=arn)
    assert code_of(eks.describe_access_entry, clusterName=CLUSTER, principalArn=arn) == "ResourceNotFoundException"
    made = eks.create_pod_identity_association(clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter", roleArn=arn)["association"]
    found = eks.list_pod_identity_associations(clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter")["associations"]
    assert [row["associationId"] for row in found] == [made["associationId"]]
    assert code_of(eks.create_pod_identity_association, clusterName=CLUSTER, namespace="kube-system", serviceAccount="karpenter", roleArn=arn) == "ResourceInUseException"
    eks.delete_pod_identity_association(clusterName=CLUSTER, associationId=made["associationId"])
    assert eks.list_pod_identity_associations(clusterName=CLUSTER)["associations"] == []


def test_notices_and_state_changes_reach_the_queue() -> None:
    account = fresh()
    sqs, events = client("sqs"), client("events")
    queue = sqs.create_queue(QueueName="interruptions")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="all", EventPattern=json.dumps({"source": ["aws.ec2", "aws.health"]}))
    events.put_targets(Rule="all", Targets=[{"Id": "queue", "Arn": arn}])
    template(account)
    identifier = ids(fleet(account, ["m5.large"], spot=True))[0]
    for kind in ("spot-interruption", "rebalance", "health", "capacity-reservation-interruption"):
        control("POST", "notices", {"kind": kind, "instance": identifier, "region": REGION})
    client("ec2").terminate_instances(InstanceIds=[identifier])
    bodies = []
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        bodies += [json.loads(message["Body"]) for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    kinds = [body["detail-type"] for body in bodies]
    assert kinds.count("EC2 Instance State-change Notification") == 3, kinds
    assert {"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "AWS Health Event"} < set(kinds)
    assert all(body["account"] and body["region"] == REGION and body["id"] and body["time"] for body in bodies), bodies
    states = [body["detail"]["state"] for body in bodies if "State-change" in body["detail-type"]]
    assert sorted(states) == ["running", "shutting-down", "terminated"]


def test_zonal_shifts_start_and_end() -> None:
    account = fresh()
    arc = client("arc-zonal-shift")
    assert arc.get_managed_resource(resourceIdentifier=account["cluster_arn"])["zonalShifts"] == []
    control("POST", "zonal-shift", {"cluster_arn": account["cluster_arn"], "zone_id": "usw2-az1", "seconds": 600})
    shifts = arc.get_managed_resource(resourceIdentifier=account["cluster_arn"])["zonalShifts"]
    assert [(row["awayFrom"], row["appliedStatus"]) for row in shifts] == [("usw2-az1", "APPLIED")]


# --- the front door ------------------------------------------------------------------------------------------------


def test_what_is_missing_fails_loudly_in_every_protocol() -> None:
    fresh()
    for service, call, arguments in (
        ("ec2", "describe_verified_access_groups", {}),
        ("iam", "get_context_keys_for_custom_policy", {"PolicyInputList": ["{}"]}),
        ("events", "list_endpoints", {}),
        ("eks", "describe_addon_versions", {}),
        ("pricing", "get_attribute_values", {"ServiceCode": "AmazonEC2", "AttributeName": "x"}),
    ):
        error = error_of(getattr(client(service), call), **arguments)
        assert error.response["Error"]["Code"] == "NotImplementedByEmulator", (service, error)
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert len(control("GET", "calls")["unimplemented"]) == 5


def test_faults_strike_so_often_and_no_more() -> None:
    fresh()
    control("POST", "faults", {"action": "DescribeSubnets", "code": "UnauthorizedOperation", "status": 403, "count": 2, "skip": 1})
    ec2 = client("ec2")
    ec2.describe_subnets()
    assert [code_of(ec2.describe_subnets) for _ in range(2)] == ["UnauthorizedOperation"] * 2
    ec2.describe_subnets()
    control("POST", "faults", {"action": "GetRole", "code": "Throttling", "count": 1})
    assert code_of(client("iam").get_role, RoleName="x") == "Throttling"
    control("POST", "faults", {"action": "GetParameter", "code": "ThrottlingException", "count": 1})
    assert code_of(client("ssm").get_parameter, Name="/x") == "ThrottlingException"


def test_calls_are_counted_and_logged() -> None:
    fresh()
    control("DELETE", "calls")
    client("ec2").describe_subnets()
    error_of(client("sqs").get_queue_url, QueueName="gone")
    report = control("GET", "calls")
    assert report["counts"] == {"ec2:DescribeSubnets": 1, "sqs:GetQueueUrl": 1}
    assert [(row["action"], row["status"]) for row in report["log"]] == [("DescribeSubnets", 200), ("GetQueueUrl", 400)]
    assert report["log"][1]["error"] and report["log"][0]["error"] is None


def test_machines_are_listed_with_their_user_data() -> None:
    account = fresh()
    template(account)
    identifier = ids(fleet(account, ["m5.large"]))[0]
    machine = control("GET", f"instances?region={REGION}")["instances"][0]
    assert machine["id"] == identifier and machine["user_data"] == USER_DATA and machine["state"] == "running"
    assert machine["private_dns_name"].startswith("ip-10-0-") and machine["zone"] in account["zones"]


def test_wrong_control_requests_are_told_what_exists() -> None:
    fresh()
    for path, body in (("nonsense", {}), ("faults", {"acton": "x"}), ("settings", {"speed": 1}), ("notices", {"kind": "x", "instance": "i"})):
        try:
            control("POST", path, body)
        except urllib.error.HTTPError as error:
            assert error.code in (400, 404) and b"there are" in error.read() or error.code == 400, path
        else:
            raise AssertionError(path)


def test_parallel_launches_do_not_break_moto() -> None:
    from concurrent.futures import ThreadPoolExecutor

    account = fresh()
    template(account)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fleet(account, ["m5.large", "m5.xlarge"]), range(24)))
    assert len({identifier for answer in answers for identifier in ids(answer)}) == 24


def wait_for(reached: Any) -> None:
    end = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < end, "not within 10 s"
        time.sleep(0.05)


def main() -> int:
    tests = {name: value for name, value in globals().items() if name.startswith("test_")}
    failed, started = [], time.monotonic()
    for name, test in tests.items():
        begun = time.monotonic()
        try:
            test()
            print(f"ok    {time.monotonic() - begun:5.1f} s  {name}")
        except Exception:  # every failure is shown, whatever it is
            failed.append(name)
            print(f"FAIL  {time.monotonic() - begun:5.1f} s  {name}\n{traceback.format_exc()}")
    print(f"{len(tests) - len(failed)} of {len(tests)} passed in {time.monotonic() - started:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
