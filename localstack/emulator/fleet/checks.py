"""Why a candidate cannot be launched, in the codes and words EC2 puts into a fleet's `Errors`."""

import base64
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from .. import capacity, settings
from ..patches import iam
from ..services import ec2_wire, placement_groups, reservations
from ..services.spot_prices import sold_as_spot
from .request import Candidate

Refusal = tuple[str, str]
USER_DATA_BYTES = 16384


def possible(backend: Any, candidate: Candidate, wanted: int) -> tuple[int, Refusal | None]:
    """How many of `wanted` instances can start, and what stops the others."""
    for check in (_type, _image, _profile, _security_groups, _user_data, _spot_role, _placement_group):
        if refusal := check(backend, candidate):
            return 0, refusal
    count, refusal = _room(backend, candidate, wanted)
    if count == 0:
        return 0, refusal
    free = candidate.subnet.available_ip_address_count
    if free < count:
        message = (
            f"There are not enough free addresses in subnet '{candidate.subnet.id}' to satisfy the requested number "
            "of instances."
        )
        count, refusal = free, ("InsufficientFreeAddressesInSubnet", message)
    return count, refusal


def _room(backend: Any, candidate: Candidate, wanted: int) -> tuple[int, Refusal | None]:
    """Capacity of the reservation the launch names, or of everybody."""
    name, zone = candidate.instance_type, candidate.zone
    if (reservation := reservations.targeted(candidate.data)) is not None:
        return reservations.room(backend.region_name, reservation, name, zone, wanted)
    count, code, message = capacity.available(name, zone, candidate.capacity_type, wanted)
    return count, (code, message) if count < wanted else None


def _placement_group(backend: Any, candidate: Candidate) -> Refusal | None:
    try:
        placement_groups.place(backend.region_name, candidate.data.get("Placement") or {})
    except ec2_wire.Refusal as refusal:
        return refusal.code, refusal.message
    return None


def _type(backend: Any, candidate: Candidate) -> Refusal | None:
    name, zone = candidate.instance_type, candidate.zone
    if name not in INSTANCE_TYPES:
        return "InvalidParameterValue", f"Invalid value '{name}' for InstanceType."
    if (name, zone) not in _offered(backend.region_name):
        message = (
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone})."
        )
        return "Unsupported", message
    if candidate.capacity_type == "spot" and not sold_as_spot(name):
        return "Unsupported", f"Spot Instances are not supported for the instance type {name}."
    return None


_offerings: dict[str, set[tuple[str, str]]] = {}


def _offered(region: str) -> set[tuple[str, str]]:
    if region not in _offerings:
        rows = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
        _offerings[region] = {(row["InstanceType"], row["Location"]) for row in rows}
    return _offerings[region]


def _image(backend: Any, candidate: Candidate) -> Refusal | None:
    identifier = candidate.data["ImageId"]
    image = backend.amis.get(identifier)
    if image is None:
        return "InvalidAMIID.NotFound", f"The image id '[{identifier}]' does not exist"
    supported = INSTANCE_TYPES[candidate.instance_type]["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture and image.architecture not in supported:
        message = (
            f"The architecture '{','.join(supported)}' of the specified instance type does not match the "
            f"architecture '{image.architecture}' of the specified AMI."
        )
        return "InvalidParameterValue", message
    return None


def _profile(_backend: Any, candidate: Candidate) -> Refusal | None:
    wanted = candidate.data.get("IamInstanceProfile") or {}
    name, arn = wanted.get("Name"), wanted.get("Arn")
    if not name and not arn:
        return None
    profiles = iam.backend().get_instance_profiles()
    if any(profile.name == name or profile.arn == arn for profile in profiles):
        return None
    field, value = ("name", name) if name else ("arn", arn)
    message = (
        f"Value ({value}) for parameter iamInstanceProfile.{field} is invalid. Invalid IAM Instance Profile {field}"
    )
    return "InvalidParameterValue", message


def security_group_ids(data: dict[str, Any]) -> list[str]:
    groups = list(data.get("SecurityGroupIds") or [])
    for interface in data.get("NetworkInterfaces") or []:
        groups.extend(interface.get("Groups") or [])
    return list(dict.fromkeys(groups))


def _security_groups(backend: Any, candidate: Candidate) -> Refusal | None:
    for identifier in security_group_ids(candidate.data):
        group = backend.get_security_group_from_id(identifier)
        if group is None:
            return "InvalidGroup.NotFound", f"The security group '{identifier}' does not exist"
        if group.vpc_id != candidate.subnet.vpc_id:
            message = f"Security group {identifier} and subnet {candidate.subnet.id} belong to different networks."
            return "InvalidParameter", message
    return None


def _user_data(_backend: Any, candidate: Candidate) -> Refusal | None:
    encoded = candidate.data.get("UserData")
    if encoded and len(base64.b64decode(str(encoded))) > USER_DATA_BYTES:
        return "InvalidParameterValue", f"User data is limited to {USER_DATA_BYTES} bytes"
    return None


def _spot_role(_backend: Any, candidate: Candidate) -> Refusal | None:
    if candidate.capacity_type != "spot" or iam.spot_role_exists():
        return None
    if settings.current.spot_role == "implicit":
        iam.create_spot_role()
        return None
    message = (
        "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
    )
    return "AuthFailure.ServiceLinkedRoleCreationNotPermitted", message
