"""Capacity reservations: capacity of one type in one zone, paid for whether it is used or not.

Only launches that name a reservation go into it; the preference `open` finds none here. A launch takes one instance
off what is available, its end gives it back. When a reservation is cancelled or its time is over, its instances go on
as on-demand ones.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.moto_api._internal import mock_random

from .. import ACCOUNT, errors
from . import ec2_wire
from .ec2_wire import Parameters, Refusal
from .request import Request

EXCEEDED = "ReservationCapacityExceeded"


@dataclass
class Reservation:
    id: str
    instance_type: str
    zone: str
    total: int
    match_criteria: str = "open"
    kind: str = "default"
    interruptible: bool = False
    ends_at: datetime | None = None
    tags: dict[str, str] = field(default_factory=dict)
    cancelled: bool = False
    # So many more than there are is what EC2 says is left.
    overstated: int = 0
    instances: set[str] = field(default_factory=set)

    @property
    def state(self) -> str:
        if self.cancelled:
            return "cancelled"
        return "expired" if self.ends_at and self.ends_at <= datetime.now(UTC) else "active"

    @property
    def left(self) -> int:
        return max(0, self.total - len(self.instances)) if self.state == "active" else 0


# region -> id -> reservation
_all: dict[str, dict[str, Reservation]] = {}


def reset() -> None:
    _all.clear()


def make(region: str, instance_type: str, zone: str, count: int, **rest: Any) -> Reservation:
    """Buys capacity. With `overstated` EC2 describes so many instances more than it has."""
    if instance_type not in INSTANCE_TYPES:
        raise Refusal("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
    made = Reservation(f"cr-{mock_random.get_random_hex(17)}", instance_type, zone, count, **rest)
    _all.setdefault(region, {})[made.id] = made
    return made


def targeted(data: dict[str, Any]) -> str | None:
    """The reservation a launch template names."""
    specification = data.get("CapacityReservationSpecification") or {}
    return (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")


def room(
    region: str, reservation: str, instance_type: str, zone: str, wanted: int
) -> tuple[int, tuple[str, str] | None]:
    """How many of `wanted` instances still fit into a reservation, and what stops the others."""
    found = _all.get(region, {}).get(reservation)
    if found is None:
        return 0, (EXCEEDED, f"The capacity reservation '{reservation}' does not exist")
    if (found.instance_type, found.zone) != (instance_type, zone):
        return 0, (EXCEEDED, f"The capacity reservation '{reservation}' is not for {instance_type} in {zone}")
    count = min(wanted, found.left)
    full = (EXCEEDED, f"The requested capacity reservation '{reservation}' has no available capacity")
    return count, full if count < wanted else None


def take(region: str, reservation: str, instance: str) -> None:
    _all[region][reservation].instances.add(instance)


def give_back(region: str, instance: str) -> None:
    """An instance has ended."""
    for found in _all.get(region, {}).values():
        found.instances.discard(instance)


def _let_go(region: str, reservation: Reservation) -> None:
    """The instances of a reservation that has ended are on-demand ones, and count as such."""
    # The states of instances build on reservations.
    from moto.ec2.models import ec2_backends

    from .. import capacity

    backend = ec2_backends[ACCOUNT][region]
    for identifier in sorted(reservation.instances):
        backend.get_instance(identifier).capacity_reservation_id = None
        capacity.take(reservation.instance_type, reservation.zone, "on-demand", 1)
    reservation.instances.clear()


def advance() -> int:
    """Lets go of what reservations hold whose time is over; their number. EC2 ends the instances of capacity blocks."""
    over = [
        (region, found)
        for region, known in _all.items()
        for found in known.values()
        if found.instances and found.state == "expired" and found.kind == "default"
    ]
    for region, found in over:
        _let_go(region, found)
    return len(over)


def answer(request: Request) -> errors.Reply | None:
    return ec2_wire.answer(request, _ANSWERS)


def _create(region: str, parameters: Parameters) -> dict[str, Any]:
    ends_at = parameters.get("EndDate")
    made = make(
        region,
        parameters.need("InstanceType"),
        parameters.need("AvailabilityZone"),
        int(parameters.need("InstanceCount")),
        match_criteria=parameters.get("InstanceMatchCriteria") or "open",
        ends_at=datetime.fromisoformat(ends_at).astimezone(UTC) if ends_at else None,
        tags=parameters.tags(),
    )
    return {"capacityReservation": _row(made)}


def _describe(region: str, parameters: Parameters) -> dict[str, Any]:
    known = _all.get(region, {})
    ids = parameters.listed("CapacityReservationId")
    for unknown in (identifier for identifier in ids if identifier not in known):
        message = f"The capacity reservation '{unknown}' does not exist"
        raise Refusal("InvalidCapacityReservationId.NotFound", message)
    filters = parameters.filters()
    rows = [
        _row(found)
        for found in known.values()
        if (not ids or found.id in ids) and ec2_wire.passes(_values(found), found.tags, filters)
    ]
    return {"capacityReservationSet": rows}


def _cancel(region: str, parameters: Parameters) -> dict[str, Any]:
    identifier = parameters.need("CapacityReservationId")
    if (found := _all.get(region, {}).get(identifier)) is None:
        message = f"The capacity reservation '{identifier}' does not exist"
        raise Refusal("InvalidCapacityReservationId.NotFound", message)
    found.cancelled = True
    _let_go(region, found)
    return {"return": True}


_ANSWERS = {
    "CreateCapacityReservation": _create,
    "DescribeCapacityReservations": _describe,
    "CancelCapacityReservation": _cancel,
}


def _values(found: Reservation) -> dict[str, str]:
    """What filters compare, by filter."""
    return {
        "state": found.state,
        "owner-id": ACCOUNT,
        "instance-match-criteria": found.match_criteria,
        "instance-type": found.instance_type,
        "availability-zone": found.zone,
    }


def _row(found: Reservation) -> dict[str, Any]:
    return {
        "capacityReservationId": found.id,
        "ownerId": ACCOUNT,
        "instanceType": found.instance_type,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": found.zone,
        "tenancy": "default",
        "totalInstanceCount": found.total,
        "availableInstanceCount": found.left + found.overstated,
        "state": found.state,
        "endDate": found.ends_at,
        "endDateType": "limited" if found.ends_at else "unlimited",
        "instanceMatchCriteria": found.match_criteria,
        "reservationType": found.kind,
        "interruptible": found.interruptible,
        "tagSet": ec2_wire.tag_set(found.tags),
    }
