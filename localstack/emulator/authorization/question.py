"""One question to IAM, and the context keys that many of them share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import ACCOUNT

Context = dict[str, str | list[str]]


class Unknown(Exception):
    """Nobody has said yet what AWS would ask about this call."""


@dataclass(frozen=True)
class Question:
    action: str
    resource: str
    context: Context = field(default_factory=dict)


def partition(region: str) -> str:
    return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"


def arn(service: str, region: str, rest: str, account: str = ACCOUNT) -> str:
    return f"arn:{partition(region)}:{service}:{region}:{account}:{rest}"


def requested(tags: Mapping[str, str]) -> Context:
    """What a request that carries tags is known by."""
    if not tags:
        return {}
    return {f"aws:RequestTag/{key}": value for key, value in tags.items()} | {"aws:TagKeys": sorted(tags)}


def existing(tags: Mapping[str, str]) -> Context:
    """What a resource that carries tags is known by."""
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}


def plain(rows: object) -> dict[str, str]:
    """Tags in any of the forms in which backends keep them."""
    if isinstance(rows, dict):
        return {key: str(row["Value"] if isinstance(row, dict) else row) for key, row in rows.items()}
    return {str(row["Key"]): str(row.get("Value", "")) for row in rows or []}  # type: ignore[attr-defined]
