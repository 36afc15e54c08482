"""One launcher for all checks, an account for each, and what a launch needs."""

import atexit
import base64
import functools
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from emulator import seed as seeding

REGION, CLUSTER = "us-west-2", "self-test"
USER_DATA = base64.b64encode(b"#!/bin/sh\necho hello\n").decode()
ROLE_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


# Where an account runs that is checked instead of a launcher of our own.
given: str | None = None


@functools.cache
def endpoint() -> str:
    """Starts the launcher on a free port, unless an account is given; it ends with this process."""
    if given is not None:
        return given
    process = subprocess.Popen(
        [sys.executable, "-m", "emulator", "--port", "0"],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.terminate)
    assert process.stdout is not None
    return json.loads(process.stdout.readline())["endpoint"]


@functools.cache
def client(service: str) -> Any:
    return seeding.clients(endpoint(), REGION)(service)


class Skip(Exception):
    """Why a check says nothing about this account."""


@functools.cache
def in_localstack() -> bool:
    """Whether the account is inside LocalStack, which answers some services itself."""
    try:
        with _open(urllib.request.Request(f"{endpoint()}/_localstack/health")) as answer:
            return "version" in json.loads(answer.read())
    except urllib.error.HTTPError:
        return False


def _open(request: urllib.request.Request) -> Any:
    """The account is on this machine: no proxy."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)


def control(method: str, path: str, body: object = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{endpoint()}/_karpenter/{path}", data=data, method=method)
    with _open(request) as answer:
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
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": 33,
                    "VolumeType": "gp3",
                    "Iops": 4000,
                    "Throughput": 200,
                    "DeleteOnTermination": True,
                },
            }
        ],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "eni", "Value": "yes"}]}],
    } | changes
    own = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": CLUSTER}]}]
    client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, TagSpecifications=own)
    return name


def fleet(
    account: dict[str, Any],
    types: list[str],
    spot: bool = False,
    count: int = 1,
    name: str = "karpenter.k8s.aws/1",
    **changes: Any,
) -> Any:
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


def wait_for(reached: Any) -> None:
    end = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < end, "not within two minutes"
        time.sleep(0.05)


def listen(name: str = "interruptions") -> str:
    """A queue that gets every event of EC2 and of AWS Health; answers with its address."""
    sqs, events = client("sqs"), client("events")
    queue: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=name, EventPattern=json.dumps({"source": ["aws.ec2", "aws.health"]}))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return queue


def heard(queue: str, count: int) -> list[Any]:
    """All events in the queue, which are so many, in the order in which they came; they are taken out of it."""
    sqs, found = client("sqs"), []

    def received() -> list[Any]:
        messages: list[Any] = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for message in messages:
            found.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return messages

    wait_for(lambda: not received() and len(found) >= count)
    assert len(found) == count, found
    return found
