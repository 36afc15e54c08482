"""Everything but EC2 and IAM: mostly one call, one action, one resource."""

from collections.abc import Callable
from typing import Any

from .. import ACCOUNT
from ..services import eks, fis
from ..services.request import Request
from . import parameters
from .question import Context, Question, Unknown, arn, existing, requested

# IAM lets everybody ask who they are, and checks nothing for these.
FREE = {"sts:GetCallerIdentity", "sts:AssumeRoleWithWebIdentity"}
PODS = "pods.eks.amazonaws.com"


def questions(asked: Request) -> list[Question]:
    if f"{asked.service}:{asked.action}" in FREE:
        return []
    handler = _HANDLERS.get(asked.service)
    if handler is None:
        raise Unknown(asked.service)
    return handler(asked)


def _sqs(asked: Request) -> list[Question]:
    body = asked.json()
    name = body.get("QueueName") or str(body["QueueUrl"]).rpartition("/")[2]
    resource = arn("sqs", asked.region, name)
    tags = body.get("tags") or body.get("Tags") or {}
    rows = [Question(f"sqs:{asked.action.removesuffix('Batch')}", resource, requested(tags))]
    if tags and asked.action == "CreateQueue":
        rows.append(Question("sqs:TagQueue", resource, requested(tags)))
    return rows


def _events(asked: Request) -> list[Question]:
    body = asked.json()
    if asked.action in ("ListRules", "ListRuleNamesByTarget"):
        return [Question(f"events:{asked.action}", "*")]
    if asked.action == "PutEvents":
        return [Question("events:PutEvents", arn("events", asked.region, "event-bus/default"))]
    rule = body.get("Name") or body.get("Rule")
    resource = arn("events", asked.region, f"rule/{rule}") if rule else body["ResourceARN"]
    tags = {row["Key"]: row.get("Value", "") for row in body.get("Tags") or []}
    rows = [Question(f"events:{asked.action}", resource, requested(tags))]
    if tags and asked.action == "PutRule":
        rows.append(Question("events:TagResource", resource, requested(tags)))
    return rows


def _eks(asked: Request) -> list[Question]:
    body: dict[str, Any] = asked.json() if asked.method == "POST" else {}
    resource, tags = eks.subject(asked)
    given = body.get("tags") or {}
    context: Context = existing(tags) | requested(given)
    rows = [Question(f"eks:{asked.action}", resource, context)]
    if given and asked.action.startswith("Create"):
        kind = {"CreateAccessEntry": "access-entry", "CreatePodIdentityAssociation": "podidentityassociation"}
        made = f"{kind.get(asked.action, 'cluster')}/{resource.rpartition('/')[2]}/*"
        rows.append(Question("eks:TagResource", arn("eks", asked.region, made), context))
    if "PodIdentity" in asked.action and body.get("roleArn"):
        rows.append(Question("iam:PassRole", body["roleArn"], {"iam:PassedToService": PODS}))
    return rows


def _experiments(asked: Request) -> list[Question]:
    body: dict[str, Any] = asked.json() if asked.method == "POST" else {}
    given = requested(body.get("tags") or {})
    if asked.action == "CreateExperimentTemplate":
        actions = sorted({action["actionId"] for action in body["actions"].values()})
        names = ["experiment-template/*", *(f"action/{action}" for action in actions)]
        return [Question("fis:CreateExperimentTemplate", arn("fis", asked.region, name), given) for name in names]
    if asked.action == "StartExperiment":
        template = arn("fis", asked.region, f"experiment-template/{body['experimentTemplateId']}")
        return [
            Question("fis:StartExperiment", template, existing(fis.tags_of(template))),
            Question("fis:StartExperiment", arn("fis", asked.region, "experiment/*"), given),
        ]
    collection, _, name = asked.path.removeprefix("/").partition("/")
    if not name:
        return [Question(f"fis:{asked.action}", "*")]
    kind = {"experimentTemplates": "experiment-template", "experiments": "experiment"}.get(collection)
    resource = arn("fis", asked.region, f"{kind}/{name.partition('/')[0]}") if kind else name
    return [Question(f"fis:{asked.action}", resource, existing(fis.tags_of(resource)) | given)]


def _ssm(asked: Request) -> list[Question]:
    name = asked.json()["Name"]
    if name.startswith("arn:"):
        return [Question(f"ssm:{asked.action}", name)]
    # Public parameters belong to no account.
    owner = "" if name.startswith("/aws/") else ACCOUNT
    return [Question(f"ssm:{asked.action}", arn("ssm", asked.region, f"parameter/{name.lstrip('/')}", owner))]


def _pricing(asked: Request) -> list[Question]:
    return [Question(f"pricing:{asked.action}", "*", {"aws:RequestedRegion": asked.region})]


def _zonal_shift(asked: Request) -> list[Question]:
    resource = asked.path.removeprefix("/managedresources/")
    return [Question(f"arc-zonal-shift:{asked.action}", resource, {"arc-zonal-shift:ResourceIdentifier": resource})]


def _kms(asked: Request) -> list[Question]:
    key = asked.json()["KeyId"]
    return [Question(f"kms:{asked.action}", key if key.startswith("arn:") else arn("kms", asked.region, f"key/{key}"))]


def _quotas(asked: Request) -> list[Question]:
    body = asked.json()
    resource = arn("servicequotas", asked.region, f"{body['ServiceCode']}/{body['QuotaCode']}")
    return [Question(f"servicequotas:{asked.action}", resource)]


def _stacks(asked: Request) -> list[Question]:
    tree = parameters.read(asked.body)
    name = str(tree["StackName"]).rpartition("stack/")[2].split("/")[0]
    tags = parameters.tags(parameters.items(tree, "Tags"))
    resource = arn("cloudformation", asked.region, f"stack/{name}/any")
    return [Question(f"cloudformation:{asked.action}", resource, requested(tags))]


_HANDLERS: dict[str, Callable[[Request], list[Question]]] = {
    "arc-zonal-shift": _zonal_shift,
    "cloudformation": _stacks,
    "eks": _eks,
    "events": _events,
    "fis": _experiments,
    "kms": _kms,
    "pricing": _pricing,
    "servicequotas": _quotas,
    "sqs": _sqs,
    "ssm": _ssm,
}
