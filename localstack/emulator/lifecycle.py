"""The states of instances in time: pending, running, shutting-down, terminated, forgotten.

Stock moto jumps from nothing to `running` and from there to `terminated`. Here a transition may take time (see
`settings`); what is due happens at the beginning of the next request, under the server's lock, so there are no
timers. Each change of state is published to EventBridge.
"""

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any

from moto.ec2 import ec2_backends
from moto.ec2.models.instances import Instance, InstanceState

from . import ACCOUNT, notices, settings
from .services import reservations

_due: list[tuple[float, int, Callable[[], None]]] = []
_order = itertools.count()


def reset() -> None:
    _due.clear()


def advance() -> None:
    """Lets everything happen whose time has come."""
    now = time.monotonic()
    while _due and _due[0][0] <= now:
        heapq.heappop(_due)[2]()


def _later(seconds: float, change: Callable[[], None]) -> None:
    heapq.heappush(_due, (time.monotonic() + seconds, next(_order), change))


def launched(instance: Instance) -> None:
    if settings.current.pending_seconds > 0:
        _enter(instance, "pending", 0)
        _later(settings.current.pending_seconds, lambda: _run(instance))
    else:
        _run(instance)


def _run(instance: Instance) -> None:
    if instance.state in ("pending", "running"):
        _enter(instance, "running", 16)


def terminating(instance: Instance) -> None:
    """A terminate call; repeating it changes nothing."""
    if instance.state in ("shutting-down", "terminated"):
        return
    _enter(instance, "shutting-down", 32)
    if settings.current.shutting_down_seconds > 0:
        _later(settings.current.shutting_down_seconds, lambda: _terminate(instance))
    else:
        _terminate(instance)


def _terminate(instance: Instance) -> None:
    Instance.terminate(instance)
    reservations.give_back(instance.ec2_backend.region_name, instance.id)
    _publish(instance)
    _later(settings.current.terminated_seconds, lambda: _forget(instance))


def interrupted(region: str, instance_id: str, seconds: float) -> None:
    """The end EC2 itself prepares for an instance it has warned."""
    instance = ec2_backends[ACCOUNT][region].get_instance(instance_id)
    _later(seconds, lambda: terminating(instance))


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
