"""DescribeSpotInstanceRequests: the requests that fleets have made, which live as long as their instances are shown.

moto knows only those of RequestSpotInstances; they are shown, too.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses.spot_instances import SpotInstances

from ..services import ec2_wire
from . import replace

# State of an instance -> state and status of its request.
FULFILLED = ("active", "fulfilled", "Your Spot request is fulfilled.")
ENDED = {
    False: ("closed", "instance-terminated-by-user", "Your Spot instance was terminated by the user."),
    True: ("closed", "instance-terminated-no-capacity", "Your Spot instance was terminated: no capacity is left."),
}


def apply() -> None:
    @replace(SpotInstances, "describe_spot_instance_requests")
    def describe(original: Any, self: Any) -> ActionResult:
        wanted, filters = self._get_param("SpotInstanceRequestIds", []), self._filters_from_querystring()
        backend = self.ec2_backend
        rows = [_row(backend, instance) for instance in backend.all_instances() if _of_fleet(instance)]
        if missing := set(wanted) - {row["SpotInstanceRequestId"] for row in rows}:
            if missing != set(wanted) or not missing <= set(backend.spot_instance_requests):
                message = f"The spot instance request ID '{min(missing)}' does not exist"
                raise EC2ClientError("InvalidSpotInstanceRequestID.NotFound", message)
            answer: ActionResult = original(self)
            return answer
        shown = [row for row in rows if not wanted or row["SpotInstanceRequestId"] in wanted]
        shown = [row for row in shown if ec2_wire.passes(_values(row), _tags(row), filters)]
        others = [] if wanted else original(self).result["SpotInstanceRequests"]
        return ActionResult({"SpotInstanceRequests": [*shown, *others]})


def _of_fleet(instance: Any) -> bool:
    return getattr(instance, "spot_instance_request_id", None) is not None


def _row(backend: Any, instance: Any) -> dict[str, Any]:
    identifier = instance.spot_instance_request_id
    by_ec2 = getattr(instance.state_reason, "code", "").startswith("Server.") if instance.state_reason else False
    over = instance.state in ("shutting-down", "terminated")
    state, code, message = ENDED[by_ec2] if over else FULFILLED
    tags = backend.tags.get(identifier, {})
    return {
        "SpotInstanceRequestId": identifier,
        "InstanceId": instance.id,
        "State": state,
        "Status": {"Code": code, "Message": message, "UpdateTime": instance.launch_time},
        "Type": getattr(instance, "spot_instance_type", "one-time"),
        "CreateTime": instance.launch_time,
        "InstanceInterruptionBehavior": "terminate",
        "ProductDescription": "Linux/UNIX",
        "LaunchedAvailabilityZone": instance.availability_zone,
        "LaunchSpecification": {
            "ImageId": instance.image_id,
            "InstanceType": instance.instance_type,
            "SubnetId": instance.subnet_id,
        },
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }


def _values(row: dict[str, Any]) -> dict[str, str]:
    """What filters compare, by filter."""
    return {
        "spot-instance-request-id": row["SpotInstanceRequestId"],
        "instance-id": row["InstanceId"],
        "state": row["State"],
        "status-code": row["Status"]["Code"],
        "type": row["Type"],
        "launched-availability-zone": row["LaunchedAvailabilityZone"],
        "launch.instance-type": row["LaunchSpecification"]["InstanceType"],
    }


def _tags(row: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in row["Tags"]}
