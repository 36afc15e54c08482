"""`aws cloudformation deploy` and `delete-stack` for machines without the AWS CLI: change set, execution, events.

`python -m emulator.deploy --endpoint URL --stack NAME --template FILE [Parameter=value ...]`
`python -m emulator.deploy --endpoint URL --stack NAME --delete`
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from .seed import clients


def deploy(cloudformation: Any, stack: str, template: str, parameters: dict[str, str]) -> str:
    """Creates or updates the stack; answers with its status."""
    change_set = "deploy"
    cloudformation.create_change_set(
        StackName=stack,
        ChangeSetName=change_set,
        ChangeSetType="UPDATE" if _exists(cloudformation, stack) else "CREATE",
        TemplateBody=template,
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    found = cloudformation.describe_change_set(StackName=stack, ChangeSetName=change_set)
    if found["Status"] == "FAILED":
        print(found.get("StatusReason", "no changes"))
        cloudformation.delete_change_set(StackName=stack, ChangeSetName=change_set)
        return "UNCHANGED"
    known = {event["EventId"] for event in _events(cloudformation, stack)}
    cloudformation.execute_change_set(StackName=stack, ChangeSetName=change_set)
    for event in reversed(_events(cloudformation, stack)):
        if event["EventId"] not in known and not event["ResourceStatus"].endswith("IN_PROGRESS"):
            reason = event.get("ResourceStatusReason", "")
            print(f"{event['ResourceStatus']:16} {event['ResourceType']:34} {event['LogicalResourceId']} {reason}")
    return str(cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])


def _exists(cloudformation: Any, stack: str) -> bool:
    try:
        status = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    except ClientError:
        return False
    return bool(status != "REVIEW_IN_PROGRESS")


def _events(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
    return list(cloudformation.describe_stack_events(StackName=stack)["StackEvents"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="emulator.deploy", description=__doc__)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--region", default="us-west-2")
    parser.add_argument("--stack", required=True)
    parser.add_argument("--template", type=Path)
    parser.add_argument("--delete", action="store_true")
    parser.add_argument("parameters", nargs="*")
    arguments = parser.parse_args()
    cloudformation = clients(arguments.endpoint, arguments.region)("cloudformation")
    if arguments.delete:
        cloudformation.delete_stack(StackName=arguments.stack)
        return 0
    parameters = dict(parameter.split("=", 1) for parameter in arguments.parameters)
    status = deploy(cloudformation, arguments.stack, arguments.template.read_text(), parameters)
    print(status)
    return 0 if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UNCHANGED") else 1


if __name__ == "__main__":
    sys.exit(main())
