"""IAM: every call names a role, a policy, a profile or a provider; some hand a role on or tag what they make."""

from collections.abc import Callable
from typing import Any

from .. import ACCOUNT
from ..patches import iam as account_iam
from ..services.request import Request
from . import parameters
from .parameters import Tree
from .question import Context, Question, Unknown, existing, partition, plain, requested

# Calls that know no resources.
UNSCOPED = {"GetAccountSummary", "ListRoles", "ListPolicies"}
# What making something with tags is checked for besides.
TAGGING = {"CreateRole": "TagRole", "CreatePolicy": "TagPolicy", "CreateInstanceProfile": "TagInstanceProfile"}
SPOT_ROLE = "role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"


def questions(asked: Request) -> list[Question]:
    tree = parameters.read(asked.body)
    if asked.action in UNSCOPED:
        return [Question(f"iam:{asked.action}", "*")]
    if asked.action == "CreateServiceLinkedRole":
        context: Context = {"iam:AWSServiceName": tree["AWSServiceName"]}
        return [Question("iam:CreateServiceLinkedRole", _arn(asked, SPOT_ROLE), context)]
    if asked.action == "ListInstanceProfiles":
        path = tree.get("PathPrefix") or "/"
        return [Question("iam:ListInstanceProfiles", _arn(asked, f"instance-profile{path}"))]
    resource, tags = _subject(asked, tree)
    if resource is None:
        return []
    given = parameters.tags(parameters.items(tree, "Tags"))
    context = existing(tags) | requested(given) | _more(tree)
    rows = [Question(f"iam:{asked.action}", resource, context)]
    if given and asked.action in TAGGING:
        # Tags given on creation are those of the resource as well: the policies of the reference's documentation
        # ask for both and let its controller make profiles.
        rows.append(Question(f"iam:{TAGGING[asked.action]}", resource, context | existing(given)))
    if asked.action == "AddRoleToInstanceProfile":
        rows.extend(_passed(tree["RoleName"]))
    return rows


def _arn(asked: Request, rest: str) -> str:
    return f"arn:{partition(asked.region)}:iam::{ACCOUNT}:{rest}"


def _more(tree: Tree) -> Context:
    context: Context = {}
    if "PolicyArn" in tree:
        context["iam:PolicyARN"] = tree["PolicyArn"]
    if "PermissionsBoundary" in tree:
        context["iam:PermissionsBoundary"] = tree["PermissionsBoundary"]
    return context


def _subject(asked: Request, tree: Tree) -> tuple[str | None, dict[str, str]]:
    """The ARN of what the call is about and its tags; no ARN when it does not exist."""
    if asked.action.startswith("Create"):
        for kind, name in (("role", "RoleName"), ("policy", "PolicyName"), ("instance-profile", "InstanceProfileName")):
            if name in tree:
                return _arn(asked, f"{kind}{tree.get('Path') or '/'}{tree[name]}"), {}
    for names, look in _SUBJECTS:
        if found := next((tree[name] for name in names if name in tree), None):
            return look(asked, found)
    raise Unknown(asked.action)


def _profile(asked: Request, name: str) -> tuple[str | None, dict[str, str]]:
    """A profile that does not exist is asked about without a path: `GetInstanceProfile` is how one finds out."""
    found = (row for row in account_iam.backend().get_instance_profiles() if row.name == name)
    if (profile := next(found, None)) is not None:
        return str(profile.arn), plain(profile.tags)
    return (_arn(asked, f"instance-profile/{name}") if asked.action.startswith("Get") else None), {}


def _role(asked: Request, name: str) -> tuple[str | None, dict[str, str]]:
    role = next((row for row in account_iam.backend().get_roles() if name in (row.name, row.arn)), None)
    return (str(role.arn), plain(role.tags)) if role is not None else (None, {})


def _named(_asked: Request, arn: str) -> tuple[str | None, dict[str, str]]:
    return arn, {}


# Which parameter says what a call is about; the first that is there counts.
_SUBJECTS: tuple[tuple[tuple[str, ...], Callable[[Request, str], Any]], ...] = (
    (("InstanceProfileName",), _profile),
    (("RoleName", "PolicySourceArn"), _role),
    (("PolicyArn", "OpenIDConnectProviderArn"), _named),
)


def _passed(name: str) -> list[Question]:
    roles = [role for role in account_iam.backend().get_roles() if role.name == name]
    return [Question("iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"}) for role in roles]
