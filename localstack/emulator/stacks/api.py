"""CloudFormation's Query protocol over `stack`. Everything is done by the time the call answers."""

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import yaml

from .. import ACCOUNT, errors
from ..seed import clients
from ..services.request import Request
from .stack import Stack
from .template import Invalid, Template

Json = dict[str, Any]
_NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
_lock = threading.RLock()
_stacks: dict[tuple[str, str], Stack] = {}
_deleted: list[Stack] = []
_change_sets: dict[tuple[str, str, str], Json] = {}
_numbers = itertools.count(1)


def reset() -> None:
    with _lock:
        _stacks.clear()
        _deleted.clear()
        _change_sets.clear()


def answer(endpoint: str, request: Request) -> errors.Reply:
    """Not under the front door's lock: resources are made through the front door."""
    form = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
    handler = _ACTIONS.get(request.action)
    if handler is None:
        return errors.error("cloudformation", "NotImplementedByEmulator", request.action, 501)
    try:
        with _lock:
            result = handler(endpoint, request.region, form)
    except Invalid as refusal:
        return errors.error("cloudformation", refusal.code, str(refusal))
    except Exception as error:  # a mistake of ours must not look like an answer of AWS
        return errors.error("cloudformation", "EmulatorFailure", f"{type(error).__name__}: {error}", 501)
    body = (
        f'<{request.action}Response xmlns="{_NAMESPACE}"><{request.action}Result>{_xml(result)}'
        f"</{request.action}Result><ResponseMetadata><RequestId>emulator</RequestId></ResponseMetadata>"
        f"</{request.action}Response>"
    )
    return errors.Reply(200, "text/xml", body.encode())


def _create_change_set(endpoint: str, region: str, form: Json) -> Json:
    name, change_set = (
        form["StackName"].split("/")[1] if "/" in form["StackName"] else form["StackName"],
        form["ChangeSetName"],
    )
    kind, found = form.get("ChangeSetType", "UPDATE"), _stacks.get((region, name))
    if kind == "CREATE" and found is not None and found.status != "REVIEW_IN_PROGRESS":
        raise Invalid(f"Stack [{name}] already exists and cannot be created again with the changeSet [{change_set}].")
    if kind == "UPDATE" and found is None:
        raise Invalid(f"Stack [{name}] does not exist")
    if kind == "UPDATE" and found is not None and found.status not in _CHANGEABLE:
        raise Invalid(f"Stack:{found.arn} is in {found.status} state and can not be updated.")
    if (region, name, change_set) in _change_sets:
        raise Invalid(f"ChangeSet {change_set} already exists", "AlreadyExistsException")
    stack = found or Stack(name, _arn(region, "stack", f"{name}/{next(_numbers)}"))
    template = _template(region, stack, form)
    changes = stack.changes(template, _tags(form))
    if "CAPABILITY_NAMED_IAM" not in _list(form, "Capabilities") and any(
        change["ResourceChange"]["ResourceType"].startswith("AWS::IAM::") for change in changes
    ):
        raise Invalid("Requires capabilities : [CAPABILITY_NAMED_IAM]")
    _stacks[(region, name)] = stack
    identifier = _arn(region, "changeSet", f"{change_set}/{next(_numbers)}")
    reason = (
        ""
        if changes
        else "The submitted information didn't contain changes. Submit different information to create a change set."
    )
    _change_sets[(region, name, change_set)] = {
        "ChangeSetId": identifier,
        "ChangeSetName": change_set,
        "StackId": stack.arn,
        "StackName": name,
        "Status": "CREATE_COMPLETE" if changes else "FAILED",
        "StatusReason": reason,
        "ExecutionStatus": "AVAILABLE" if changes else "UNAVAILABLE",
        "CreationTime": datetime.now(UTC),
        "Changes": changes,
        "Parameters": _pairs(form, "Parameters", "ParameterKey", "ParameterValue"),
        "form": form,
    }
    return {"Id": identifier, "StackId": stack.arn}


def _describe_change_set(_endpoint: str, region: str, form: Json) -> Json:
    found = _change_set(region, form)[1]
    return {key: value for key, value in found.items() if key != "form"}


def _execute_change_set(endpoint: str, region: str, form: Json) -> Json:
    key, found = _change_set(region, form)
    if found["ExecutionStatus"] != "AVAILABLE":
        raise Invalid(
            f"ChangeSet [{found['ChangeSetId']}] cannot be executed in its current status of [{found['Status']}]"
        )
    _apply(endpoint, region, _stacks[(region, key[1])], found["form"])
    del _change_sets[key]
    return {}


def _delete_change_set(_endpoint: str, region: str, form: Json) -> Json:
    # One that is not there is as good as deleted; a stack that is not there is refused.
    stack = _stack(region, form["StackName"]).name if "StackName" in form else None
    for key in [key for key, found in _change_sets.items() if _is(key, found, region, stack, form["ChangeSetName"])]:
        del _change_sets[key]
    return {}


def _continue_update_rollback(_endpoint: str, region: str, form: Json) -> Json:
    stack = _stack(region, form["StackName"])
    raise Invalid(f"Stack:{stack.arn} is in {stack.status} state and can not continue rolling back")


def _create_stack(endpoint: str, region: str, form: Json) -> Json:
    name = form["StackName"]
    if (region, name) in _stacks:
        raise Invalid(f"Stack [{name}] already exists")
    stack = Stack(name, _arn(region, "stack", f"{name}/{next(_numbers)}"))
    stack.changes(_template(region, stack, form), _tags(form))
    _stacks[(region, name)] = stack
    _apply(endpoint, region, stack, form)
    return {"StackId": stack.arn}


def _update_stack(endpoint: str, region: str, form: Json) -> Json:
    stack = _stack(region, form["StackName"])
    if not stack.changes(_template(region, stack, form), _tags(form)):
        raise Invalid("No updates are to be performed.")
    _apply(endpoint, region, stack, form)
    return {"StackId": stack.arn}


def _delete_stack(endpoint: str, region: str, form: Json) -> Json:
    for key, stack in list(_stacks.items()):
        if key[0] == region and form["StackName"] in (stack.name, stack.arn):
            stack.delete(_client(endpoint, region))
            if stack.status == "DELETE_COMPLETE":
                _deleted.append(_stacks.pop(key))
            for other in [other for other in _change_sets if other[:2] == key]:
                del _change_sets[other]
    return {}


def _describe_stacks(_endpoint: str, region: str, form: Json) -> Json:
    stacks = (
        [_stack(region, form["StackName"])]
        if "StackName" in form
        else [s for (r, _), s in _stacks.items() if r == region]
    )
    return {"Stacks": [_shown(stack) for stack in stacks]}


def _describe_stack_events(_endpoint: str, region: str, form: Json) -> Json:
    return {"StackEvents": list(reversed(_stack(region, form["StackName"]).events))}


def _describe_stack_resources(_endpoint: str, region: str, form: Json) -> Json:
    stack = _stack(region, form["StackName"])
    rows = [
        {
            "StackName": stack.name,
            "LogicalResourceId": name,
            "PhysicalResourceId": resource.physical,
            "ResourceType": resource.kind,
            "ResourceStatus": "CREATE_COMPLETE",
            "Timestamp": stack.created,
        }
        for name, resource in stack.resources.items()
    ]
    return {"StackResources": rows}


def _get_template_summary(_endpoint: str, region: str, form: Json) -> Json:
    name = form.get("StackName", "")
    text = form.get("TemplateBody") or _stack(region, name).template
    # Parameters need not be valid to be listed.
    declared = (yaml.safe_load(text) or {}).get("Parameters", {})
    rows = [
        {"ParameterKey": key, "ParameterType": value["Type"]}
        | ({"DefaultValue": str(value["Default"])} if "Default" in value else {})
        for key, value in declared.items()
    ]
    return {"Parameters": rows, "Capabilities": ["CAPABILITY_NAMED_IAM"]}


def _apply(endpoint: str, region: str, stack: Stack, form: Json) -> None:
    template = _template(region, stack, form)
    stack.template = form.get("TemplateBody") or stack.template
    stack.parameters = template.given()
    stack.tags = _tags(form)
    stack.capabilities = _list(form, "Capabilities")
    stack.carry_out(_client(endpoint, region), template)


def _template(region: str, stack: Stack, form: Json) -> Template:
    partition, suffix = "aws", "amazonaws.com"
    if region.startswith("cn-"):
        partition, suffix = "aws-cn", "amazonaws.com.cn"
    elif region.startswith("us-gov-"):
        partition = "aws-us-gov"
    pseudo = {
        "AWS::AccountId": ACCOUNT,
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackId": stack.arn,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": suffix,
    }
    previous = {row["ParameterKey"]: row["ParameterValue"] for row in stack.parameters}
    given = {}
    for row in _pairs(form, "Parameters", "ParameterKey", "ParameterValue", "UsePreviousValue"):
        key = row["ParameterKey"]
        if row.get("UsePreviousValue") != "true":
            given[key] = row.get("ParameterValue", "")
        elif key in previous:
            given[key] = previous[key]
    text = stack.template if form.get("UsePreviousTemplate") == "true" else form.get("TemplateBody", "")
    return Template(text, given, pseudo)


def _tags(form: Json) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in _pairs(form, "Tags", "Key", "Value")}


def _client(endpoint: str, region: str) -> Callable[[str], Any]:
    made: Callable[[str], Any] = clients(endpoint, region)
    return made


def _stack(region: str, name: str) -> Stack:
    for (place, known), stack in _stacks.items():
        if place == region and name in (known, stack.arn):
            return stack
    for stack in _deleted:
        if name == stack.arn:
            return stack
    raise Invalid(f"Stack with id {name} does not exist")


def _change_set(region: str, form: Json) -> tuple[tuple[str, str, str], Json]:
    wanted = form["ChangeSetName"]
    for key, found in _change_sets.items():
        if _is(key, found, region, form.get("StackName"), wanted):
            return key, found
    raise Invalid(f"ChangeSet [{wanted}] does not exist", "ChangeSetNotFound")


def _is(key: tuple[str, str, str], found: Json, region: str, stack: str | None, wanted: str) -> bool:
    of_stack = stack is None or stack in (key[1], found["StackId"])
    return key[0] == region and of_stack and wanted in (key[2], found["ChangeSetId"])


def _shown(stack: Stack) -> Json:
    return {
        "StackId": stack.arn,
        "StackName": stack.name,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason,
        "CreationTime": stack.created,
        "Parameters": stack.parameters,
        "Capabilities": stack.capabilities,
        "Outputs": stack.outputs,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
    }


def _pairs(form: Json, name: str, *fields: str) -> list[Json]:
    """`Name.member.1.Field=...` as a list of objects."""
    rows: list[Json] = []
    while True:
        prefix = f"{name}.member.{len(rows) + 1}."
        row = {field: form[prefix + field] for field in fields if prefix + field in form}
        if not row:
            return rows
        rows.append(row)


def _list(form: Json, name: str) -> list[str]:
    prefix = f"{name}.member."
    return [value for key, value in form.items() if key.startswith(prefix)]


def _arn(region: str, kind: str, rest: str) -> str:
    return f"arn:aws:cloudformation:{region}:{ACCOUNT}:{kind}/{rest}"


def _xml(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"<{key}>{_xml(inner)}</{key}>" for key, inner in value.items() if inner != "")
    if isinstance(value, list):
        return "".join(f"<member>{_xml(element)}</member>" for element in value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return escape(str(value))


# Every other status can only be waited for, rolled back or deleted.
_CHANGEABLE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")

_ACTIONS: dict[str, Callable[[str, str, Json], Json]] = {
    "ContinueUpdateRollback": _continue_update_rollback,
    "CreateChangeSet": _create_change_set,
    "CreateStack": _create_stack,
    "DeleteChangeSet": _delete_change_set,
    "DeleteStack": _delete_stack,
    "DescribeChangeSet": _describe_change_set,
    "DescribeStackEvents": _describe_stack_events,
    "DescribeStackResources": _describe_stack_resources,
    "DescribeStacks": _describe_stacks,
    "ExecuteChangeSet": _execute_change_set,
    "GetTemplateSummary": _get_template_summary,
    "UpdateStack": _update_stack,
}
