"""What a diagnosis asks and stock moto does not answer: the default key of volumes, and what IAM would say.

The simulation knows what the policies here are made of: actions, resources with wildcards, equality and likeness of
texts. A condition it does not know never grants, and a denial with one always applies.
"""

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses.settings import Settings
from moto.iam.exceptions import NotFoundException
from moto.iam.responses import IamResponse

from .. import ACCOUNT
from . import add

KNOWN = ("StringEquals", "StringLike", "ArnEquals", "ArnLike")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _any(patterns: Any, text: str) -> bool:
    return any(fnmatchcase(text.lower(), str(pattern).lower()) for pattern in _list(patterns))


def _fits(condition: dict[str, Any], context: dict[str, str], unknown: bool) -> bool:
    for operator, keys in condition.items():
        if operator not in KNOWN:
            return unknown
        if not all(key.lower() in context and _any(wanted, context[key.lower()]) for key, wanted in keys.items()):
            return False
    return True


def decide(documents: Iterable[str], action: str, resource: str, context: dict[str, str]) -> str:
    """`allowed`, `implicitDeny` or `explicitDeny`, as IAM calls them."""
    found = "implicitDeny"
    for document in documents:
        for statement in _list(json.loads(document).get("Statement")):
            deny = statement.get("Effect") == "Deny"
            meant = _any(statement["Action"], action) if "Action" in statement else not _any(
                statement.get("NotAction"), action
            )
            if (
                meant
                and _any(statement.get("Resource", "*"), resource)
                and _fits(statement.get("Condition") or {}, context, unknown=deny)
            ):
                if deny:
                    return "explicitDeny"
                found = "allowed"
    return found


def _in_force(policy: Any) -> str:
    return next(str(version.document) for version in policy.versions if version.version_id == policy.default_version_id)


def _get_ebs_default_kms_key_id(self: Any) -> ActionResult:
    chosen = getattr(self.ec2_backend, "default_kms_key_id", None)
    region = self.ec2_backend.region_name
    return ActionResult({"KmsKeyId": chosen or f"arn:aws:kms:{region}:{ACCOUNT}:alias/aws/ebs"})


def _context(response: Any) -> dict[str, str]:
    entries = response._get_params().get("ContextEntries") or []
    return {entry["ContextKeyName"].lower(): _list(entry["ContextKeyValues"])[0] for entry in entries}


def _simulate_principal_policy(self: Any) -> ActionResult:
    arn = self._get_param("PolicySourceArn")
    role = next((role for role in self.backend.get_roles() if role.arn == arn), None)
    if role is None:
        raise NotFoundException(f"The role with name {arn.rpartition('/')[2]} cannot be found.")
    own = [_in_force(policy) for policy in role.managed_policies.values()] + list(role.policies.values())
    boundary = role.permissions_boundary_arn
    resources = self._get_params().get("ResourceArns") or ["*"]
    results = []
    for action in self._get_params().get("ActionNames") or []:
        for resource in resources:
            context = _context(self)
            result: dict[str, Any] = {"EvalActionName": action, "EvalResourceName": resource}
            decision = decide(own, action, resource, context)
            if boundary:
                limits = _in_force(self.backend.get_policy(boundary))
                within = decide([limits], action, resource, context) == "allowed"
                result["PermissionsBoundaryDecisionDetail"] = {"AllowedByPermissionsBoundary": within}
                if decision == "allowed" and not within:
                    decision = "implicitDeny"
            results.append(result | {"EvalDecision": decision, "MatchedStatements": [], "MissingContextValues": []})
    return ActionResult({"EvaluationResults": results, "IsTruncated": False})


def apply() -> None:
    add(Settings, "get_ebs_default_kms_key_id", _get_ebs_default_kms_key_id)
    add(IamResponse, "simulate_principal_policy", _simulate_principal_policy)
