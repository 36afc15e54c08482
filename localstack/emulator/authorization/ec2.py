"""EC2: a launch asks about everything it uses and everything it makes; the rest about what is named.

`CreateFleet` is authorised as itself and as the `RunInstances` that it stands for. Tags count for the type of resource
they are given to, whether the fleet or the launch template gives them.
"""

from collections.abc import Iterable
from typing import Any

from moto.ec2 import ec2_backends

from .. import ACCOUNT
from ..patches import iam as account_iam
from ..services.request import Request
from . import parameters
from .parameters import Tree
from .question import Context, Question, Unknown, arn, existing, requested

# prefix of an id -> type of resource
KINDS = {
    "ami": "image",
    "cr": "capacity-reservation",
    "eni": "network-interface",
    "fleet": "fleet",
    "i": "instance",
    "lt": "launch-template",
    "pg": "placement-group",
    "sg": "security-group",
    "sir": "spot-instances-request",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
}
MADE = ("instance", "volume", "network-interface")


def questions(asked: Request) -> list[Question]:
    if asked.action.startswith(("Describe", "Get")):
        return [Question(f"ec2:{asked.action}", "*", _everywhere(asked))]
    handler = _HANDLERS.get(asked.action)
    if handler is None:
        raise Unknown(asked.action)
    return handler(asked, parameters.read(asked.body))


def _everywhere(asked: Request) -> Context:
    return {"aws:RequestedRegion": asked.region}


def _backend(asked: Request) -> Any:
    return ec2_backends[ACCOUNT][asked.region]


def _of(asked: Request, kind: str, name: str) -> str:
    """Images and snapshots belong to no account in IAM's eyes."""
    return arn("ec2", asked.region, f"{kind}/{name}", "" if kind in ("image", "snapshot") else ACCOUNT)


def _tags(asked: Request, resource: str) -> dict[str, str]:
    return dict(_backend(asked).tags.get(resource, {}))


def _named(asked: Request, action: str, resources: Iterable[str], more: Context | None = None) -> list[Question]:
    """`action` on resources that exist, by id."""
    rows = []
    for resource in resources:
        kind = KINDS.get(resource.split("-")[0])
        if kind is None:
            raise Unknown(f"{asked.action} of {resource}")
        context = _everywhere(asked) | existing(_tags(asked, resource)) | (more or {})
        rows.append(Question(f"ec2:{action}", _of(asked, kind, resource), context))
    return rows


def _instances(asked: Request, tree: Tree) -> list[Question]:
    there = {instance.id for instance in _backend(asked).all_instances()}
    return _named(asked, asked.action, [name for name in parameters.items(tree, "InstanceId") if name in there])


def _image(asked: Request, tree: Tree) -> list[Question]:
    there = _backend(asked).amis
    return _named(asked, asked.action, [tree["ImageId"]] if tree["ImageId"] in there else [])


def _tag(asked: Request, tree: Tree) -> list[Question]:
    given = requested(parameters.tags(parameters.items(tree, "Tag")))
    return _named(asked, asked.action, parameters.items(tree, "ResourceId"), given)


def _delete_template(asked: Request, tree: Tree) -> list[Question]:
    template = _template(asked, tree)
    return _named(asked, "DeleteLaunchTemplate", [template.id] if template else [])


def _template(asked: Request, tree: Tree) -> Any:
    backend = _backend(asked)
    name, identifier = tree.get("LaunchTemplateName"), tree.get("LaunchTemplateId")
    found = (
        template
        for template in backend.launch_templates.values()
        if identifier == template.id or (name and name == template.name)
    )
    return next(found, None)


def _create_template(asked: Request, tree: Tree) -> list[Question]:
    tags = _tag_specifications(tree).get("launch-template", {})
    return _made(asked, "launch-template", ["CreateLaunchTemplate"], tags)


def _made(asked: Request, kind: str, actions: Iterable[str], tags: dict[str, str]) -> list[Question]:
    """Making something, and tagging it in the same breath."""
    context = _everywhere(asked) | requested(tags)
    resource = _of(asked, kind, "*")
    rows = [Question(f"ec2:{action}", resource, context) for action in actions]
    if tags:
        rows.append(Question("ec2:CreateTags", resource, context | {"ec2:CreateAction": asked.action}))
    return rows


def _tag_specifications(tree: Tree) -> dict[str, dict[str, str]]:
    rows = parameters.items(tree, "TagSpecification", "TagSpecifications")
    return {row["ResourceType"]: parameters.tags(parameters.items(row, "Tag", "Tags")) for row in rows}


def _create_fleet(asked: Request, tree: Tree) -> list[Question]:
    used = _Used(asked, ("CreateFleet", "RunInstances"))
    tags = _tag_specifications(tree)
    for row in parameters.items(tree, "LaunchTemplateConfigs"):
        data = used.template(row.get("LaunchTemplateSpecification", {}))
        for override in parameters.items(row, "Overrides") or [{}]:
            used.data(data | {name: value for name, value in override.items() if isinstance(value, str)})
    spot = tree.get("TargetCapacitySpecification", {}).get("DefaultTargetCapacityType") == "spot"
    fleet = _made(asked, "fleet", ["CreateFleet"], tags.get("fleet", {}))
    return used.questions(tags, spot) + fleet


def _run_instances(asked: Request, tree: Tree) -> list[Question]:
    used = _Used(asked, ("RunInstances",))
    data: dict[str, Any] = used.template(tree["LaunchTemplate"]) if "LaunchTemplate" in tree else {}
    own: dict[str, Any] = {name: value for name, value in tree.items() if isinstance(value, str)}
    for name, plural in (("SecurityGroupId", "SecurityGroupIds"), ("BlockDeviceMapping", "BlockDeviceMappings")):
        if rows := parameters.items(tree, name):
            own[plural] = rows
    if rows := parameters.items(tree, "NetworkInterface"):
        own["NetworkInterfaces"] = [row | {"Groups": parameters.items(row, "SecurityGroupId")} for row in rows]
    for name in ("IamInstanceProfile", "Placement"):
        if name in tree:
            own[name] = tree[name]
    used.data(data | own)
    spot = tree.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    return used.questions(_tag_specifications(tree), spot)


class _Used:
    """What a launch takes from the account, gathered over all its candidates."""

    def __init__(self, asked: Request, actions: tuple[str, ...]) -> None:
        self._asked, self._actions = asked, actions
        # (type, name) -> tags
        self._resources: dict[tuple[str, str], dict[str, str]] = {}
        self._profiles: set[str] = set()
        self._tags: dict[str, dict[str, str]] = {}

    def template(self, specification: Tree) -> dict[str, Any]:
        """The data of a launch template, which is used itself, too."""
        template = _template(self._asked, specification)
        if template is None:
            return {}
        self._resources[("launch-template", template.id)] = _tags(self._asked, template.id)
        data: dict[str, Any] = template.get_version(specification.get("Version") or "$Default").data
        for row in data.get("TagSpecifications") or []:
            tags = {tag["Key"]: tag.get("Value", "") for tag in row.get("Tags") or []}
            self._tags.setdefault(row["ResourceType"], {}).update(tags)
        return data

    def data(self, data: dict[str, Any]) -> None:
        """One candidate: the template with the override on top."""
        self._image(data.get("ImageId"))
        interfaces = data.get("NetworkInterfaces") or []
        for subnet in (data.get("SubnetId"), *(row.get("SubnetId") for row in interfaces)):
            self._add("subnet", subnet)
        groups = list(data.get("SecurityGroupIds") or [])
        for row in interfaces:
            groups.extend(row.get("Groups") or [])
        for group in groups:
            self._add("security-group", group)
        for row in data.get("BlockDeviceMappings") or []:
            self._add("snapshot", (row.get("Ebs") or {}).get("SnapshotId"))
        placement = data.get("Placement") or {}
        self._add("placement-group", placement.get("GroupName") or placement.get("GroupId"))
        target = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
        self._add("capacity-reservation", target.get("CapacityReservationId"))
        profile = data.get("IamInstanceProfile") or {}
        if name := profile.get("Name") or str(profile.get("Arn") or "").rpartition("/")[2]:
            self._profiles.add(name)

    def _add(self, kind: str, name: str | None) -> None:
        if name:
            self._resources.setdefault((kind, name), _tags(self._asked, name))

    def _image(self, name: str | None) -> None:
        if not name or ("image", name) in self._resources:
            return
        self._add("image", name)
        image = _backend(self._asked).amis.get(name)
        self._add("snapshot", getattr(getattr(image, "ebs_snapshot", None), "id", None))

    def questions(self, tags: dict[str, dict[str, str]], spot: bool) -> list[Question]:
        rows = []
        for (kind, name), own in self._resources.items():
            context = _everywhere(self._asked) | existing(own)
            resource = _of(self._asked, kind, name)
            rows.extend(Question(f"ec2:{action}", resource, context) for action in self._actions)
        for kind in (*MADE, "spot-instances-request") if spot else MADE:
            rows.extend(_made(self._asked, kind, self._actions, self._tags.get(kind, {}) | tags.get(kind, {})))
        return rows + [question for name in sorted(self._profiles) for question in _passed(name)]


def _passed(name: str) -> list[Question]:
    """An instance gets the role of its profile, which whoever launches must be allowed to hand on."""
    profiles = [profile for profile in account_iam.backend().get_instance_profiles() if profile.name == name]
    roles = [role for profile in profiles for role in profile.roles]
    return [Question("iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"}) for role in roles]


_HANDLERS = {
    "CreateFleet": _create_fleet,
    "CreateLaunchTemplate": _create_template,
    "CreateTags": _tag,
    "DeleteLaunchTemplate": _delete_template,
    "DeleteTags": _tag,
    "DisableImageDeprecation": _image,
    "EnableImageDeprecation": _image,
    "RebootInstances": _instances,
    "RunInstances": _run_instances,
    "StartInstances": _instances,
    "StopInstances": _instances,
    "TerminateInstances": _instances,
}
