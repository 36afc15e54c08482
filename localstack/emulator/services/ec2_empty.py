"""EC2 calls whose honest answer in this account is: there are none."""

from .. import errors
from .request import Request

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_LISTS = {"DescribeCapacityReservations": "capacityReservationSet", "DescribePlacementGroups": "placementGroupSet"}
_NOT_FOUND = {
    "DescribeCapacityReservations": ("CapacityReservationId.1", "InvalidCapacityReservationId.NotFound"),
    "DescribePlacementGroups": ("GroupName.1", "InvalidPlacementGroup.Unknown"),
}


def answer(request: Request) -> errors.Reply | None:
    if request.service != "ec2" or request.action not in _LISTS:
        return None
    if request.form("DryRun") == "true":
        return errors.error("ec2", "DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
    parameter, code = _NOT_FOUND[request.action]
    if (wanted := request.form(parameter)) is not None:
        return errors.error("ec2", code, f"'{wanted}' does not exist")
    name = f"{request.action}Response"
    text = f'<{name} xmlns="{_NAMESPACE}"><requestId>emulator</requestId><{_LISTS[request.action]}/></{name}>'
    return errors.Reply(200, "text/xml", text.encode())
