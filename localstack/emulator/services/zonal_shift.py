"""ARC zonal shift: GetManagedResource for clusters, with the shifts a test has started."""

import time

from .. import errors
from .request import Request

_shifts: dict[str, list[dict[str, object]]] = {}


def reset() -> None:
    _shifts.clear()


def shift(cluster_arn: str, zone_id: str, seconds: float) -> None:
    """Traffic of the cluster moves away from `zone_id` for so long; 0 ends it."""
    rows = [row for row in _shifts.get(cluster_arn, []) if row["awayFrom"] != zone_id]
    now = time.time()
    if seconds > 0:
        rows.append(
            {
                "appliedStatus": "APPLIED",
                "zonalShiftId": f"zs-{len(rows)}-{zone_id}",
                "resourceIdentifier": cluster_arn,
                "awayFrom": zone_id,
                "expiryTime": now + seconds,
                "startTime": now,
                "comment": "started by the test",
            }
        )
    _shifts[cluster_arn] = rows


def operation(request: Request) -> str:
    found = request.method == "GET" and request.path.startswith("/managedresources/")
    return "GetManagedResource" if found else request.action


def answer(request: Request) -> errors.Reply | None:
    if request.service != "arc-zonal-shift":
        return None
    prefix, _, arn = request.path.partition("/managedresources/")
    if request.method != "GET" or prefix or not arn:
        message = f"arc-zonal-shift:{request.method} {request.path}"
        return errors.error(request.service, "NotImplementedByEmulator", message, 501)
    active = [row for row in _shifts.get(arn, []) if float(str(row["expiryTime"])) > time.time()]
    return errors.json_reply(
        {
            "arn": arn,
            "name": arn.rpartition("/")[2],
            "appliedWeights": {},
            "zonalShifts": active,
            "autoshifts": [],
            "zonalAutoshiftStatus": "DISABLED",
        }
    )
