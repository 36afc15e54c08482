"""The states of instances in time: pending, running, stopping, stopped, shutting-down, terminated, forgotten.

Stock moto jumps from nothing to `running` and from there to `stopped` or `terminated`. Here a transition may take
time (see `settings`); what is due happens at the beginning of the next request, under the server's lock, so there are
no timers. Each change of state is published to EventBridge.
"""

import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from moto.core.utils import utcnow
from moto.ec2 import ec2_backends
from moto.ec2.models.instances import Instance, InstanceState, StateReason

from . import ACCOUNT, notices, settings
from .services import reservations

SPOT_TERMINATION = "Server.SpotInstanceTermination"

_due: list[tuple[float, int, Callable[[], None]]] = []
_order = itertools.count()
_happened = 0


def reset() -> None:
    _due.clear()


def advance() -> None:
    """Lets everything happen whose time has come."""
    global _happened
    now = time.monotonic()
    while _due and _due[0][0] <= now:
        heapq.heappop(_due)[2]()
        _happened += 1
    _happened += reservations.advance()


def happened() -> int:
    """How much has happened by itself so far."""
    return _happened


def later(seconds: float, change: Callable[[], None]) -> None:
    """Lets `change` happen after so long, under the server's lock."""
    heapq.heappush(_due, (time.monotonic() + seconds, next(_order), change))


def launched(instance: Instance) -> None:
    if settings.current.pending_seconds > 0:
        _enter(instance, "pending", 0)
        later(settings.current.pending_seconds, lambda: _run(instance))
    else:
        _run(instance)


def _run(instance: Instance) -> None:
    if instance.state in ("pending", "running"):
        _enter(instance, "running", 16)


def stopping(instance: Instance) -> None:
    """A stop call; repeating it changes nothing."""
    if instance.state in ("stopping", "stopped"):
        return
    _enter(instance, "stopping", 64)
    if settings.current.stopping_seconds > 0:
        later(settings.current.stopping_seconds, lambda: _stop(instance))
    else:
        _stop(instance)


def _stop(instance: Instance) -> None:
    # It may have been terminated in the meantime.
    if instance.state != "stopping":
        return
    Instance.stop(instance)
    reservations.give_back(instance.ec2_backend.region_name, instance.id)
    _publish(instance)


def starting(instance: Instance) -> None:
    """A start call; only a stopped instance starts."""
    if instance.state != "stopped":
        return
    Instance.start(instance)
    # EC2 counts from the last start.
    instance.launch_time = utcnow()
    launched(instance)


def terminating(instance: Instance, reason: str | None = None) -> None:
    """A terminate call, or EC2's own doing for a `reason`; repeating it changes nothing."""
    if instance.state in ("shutting-down", "terminated"):
        return
    _enter(instance, "shutting-down", 32)
    if settings.current.shutting_down_seconds > 0:
        later(settings.current.shutting_down_seconds, lambda: _terminate(instance, reason))
    else:
        _terminate(instance, reason)


def _terminate(instance: Instance, reason: str | None) -> None:
    Instance.terminate(instance)
    if reason is not None:
        instance._reason = f"Service initiated ({datetime.now(UTC):%Y-%m-%d %H:%M:%S} GMT)"
        instance.state_reason = StateReason(f"{reason}: Spot instance termination", reason)
    reservations.give_back(instance.ec2_backend.region_name, instance.id)
    _publish(instance)
    later(settings.current.terminated_seconds, lambda: _forget(instance))


def interrupted(region: str, instance_id: str, seconds: float) -> None:
    """The end EC2 itself prepares for an instance it has warned."""
    instance = ec2_backends[ACCOUNT][region].get_instance(instance_id)
    reason = SPOT_TERMINATION if instance.lifecycle == "spot" else None
    later(seconds, lambda: terminating(instance, reason))


def _forget(instance: Instance) -> None:
    backend = instance.ec2_backend
    for key, reservation in list(backend.reservations.items()):
        if instance in reservation.instances:
            reservation.instances.remove(instance)
            if not reservation.instances:
                del backend.reservations[key]
            break
    backend.tags.pop(instance.id, None)


def _enter(instance: Instance, name: str, code: int) -> None:
    instance._state = InstanceState(name, code)
    _publish(instance)


def _publish(instance: Instance) -> None:
    if settings.current.state_change_events:
        notices.state_change(instance.ec2_backend.region_name, instance.id, instance.state)


def all_instances(region: str) -> list[Any]:
    return ec2_backends[ACCOUNT][region].all_instances()
