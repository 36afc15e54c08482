"""StopInstances and StartInstances: states in time, with events, and refused where EC2 refuses them.

Stock moto stops whatever it is asked to, at once and without an event. An instance is stopped as what it was launched
as, so RunInstances is looked at here, too: only a persistent spot request lets its instance be stopped.
"""

import copy
from collections.abc import Callable
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import Instance
from moto.ec2.responses.instances import InstanceResponse

from .. import capacity, lifecycle
from ..services import reservations
from . import replace

# From these states a call leads on; EC2 refuses it in all others.
STOPPABLE = {"running", "stopping", "stopped"}
STARTABLE = {"stopped", "pending", "running"}


def apply() -> None:
    @replace(InstanceResponse, "run_instances")
    def run_instances(original: Any, self: Any) -> ActionResult:
        answer: Any = original(self)
        options = self._get_param("InstanceMarketOptions", {})
        kind = (options.get("SpotOptions") or {}).get("SpotInstanceType") or "one-time"
        for instance in answer.result.instances:
            instance.spot_instance_type = kind
            lifecycle.launched(instance)
        return answer

    @replace(InstanceResponse, "stop_instances")
    def stop_instances(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        if self._get_bool_param("Hibernate", False):
            raise NotImplementedError("StopInstances with Hibernate")
        instances = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        # One that is refused keeps all others from being stopped.
        for instance in instances:
            _check_stop(instance)
        rows = [_changed(instance, lifecycle.stopping, "stopping", 64) for instance in instances]
        return ActionResult({"StoppingInstances": rows})

    @replace(InstanceResponse, "start_instances")
    def start_instances(_original: Any, self: Any) -> ActionResult:
        self.error_on_dryrun()
        instances = self.ec2_backend.get_multi_instances_by_id(self._get_param("InstanceIds", []))
        for instance in instances:
            _check_start(instance)
        rows = [_changed(instance, _start, "pending", 0) for instance in instances]
        return ActionResult({"StartingInstances": rows})


def _changed(instance: Instance, change: Callable[[Instance], None], name: str, code: int) -> dict[str, Any]:
    """Changes the state. EC2 answers with the first state on the way, even if it is over a moment later."""
    before = copy.copy(instance._state)
    # An instance that is in the state already, or on the way there, stays as it is.
    idle = before.name in {"stopping": ("stopping", "stopped"), "pending": ("pending", "running")}[name]
    change(instance)
    now = before if idle else type(before)(name, code)
    return {"InstanceId": instance.id, "CurrentState": now, "PreviousState": before}


def _check_stop(instance: Instance) -> None:
    if instance.lifecycle == "spot" and getattr(instance, "spot_instance_type", "one-time") != "persistent":
        message = (
            f"You can't stop the Spot Instance '{instance.id}' because it is associated with a one-time Spot Instance "
            "request. You can only stop Spot Instances associated with persistent Spot Instance requests."
        )
        raise EC2ClientError("UnsupportedOperation", message)
    if instance.state not in STOPPABLE:
        message = f"This instance '{instance.id}' is not in a state from which it can be stopped."
        raise EC2ClientError("IncorrectInstanceState", message)
    if instance.disable_api_stop:
        message = (
            f"The instance '{instance.id}' may not be stopped. Modify its 'disableApiStop' instance attribute and "
            "try again."
        )
        raise EC2ClientError("OperationNotPermitted", message)


def _check_start(instance: Instance) -> None:
    if instance.state not in STARTABLE:
        message = f"The instance '{instance.id}' is not in a state from which it can be started."
        raise EC2ClientError("IncorrectInstanceState", message)


def _start(instance: Instance) -> None:
    if instance.state == "stopped":
        _take_capacity(instance)
    lifecycle.starting(instance)


def _take_capacity(instance: Instance) -> None:
    """A stopped instance has given its capacity back, and starts only where there is some."""
    name, zone = instance.instance_type, str(instance.availability_zone)
    region = instance.ec2_backend.region_name
    if (reservation := getattr(instance, "capacity_reservation_id", None)) is not None:
        count, refusal = reservations.room(region, reservation, name, zone, 1)
        if refusal is not None:
            raise EC2ClientError(*refusal)
        reservations.take(region, reservation, instance.id)
        return
    kind = instance.lifecycle or "on-demand"
    count, code, message = capacity.available(name, zone, kind, 1)
    if count == 0:
        raise EC2ClientError(code, message)
    capacity.take(name, zone, kind, 1)
