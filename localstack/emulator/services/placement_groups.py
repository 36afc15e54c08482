"""Placement groups: where instances are in relation to each other.

A partition group has numbered partitions; a launch that names none gets the emptiest. Nothing here is ever too close
or too far: groups of the strategies `cluster` and `spread` take whatever is launched into them.
"""

from dataclasses import dataclass, field
from typing import Any

from moto.ec2 import ec2_backends
from moto.moto_api._internal import mock_random

from .. import ACCOUNT, errors
from . import ec2_wire
from .ec2_wire import Parameters, Refusal
from .request import Request

STRATEGIES = ("cluster", "partition", "spread")
MOST_PARTITIONS = 7
UNKNOWN = "InvalidPlacementGroup.Unknown"


@dataclass
class Group:
    id: str
    name: str
    strategy: str
    partitions: int | None
    tags: dict[str, str] = field(default_factory=dict)


# region -> name -> group
_all: dict[str, dict[str, Group]] = {}


def reset() -> None:
    _all.clear()


def make(region: str, name: str, strategy: str, partitions: int | None = None, **rest: Any) -> Group:
    groups = _all.setdefault(region, {})
    if name in groups:
        raise Refusal("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    if strategy not in STRATEGIES:
        raise Refusal("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
    if strategy == "partition":
        partitions = partitions or 2
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise Refusal("InvalidParameterValue", f"Value ({partitions}) for parameter partitionCount is invalid.")
    made = Group(f"pg-{mock_random.get_random_hex(17)}", name, strategy, partitions, **rest)
    groups[name] = made
    return made


def place(region: str, placement: dict[str, Any]) -> tuple[Group | None, int | None]:
    """The group and the partition a launch gets; a group that is not there is refused."""
    identifier, name = placement.get("GroupId"), placement.get("GroupName")
    if not identifier and not name:
        return None, None
    for group in _all.get(region, {}).values():
        if group.id == identifier or group.name == name:
            wanted = int(placement.get("PartitionNumber") or 0)
            if wanted > (group.partitions or 0):
                message = f"Value ({wanted}) for parameter partitionNumber is invalid."
                raise Refusal("InvalidParameterValue", message)
            return group, wanted or _emptiest(region, group)
    raise Refusal(UNKNOWN, f"The Placement Group '{identifier or name}' is unknown.")


def _emptiest(region: str, group: Group) -> int | None:
    if not group.partitions:
        return None
    taken = dict.fromkeys(range(1, group.partitions + 1), 0)
    for instance in ec2_backends[ACCOUNT][region].all_instances():
        placement = instance.placement
        if instance.state != "terminated" and getattr(placement, "group_id", None) == group.id:
            taken[placement.partition_number] += 1
    return min(taken, key=lambda number: taken[number])


def answer(request: Request) -> errors.Reply | None:
    return ec2_wire.answer(request, _ANSWERS)


def _create(region: str, parameters: Parameters) -> dict[str, Any]:
    partitions = parameters.get("PartitionCount")
    made = make(
        region,
        parameters.need("GroupName"),
        parameters.get("Strategy") or "cluster",
        int(partitions) if partitions else None,
        tags=parameters.tags(),
    )
    return {"return": True, "placementGroup": _row(made)}


def _describe(region: str, parameters: Parameters) -> dict[str, Any]:
    groups = _all.get(region, {})
    names, ids = parameters.listed("GroupName"), parameters.listed("GroupId")
    known = {group.id for group in groups.values()}
    for unknown in [*(name for name in names if name not in groups), *(each for each in ids if each not in known)]:
        raise Refusal(UNKNOWN, f"The Placement Group '{unknown}' is unknown.")
    filters = parameters.filters()
    rows = [
        _row(group)
        for group in groups.values()
        if (not names and not ids) or group.name in names or group.id in ids
        if ec2_wire.passes(_values(group), group.tags, filters)
    ]
    return {"placementGroupSet": rows}


def _delete(region: str, parameters: Parameters) -> dict[str, Any]:
    name = parameters.need("GroupName")
    if name not in _all.get(region, {}):
        raise Refusal(UNKNOWN, f"The Placement Group '{name}' is unknown.")
    del _all[region][name]
    return {"return": True}


_ANSWERS = {"CreatePlacementGroup": _create, "DescribePlacementGroups": _describe, "DeletePlacementGroup": _delete}


def _values(group: Group) -> dict[str, str]:
    """What filters compare, by filter."""
    return {"state": "available", "strategy": group.strategy, "group-name": group.name}


def _row(group: Group) -> dict[str, Any]:
    return {
        "groupId": group.id,
        "groupName": group.name,
        "strategy": group.strategy,
        "state": "available",
        "partitionCount": group.partitions,
        "tagSet": ec2_wire.tag_set(group.tags),
    }
