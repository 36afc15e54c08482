"""What LocalStack proves as it is, without the extension, and what it has not.

Each check makes what it looks at: the stock image has no control request that empties the account.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from emulator import seed

from .kit import REGION, ROLE_TRUST, client, code_of, endpoint, error_of, wait_for

TEMPLATE = Path(__file__).parents[2] / "cloudformation" / "karpenter.yaml"


def _name() -> str:
    return f"stock-{uuid.uuid4().hex[:8]}"


def _queue(name: str, **attributes: str) -> tuple[str, str]:
    url = client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url, client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def test_iam_keeps_roles_policies_and_profiles() -> None:
    iam, name = client("iam"), _name()
    tags = [{"Key": "karpenter.sh/discovery", "Value": name}]
    role = iam.create_role(RoleName=name, Path="/k/", AssumeRolePolicyDocument=ROLE_TRUST, Tags=tags)["Role"]
    assert role["Arn"].endswith(f":role/k/{name}")
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}
    arn = iam.create_policy(PolicyName=name, PolicyDocument=json.dumps(document))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=name, PolicyArn=arn)
    attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    assert [row["PolicyArn"] for row in attached] == [arn]
    assert iam.get_policy_version(PolicyArn=arn, VersionId="v1")["PolicyVersion"]["Document"] == document
    iam.create_instance_profile(InstanceProfileName=name, Tags=tags)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    profile = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    assert [row["RoleName"] for row in profile["Roles"]] == [name] and profile["Tags"] == tags
    assert code_of(iam.delete_role, RoleName=name) == "DeleteConflict"
    assert code_of(iam.get_role, RoleName=f"{name}x") == "NoSuchEntity"


def test_a_queue_keeps_its_attributes_and_gives_a_message_once() -> None:
    sqs, name = client("sqs"), _name()
    url, _ = _queue(name, MessageRetentionPeriod="300", SqsManagedSseEnabled="true")
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (found["MessageRetentionPeriod"], found["SqsManagedSseEnabled"]) == ("300", "true")
    sqs.send_message(QueueUrl=url, MessageBody="once")
    assert [row["Body"] for row in sqs.receive_message(QueueUrl=url)["Messages"]] == ["once"]
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)
    assert code_of(sqs.get_queue_url, QueueName=name) == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_rule_sends_what_it_matches_to_a_queue() -> None:
    sqs, events, name = client("sqs"), client("events"), _name()
    url, arn = _queue(name)
    events.put_rule(Name=name, EventPattern=json.dumps({"source": ["aws.ec2"], "detail-type": ["EC2 Spot"]}))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    for kind in ("EC2 Spot", "EC2 other"):
        events.put_events(Entries=[{"Source": "aws.ec2", "DetailType": kind, "Detail": json.dumps({"a": 1})}])
    bodies: list[Any] = []

    def received() -> bool:
        bodies.extend(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", []))
        return bool(bodies)

    wait_for(received)
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    body = json.loads(bodies[0]["Body"])
    assert (body["source"], body["detail-type"], body["detail"]) == ("aws.ec2", "EC2 Spot", {"a": 1})
    assert body["region"] == REGION and body["account"] and body["id"] and body["time"]


def test_parameters_are_kept_and_those_of_aws_are_missing() -> None:
    ssm, name = client("ssm"), f"/{_name()}/ami"
    ssm.put_parameter(Name=name, Value="ami-1", Type="String")
    assert ssm.get_parameter(Name=name)["Parameter"]["Value"] == "ami-1"
    public = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id"
    assert code_of(ssm.get_parameter, Name=public) == "ParameterNotFound"


def test_credentials_of_a_role_are_known_by_it() -> None:
    iam, sts, name = client("iam"), client("sts"), _name()
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=ROLE_TRUST)["Role"]["Arn"]
    found = sts.assume_role(RoleArn=role, RoleSessionName="pod")
    assert found["AssumedRoleUser"]["Arn"].endswith(f":assumed-role/{name}/pod"), found


def test_the_network_is_described() -> None:
    ec2, name = client("ec2"), _name()
    made = seed.seed(endpoint(), name, REGION)
    assert "cluster_missing" in made and len(made["private_subnets"]) == 3
    ec2.create_tags(Resources=made["private_subnets"], Tags=[{"Key": "karpenter.sh/discovery", "Value": name}])
    wanted = [{"Name": "tag:karpenter.sh/discovery", "Values": [name]}]
    subnets = ec2.describe_subnets(Filters=wanted)["Subnets"]
    assert {row["SubnetId"] for row in subnets} == set(made["private_subnets"])
    groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [made["vpc"]]}])["SecurityGroups"]
    assert [row["GroupName"] for row in groups] == ["default"]
    types = ec2.describe_instance_types(InstanceTypes=["m5.large"])["InstanceTypes"]
    assert types[0]["VCpuInfo"]["DefaultVCpus"] == 2


def test_the_prerequisites_are_made_by_another_engine() -> None:
    """LocalStack's CloudFormation takes the template and makes all of it but the resources of EKS."""
    cloudformation, name = client("cloudformation"), _name()
    parameters = [{"ParameterKey": "ClusterName", "ParameterValue": name}]
    wanted = {"StackName": name, "ChangeSetName": "c", "Parameters": parameters}
    cloudformation.create_change_set(
        **wanted, ChangeSetType="CREATE", TemplateBody=TEMPLATE.read_text(), Capabilities=["CAPABILITY_NAMED_IAM"]
    )
    named = {"StackName": name, "ChangeSetName": "c"}
    wait_for(lambda: cloudformation.describe_change_set(**named)["Status"] == "CREATE_COMPLETE")
    cloudformation.execute_change_set(**named)
    identifier = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
    stack = lambda: cloudformation.describe_stacks(StackName=identifier)["Stacks"][0]  # noqa: E731
    wait_for(lambda: not stack()["StackStatus"].endswith("IN_PROGRESS"))
    assert stack()["StackStatus"] == "CREATE_COMPLETE", stack()
    outputs = {row["OutputKey"]: row["OutputValue"] for row in stack()["Outputs"]}
    policies = client("iam").list_attached_role_policies(RoleName=outputs["NodeRoleName"])["AttachedPolicies"]
    assert "AmazonEKSWorkerNodePolicy" in {row["PolicyName"] for row in policies}
    controller = outputs["ControllerRoleArn"].rpartition("/")[2]
    assert len(client("iam").list_attached_role_policies(RoleName=controller)["AttachedPolicies"]) == 2
    profile = client("iam").get_instance_profile(InstanceProfileName=outputs["InstanceProfileName"])
    assert [role["RoleName"] for role in profile["InstanceProfile"]["Roles"]] == [outputs["NodeRoleName"]]
    rules = client("events").list_rule_names_by_target(TargetArn=outputs["QueueArn"])["RuleNames"]
    assert len(rules) == 5, rules
    url = client("sqs").get_queue_url(QueueName=outputs["QueueName"])["QueueUrl"]
    policy = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert "events.amazonaws.com" in policy
    cloudformation.delete_stack(StackName=name)
    wait_for(lambda: stack()["StackStatus"] == "DELETE_COMPLETE")
    assert code_of(client("sqs").get_queue_url, QueueName=name) == "AWS.SimpleQueueService.NonExistentQueue"


def test_what_the_extension_is_for_is_missing() -> None:
    for service, call, arguments in (
        ("eks", "list_clusters", {}),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}),
        ("arc-zonal-shift", "list_managed_resources", {}),
    ):
        error = error_of(getattr(client(service), call), **arguments).response
        assert error["ResponseMetadata"]["HTTPStatusCode"] == 501, (service, error)
