"""CloudFormation: what a template says is made, changed, taken back and deleted."""

import json
from typing import Any

from emulator import deploy

from .kit import client, code_of, error_of, fresh

STACK = "check"
TEMPLATE = json.dumps(
    {
        "Parameters": {"Seconds": {"Type": "String", "Default": "300", "AllowedPattern": "[0-9]+"}},
        "Conditions": {"Long": {"Fn::Equals": [{"Ref": "Seconds"}, "600"]}},
        "Resources": {
            "Queue": {
                "Type": "AWS::SQS::Queue",
                "Properties": {"QueueName": "check", "MessageRetentionPeriod": {"Ref": "Seconds"}},
            },
            "Rule": {
                "Type": "AWS::Events::Rule",
                "Condition": "Long",
                "Properties": {
                    "Name": {"Fn::Sub": "${AWS::StackName}-rule"},
                    "EventPattern": {"source": ["aws.ec2"]},
                    "Targets": [{"Id": "q", "Arn": {"Fn::GetAtt": ["Queue", "Arn"]}}],
                },
            },
        },
        "Outputs": {"Url": {"Value": {"Ref": "Queue"}}},
    }
)


def _deploy(**parameters: str) -> str:
    return deploy.deploy(client("cloudformation"), STACK, TEMPLATE, parameters)


def _retention() -> str:
    url = client("sqs").get_queue_url(QueueName="check")["QueueUrl"]
    return client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"][
        "MessageRetentionPeriod"
    ]


def test_a_stack_is_made_changed_and_deleted() -> None:
    fresh()
    cloudformation, events = client("cloudformation"), client("events")
    assert _deploy() == "CREATE_COMPLETE" and _retention() == "300" and not events.list_rules()["Rules"]
    assert _deploy() == "UNCHANGED"
    assert _deploy(Seconds="600") == "UPDATE_COMPLETE" and _retention() == "600"
    assert [rule["Name"] for rule in events.list_rules()["Rules"]] == ["check-rule"]
    assert _deploy() == "UPDATE_COMPLETE" and not events.list_rules()["Rules"]
    outputs = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
    assert outputs[0]["OutputValue"].endswith("/check")
    cloudformation.delete_stack(StackName=STACK)
    assert code_of(client("sqs").get_queue_url, QueueName="check") == "AWS.SimpleQueueService.NonExistentQueue"
    assert code_of(cloudformation.describe_stacks, StackName=STACK) == "ValidationError"


def test_what_cloudformation_would_refuse_is_refused() -> None:
    fresh()
    cloudformation = client("cloudformation")
    for parameters, words in (({"Seconds": "many"}, "failed to satisfy"), ({"Colour": "red"}, "do not exist")):
        given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
        arguments = {"StackName": STACK, "TemplateBody": TEMPLATE, "Parameters": given}
        assert words in str(error_of(cloudformation.create_stack, **arguments))
    unknown = json.dumps({"Resources": {"Vpc": {"Type": "AWS::EC2::VPC", "Properties": {}}}})
    error = error_of(cloudformation.create_stack, StackName=STACK, TemplateBody=unknown)
    assert "Unrecognized resource types" in str(error)
    role = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "r", "AssumeRolePolicyDocument": {}}}
    named = json.dumps({"Resources": {"Role": role}})
    arguments = {"StackName": STACK, "ChangeSetName": "c", "ChangeSetType": "CREATE", "TemplateBody": named}
    assert "CAPABILITY_NAMED_IAM" in str(error_of(cloudformation.create_change_set, **arguments))


def _change_set(name: str, kind: str, tags: dict[str, str] | None = None) -> dict[str, Any]:
    cloudformation = client("cloudformation")
    given = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    cloudformation.create_change_set(
        StackName=STACK, ChangeSetName=name, ChangeSetType=kind, TemplateBody=TEMPLATE, Tags=given
    )
    found: dict[str, Any] = cloudformation.describe_change_set(StackName=STACK, ChangeSetName=name)
    return found


def test_change_sets_are_looked_at_replaced_and_forgotten() -> None:
    fresh()
    cloudformation = client("cloudformation")
    first = _change_set("a", "CREATE")
    assert [change["ResourceChange"]["Action"] for change in first["Changes"]] == ["Add"]
    again = {"StackName": STACK, "ChangeSetName": "a", "ChangeSetType": "CREATE", "TemplateBody": TEMPLATE}
    assert code_of(cloudformation.create_change_set, **again) == "AlreadyExistsException"
    cloudformation.delete_change_set(StackName=STACK, ChangeSetName="a")
    cloudformation.delete_change_set(StackName=STACK, ChangeSetName="a")
    assert code_of(cloudformation.describe_change_set, StackName=STACK, ChangeSetName="a") == "ChangeSetNotFound"
    found = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
    assert found["StackStatus"] == "REVIEW_IN_PROGRESS"
    cloudformation.delete_stack(StackName=found["StackId"])
    assert code_of(cloudformation.describe_stacks, StackName=STACK) == "ValidationError"
    gone = cloudformation.describe_stacks(StackName=found["StackId"])["Stacks"][0]
    assert gone["StackStatus"] == "DELETE_COMPLETE"


def test_the_tags_of_a_stack_reach_what_it_made() -> None:
    fresh()
    assert _deploy() == "CREATE_COMPLETE"
    changed = _change_set("tags", "UPDATE", {"team": "a"})
    assert [change["ResourceChange"]["LogicalResourceId"] for change in changed["Changes"]] == ["Queue"]
    client("cloudformation").execute_change_set(StackName=STACK, ChangeSetName="tags")
    url = client("sqs").get_queue_url(QueueName="check")["QueueUrl"]
    assert client("sqs").list_queue_tags(QueueUrl=url)["Tags"]["team"] == "a"
    assert _change_set("again", "UPDATE", {"team": "a"})["Status"] == "FAILED"


def test_what_cannot_be_deleted_stays_in_the_stack() -> None:
    fresh()
    cloudformation, iam = client("cloudformation"), client("iam")
    nobody = {"Version": "2012-10-17", "Statement": []}
    role = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "check", "AssumeRolePolicyDocument": nobody}}
    template = json.dumps({"Resources": {"Role": role}})
    assert deploy.deploy(cloudformation, STACK, template, {}) == "CREATE_COMPLETE"
    iam.create_instance_profile(InstanceProfileName="check")
    iam.add_role_to_instance_profile(InstanceProfileName="check", RoleName="check")
    cloudformation.delete_stack(StackName=STACK)
    found = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
    assert found["StackStatus"] == "DELETE_FAILED" and "DeleteConflict" in found["StackStatusReason"]
    assert code_of(cloudformation.create_change_set, StackName=STACK, ChangeSetName="c", TemplateBody=template)
    iam.remove_role_from_instance_profile(InstanceProfileName="check", RoleName="check")
    cloudformation.delete_stack(StackName=STACK)
    assert code_of(cloudformation.describe_stacks, StackName=STACK) == "ValidationError"


def test_a_refused_resource_takes_the_others_back() -> None:
    fresh()
    client("sqs").create_queue(QueueName="taken")
    client("iam").create_role(
        RoleName="taken", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": []})
    )
    role = {"RoleName": "taken", "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}}
    template = json.loads(TEMPLATE)
    template["Resources"]["Role"] = {"Type": "AWS::IAM::Role", "DependsOn": "Queue", "Properties": role}
    status = deploy.deploy(client("cloudformation"), STACK, json.dumps(template), {})
    assert status == "ROLLBACK_COMPLETE"
    assert code_of(client("sqs").get_queue_url, QueueName="check") == "AWS.SimpleQueueService.NonExistentQueue"
    client("iam").get_role(RoleName="taken")
